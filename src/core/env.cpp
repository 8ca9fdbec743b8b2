#include "core/env.hpp"

#include <charconv>
#include <cstdlib>
#include <stdexcept>

#include "core/log.hpp"
#include "core/text.hpp"

namespace deepgemm::env {
namespace {

constexpr Setting table[] = {
    {"DEEPGEMM_CACHE_DIR", "path", "$XDG_CACHE_HOME/deepgemm, else ~/.cache/deepgemm",
     "Directory of the compiled kernels. Created with mode 0700; refused if others may write to "
     "it."},
    {"DEEPGEMM_CACHE_MAX_BYTES", "bytes", "1G",
     "Size that the compiled kernels in that directory may have: the least recently used are "
     "removed "
     "when one is written. A number, or one with K, M, G or T; 0: no limit."},
    {"DEEPGEMM_BUNDLE", "path or off", "deepgemm.bundle beside the library, if it is there",
     "File of compiled kernels that `deepgemm bundle` made, where kernels are looked for first."},
    {"DEEPGEMM_NVRTC_PATH", "path", "searched for",
     "The libnvrtc shared library to compile with, instead of the one that the search finds."},
    {"DEEPGEMM_CUDA_DRIVER_PATH", "path", "libcuda.so.1",
     "The CUDA driver library to load. For tests, which put a fake driver in its place."},
    {"DEEPGEMM_LOG", "off, warning, info or debug", "warning", "Which messages are written."},
    {"DEEPGEMM_STRICT_JIT", "bool", "false",
     "Raise an error, instead of compiling, when a kernel is in no cache."},
    {"DEEPGEMM_CHECK_GROUPS", "bool", "false",
     "Check the values of group arrays on a GPU as those in host memory are. For debugging: each "
     "grouped call then waits for its stream, and is an error while a CUDA graph captures it."},
    {"DEEPGEMM_DUMP", "path", "nothing is dumped",
     "Directory into which is written of every kernel its source, cubin, PTX (if it is compiled "
     "now) and SASS (if nvdisasm is found), and of every problem its config and TMA descriptors in "
     "words."},
    {"DEEPGEMM_TRACE", "path", "nothing is recorded",
     "File to which each distinct problem of a GPU is added as a line of JSON, once per process. "
     "`deepgemm warmup --trace` takes it. Read when a problem is met for the first time."},
    {"DEEPGEMM_NVTX", "bool", "false",
     "Mark each launch as an NVTX range, named by operation and problem, for profilers. Read when "
     "a problem is met for the first time."},
    {"DEEPGEMM_CPU_THREADS", "int", "one per hardware thread",
     "Threads of the CPU backend. Results do not depend on it."},
};

// Locale-free, ASCII only.
std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

const Setting& setting_of(std::string_view variable) {
  for (const Setting& setting : table) {
    if (setting.variable == variable) return setting;
  }
  throw std::logic_error(join(variable, " is not in the table of settings (src/core/env.cpp)"));
}

}  // namespace

std::span<const Setting> settings() noexcept { return table; }

std::optional<std::string> text(std::string_view variable) {
  return foreign(std::string(setting_of(variable).variable).c_str());
}

bool flag(std::string_view variable, bool fallback) {
  std::optional<std::string> value = text(variable);
  if (!value) return fallback;
  std::string word = lower(*value);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  refuse(variable, *value, "1/true/yes/on or 0/false/no/off");
  return fallback;
}

std::int64_t integer(std::string_view variable, std::int64_t least, std::int64_t fallback) {
  std::optional<std::string> value = text(variable);
  if (!value) return fallback;
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  auto result = std::from_chars(value->data(), end, number);
  if (result.ec == std::errc() && result.ptr == end && number >= least) return number;
  refuse(variable, *value, join("a whole number of ", least, " or more"));
  return fallback;
}

std::uint64_t bytes(std::string_view variable, std::uint64_t fallback) {
  const std::optional<std::string> value = text(variable);
  if (!value) return fallback;
  std::uint64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [rest, error] = std::from_chars(value->data(), end, number);
  const std::string unit = lower(std::string(rest, end));
  if (error == std::errc()) {
    for (int power = 0; power <= 4; ++power) {
      const std::string letter(power == 0 ? "" : std::string(1, "\0kmgt"[power]));
      const bool named =
          unit == letter || unit == letter + "b" || (power > 0 && unit == letter + "ib");
      const int shift = 10 * power;
      if (named && number <= ~std::uint64_t{0} >> shift) return number << shift;
    }
  }
  refuse(variable, *value, "a number of bytes, or one with K, M, G or T, such as 512M");
  return fallback;
}

void refuse(std::string_view variable, std::string_view found, std::string_view need) {
  const std::string words =
      complaint(variable, join("\"", found, "\""), need, "environment variable");
  log::warn_once(join(words, "; it counts as not set: ", setting_of(variable).fallback));
}

std::optional<std::string> foreign(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace deepgemm::env
