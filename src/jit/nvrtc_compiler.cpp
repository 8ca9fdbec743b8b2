#include "jit/nvrtc_compiler.hpp"

#include <atomic>
#include <chrono>
#include <utility>

#include "core/text.hpp"
#include "jit/dump.hpp"
#include "jit/embedded_sources.hpp"
#include "jit/nvrtc_api.hpp"

namespace deepgemm::jit {
namespace {

std::atomic<ConfigWords> config_words{nullptr};

// Owns an nvrtcProgram whose headers are the embedded sources.
class Program {
 public:
  Program(const NvrtcApi& api, const std::string& source, const std::string& file) : api_(api) {
    std::vector<const char*> texts, names;
    std::vector<std::string> name_storage;
    const auto sources = embedded_sources();
    name_storage.reserve(sources.size());  // so that the pointers below stay valid
    for (const EmbeddedSource& header : sources) {
      name_storage.emplace_back(header.include_name);
      names.push_back(name_storage.back().c_str());
      texts.push_back(header.text.data());
    }
    const nvrtcResult result =
        api_.CreateProgram(&program_, source.c_str(), file.c_str(), static_cast<int>(names.size()),
                           texts.data(), names.data());
    if (result != NVRTC_SUCCESS) {
      throw CompileError(join("nvrtcCreateProgram: ", api_.GetErrorString(result)), {});
    }
  }
  ~Program() { api_.DestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return api_.CompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const {
    std::size_t size = 0;
    if (api_.GetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string text(size, '\0');
    if (api_.GetProgramLog(program_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(size - 1);  // NVRTC counts the NUL
    return text;
  }

  // Empty if there is none.
  std::string cubin() const {
    std::size_t size = 0;
    if (api_.GetCUBINSize(program_, &size) != NVRTC_SUCCESS || size == 0) return {};
    std::string bytes(size, '\0');
    if (api_.GetCUBIN(program_, bytes.data()) != NVRTC_SUCCESS) return {};
    return bytes;
  }

  // NVRTC keeps the PTX of a compile for a real architecture too. Empty if it does not.
  std::string ptx() const {
    std::size_t size = 0;
    if (api_.GetPTXSize == nullptr || api_.GetPTX == nullptr) return {};
    if (api_.GetPTXSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string text(size, '\0');
    if (api_.GetPTX(program_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(size - 1);  // the NUL
    return text;
  }

 private:
  const NvrtcApi& api_;
  nvrtcProgram program_ = nullptr;
};

[[noreturn]] void fail(const NvrtcApi& api, const KernelSpec& spec, std::string_view result,
                       const std::string& log) {
  throw CompileError(join("NVRTC ", api.major, ".", api.minor, " (", api.path,
                          ") could not compile ", describe(spec), ": ", result, "\n", log),
                     log);
}

}  // namespace

std::vector<std::string> compile_options(bool verbose) {
  std::vector<std::string> options = {
      std::string("--gpu-architecture=") + target_arch,
      "--std=c++20",
      // Why: else NVRTC also looks for includes in the working directory, and a file of the user's
      // there would be compiled in (seen with 12.3 and 13.0).
      "--no-source-include",
  };
  if (verbose) options.emplace_back("--ptxas-options=-v");
  return options;
}

Cubin compile_with_nvrtc(const KernelSpec& spec, bool verbose) {
  const auto began = std::chrono::steady_clock::now();
  const NvrtcApi& api = nvrtc_api();
  Program program(api, spec.entry(spec), spec.name + ".cu");
  const nvrtcResult result = program.compile(compile_options(verbose));
  Cubin cubin;
  cubin.log = program.log();
  if (result != NVRTC_SUCCESS) fail(api, spec, api.GetErrorString(result), cubin.log);
  cubin.bytes = program.cubin();
  if (cubin.bytes.empty()) fail(api, spec, "it returned no cubin", cubin.log);
  if (dumping()) cubin.ptx = program.ptx();
  cubin.origin = Origin::compiled;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  cubin.milliseconds = took.count();
  return cubin;
}

std::string identity(const KernelSpec& spec) {
  return join(spec.name, " (config ", hex(spec.config), ")");
}

std::string describe(const KernelSpec& spec) {
  const ConfigWords words_of = config_words.load();
  const std::string words = words_of != nullptr ? words_of(spec) : std::string();
  return words.empty() ? identity(spec) : join(spec.name, " (", words, ")");
}

void set_config_words(ConfigWords words) noexcept { config_words.store(words); }

}  // namespace deepgemm::jit
