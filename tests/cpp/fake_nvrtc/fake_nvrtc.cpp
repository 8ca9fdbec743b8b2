// An NVRTC that compiles nothing: the "cubin" is the source, so that the caches and the loader are
// tested without the compiler. A source with "BROKEN" in it fails, one with "SLOW" takes 100 ms.
#include <nvrtc.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct _nvrtcProgram {
  std::string source;
  std::string log;
  std::string cubin;
};

namespace {
std::atomic<int> compiles{0};
bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }
}  // namespace

EXPORT int fake_nvrtc_compiles() { return compiles; }

EXPORT nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
EXPORT const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_FAKE_ERROR";
}
EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                                      const char* const*, const char* const*) {
  *program = new _nvrtcProgram{source, {}, {}};
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  ++compiles;
  if (has(program->source, "SLOW")) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (has(program->source, "BROKEN")) {
    program->log = "fake.cu(1): error: this source is BROKEN";
    return NVRTC_ERROR_COMPILATION;
  }
  program->cubin = "ELF " + program->source;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->cubin.size();
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* bytes) {
  std::memcpy(bytes, program->cubin.data(), program->cubin.size());
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* text) {
  std::memcpy(text, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
