// The exceptions that leave the library. Python maps ValueError and TypeError to its own, and Error
// to deepgemm.Error (a RuntimeError); the C ABI maps them to status codes.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#if defined(_WIN32)
#define DEEPGEMM_API
#else
#define DEEPGEMM_API __attribute__((visibility("default")))
#endif

namespace deepgemm {

// A shape, stride, value or granularity that an operation cannot take.
class DEEPGEMM_API ValueError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// A dtype (or kind of object) that an operation cannot take.
class DEEPGEMM_API TypeError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Something outside the caller's arguments: driver, device, compiler, missing kernel.
class DEEPGEMM_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A CUDA driver call failed, or no usable driver was found. `code` is the CUresult, or -1.
class DEEPGEMM_API DriverError : public Error {
 public:
  DriverError(const std::string& message, int result) : Error(message), code(result) {}
  int code;
};

// NVRTC was not found or refused the source. what() holds the log; `log` holds it alone.
class DEEPGEMM_API CompileError : public Error {
 public:
  CompileError(const std::string& message, std::string compiler_log)
      : Error(message), log(std::move(compiler_log)) {}
  std::string log;
};

}  // namespace deepgemm
