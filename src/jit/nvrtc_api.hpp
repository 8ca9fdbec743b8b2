// NVRTC, reached by dlopen and a function table; nothing of CUDA is linked.
#pragma once

#include <nvrtc.h>

#include <string>

#include "deepgemm/error.hpp"
#include "jit/kernel.hpp"

namespace deepgemm::jit {

struct NvrtcApi {
  decltype(&nvrtcVersion) Version;
  decltype(&nvrtcGetErrorString) GetErrorString;
  decltype(&nvrtcCreateProgram) CreateProgram;
  decltype(&nvrtcDestroyProgram) DestroyProgram;
  decltype(&nvrtcCompileProgram) CompileProgram;
  decltype(&nvrtcGetCUBINSize) GetCUBINSize;
  decltype(&nvrtcGetCUBIN) GetCUBIN;
  decltype(&nvrtcGetProgramLogSize) GetProgramLogSize;
  decltype(&nvrtcGetProgramLog) GetProgramLog;
  decltype(&nvrtcGetPTXSize) GetPTXSize;  // these two may be null
  decltype(&nvrtcGetPTX) GetPTX;
  std::string path;
  int major = 0, minor = 0;
};

// Found on first use and kept. Throws CompileError that lists every place tried. A failure is
// remembered for a while only, and forgotten at once if a setting of the search changes.
const NvrtcApi& nvrtc_api();

}  // namespace deepgemm::jit
