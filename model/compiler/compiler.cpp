// A libnvrtc for the modelled machine: "compiles" a translation unit with g++ into a shared object
// that calls the machine, with model/ptx in place of the kernels' own ptx folder. Only what the
// library calls is here.
//
// SM90_MODEL_MUTATE="file@@old@@new" replaces a text of one header first, once: how planted faults
// get in. SM90_MODEL_CXX names another compiler.
#include <nvrtc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "settings.hpp"

namespace {

namespace fs = std::filesystem;
using sm90::setting;

struct Program {
  std::string source, name, log, object;
  std::vector<std::pair<std::string, std::string>> headers;  // include name, text
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Empty if there is no mutation or it was made, else why it was not.
std::string mutate(Program& program) {
  const std::string wish = setting("SM90_MODEL_MUTATE", "");
  if (wish.empty()) return {};
  const auto first = wish.find("@@"), second = wish.find("@@", first + 2);
  if (first == std::string::npos || second == std::string::npos) {
    return "SM90_MODEL_MUTATE must be file@@old@@new";
  }
  const std::string file = wish.substr(0, first);
  const std::string old = wish.substr(first + 2, second - first - 2);
  for (auto& [name, text] : program.headers) {
    if (name != file) continue;
    const auto at = text.find(old);
    if (at == std::string::npos) return "SM90_MODEL_MUTATE: no such text in " + file;
    text.replace(at, old.size(), wish.substr(second + 2));
    return {};
  }
  return "SM90_MODEL_MUTATE: no file " + file;
}

// The entry, called with the address of its parameter.
std::string entry_of(const std::string& kernel) {
  return "\nnamespace {\ntemplate <class P>\nvoid call_entry(void (*entry)(P), void* p) {\n"
         "  entry(*static_cast<const P*>(p));\n}\n}\n"
         "extern \"C\" void sm90_entry(void* p) { call_entry(" +
         kernel +
         ", p); }\n"
         "template <class P>\nconstexpr unsigned long bytes_of_parameter(void (*)(P)) { return "
         "sizeof(P); }\n"
         "extern \"C\" const unsigned long sm90_parameter_bytes = bytes_of_parameter(" +
         kernel + ");\n";
}

void write_tree(const Program& program, const fs::path& folder) {
  for (const auto& [name, text] : program.headers) {
    if (name.starts_with("ptx/")) continue;  // the model's own
    const fs::path path = folder / "device" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const std::string kernel = fs::path(program.name).stem();
  std::ofstream(folder / "kernel.cpp")
      << "#include <cmath>\n#define __global__\n#define __launch_bounds__(...)\n"
         "#define __grid_constant__\n"
      << "#line 1 \"" << program.name << "\"\n"
      << program.source << entry_of(kernel);
}

int run(const std::string& command, std::string& output) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return -1;
  char buffer[4096];
  while (std::size_t got = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, got);
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

nvrtcResult compile(Program& program) {
  if (program.log = mutate(program); !program.log.empty()) return NVRTC_ERROR_COMPILATION;
  std::string pattern = fs::temp_directory_path() / "sm90-model-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return NVRTC_ERROR_OUT_OF_MEMORY;
  const fs::path folder = pattern;
  write_tree(program, folder);
  const std::string object = folder / "kernel.so";
  const std::string command = setting("SM90_MODEL_CXX", "g++") +
                              " -std=c++20 -O1 -fPIC -shared -w -ffp-contract=off -I" +
                              SM90_MODEL_ROOT + " -I" + (folder / "device").string() + " " +
                              (folder / "kernel.cpp").string() + " -o " + object;
  const int status = run(command, program.log);
  if (status == 0) program.object = text_of(object);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return program.object.empty() ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}

Program& of(nvrtcProgram program) { return *reinterpret_cast<Program*>(program); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// What a kernel depends on beside what the library's own key knows: the mutation and the model's
// ptx/ and api.hpp. As a version number it gets into the key of the library's cache, and no cubin
// of a real NVRTC is ever taken for one of these, nor the other way round.
EXPORT nvrtcResult nvrtcVersion(int* major, int* minor) {
  std::string everything = setting("SM90_MODEL_MUTATE", "");
  const fs::path root = SM90_MODEL_ROOT;
  for (const char* name : {"thread", "barrier", "memory", "tma", "wgmma"}) {
    everything += text_of(root / "ptx" / (std::string(name) + ".cuh"));
  }
  everything += text_of(root / "machine" / "api.hpp");
  *major = 13;
  *minor = 100 + static_cast<int>(std::hash<std::string>()(everything) % 1'000'000'000);
  return NVRTC_SUCCESS;
}
EXPORT const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION (SM90 model, g++)";
}
EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                                      int count, const char* const* headers,
                                      const char* const* names) {
  auto* made = new Program{source, name, {}, {}, {}};
  for (int i = 0; i < count; ++i) made->headers.emplace_back(names[i], headers[i]);
  *program = reinterpret_cast<nvrtcProgram>(made);
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete reinterpret_cast<Program*>(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  return compile(of(program));
}
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  *size = of(program).object.size();
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* target) {
  of(program).object.copy(target, of(program).object.size());
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  *size = of(program).log.size() + 1;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* target) {
  of(program).log.copy(target, of(program).log.size());
  target[of(program).log.size()] = '\0';
  return NVRTC_SUCCESS;
}
