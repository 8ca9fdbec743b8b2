#include "jit/disk_cache.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>

#include "core/env.hpp"
#include "core/files.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/eviction.hpp"
#include "jit/path_setting.hpp"

namespace deepgemm::jit {
namespace {

std::string magic_line() { return join("deepgemm-cubin ", cache_format_version); }

// Cuts the first line off `rest`. False if there is none.
bool take_line(std::string_view& rest, std::string& line) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return false;
  line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return true;
}

template <class Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "13.0" -> {13, 0}
std::optional<CompilerVersion> parse_version(std::string_view text) {
  const std::size_t dot = text.find('.');
  CompilerVersion version;
  if (dot == std::string_view::npos || !parse(text.substr(0, dot), version.major) ||
      !parse(text.substr(dot + 1), version.minor)) {
    return std::nullopt;
  }
  return version;
}

// Once per directory, whatever the file and the reason: a full disk must not write a line per
// kernel.
void warn_memory_only(const std::string& directory, const std::string& problem) {
  static std::mutex mutex;
  static auto& warned = *new std::set<std::string>;
  {
    std::lock_guard lock(mutex);
    if (!warned.insert(directory).second) return;
  }
  log::write(log::Level::warning,
             join("compiled kernels are kept in memory only and are lost when the process ends: ",
                  problem, ". DEEPGEMM_CACHE_DIR chooses another directory"));
}

// The directory if entries in it may be trusted, else empty, with one warning.
std::string trusted_directory(bool create) {
  const CacheLocation location = cache_location();
  std::string problem = location.problem;
  if (problem.empty() && create) problem = files::make_directories(location.directory);
  if (problem.empty() && !create && !directory_exists(location.directory)) return {};
  if (problem.empty()) problem = files::why_not_private(location.directory);
  if (problem.empty()) return location.directory;
  warn_memory_only(location.directory, problem);
  return {};
}

}  // namespace

// 128 bits of the family key name the file; the key inside it is compared in full.
std::string family_prefix(const std::string& kernel, const std::string& family) {
  return join(kernel, "-", family.substr(0, 32), "-nvrtc");
}

std::string file_name(const EntryName& name) {
  return join(family_prefix(name.kernel, name.family), name.compiler.major, ".",
              name.compiler.minor, cache_suffix);
}

bool is_leftover(std::string_view file) noexcept {
  const std::size_t at = file.rfind(cache_suffix);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = file.substr(at + cache_suffix.size());
  return rest.size() == 7 && rest.front() == '.';
}

std::string encode_entry(const EntryName& name, std::string_view cubin) {
  std::string bytes =
      join(magic_line(), "\n", kernel_key(name.family, name.compiler), "\n", name.kernel, "\n",
           static_cast<std::int64_t>(cubin.size()), "\n", sha256_hex(cubin), "\n");
  bytes += cubin;
  return bytes;
}

DecodedEntry decode_entry(std::string_view bytes) {
  DecodedEntry entry;
  const auto reject = [&entry](const char* problem) {
    entry.problem = problem;
    return entry;
  };
  std::string magic, length, checksum;
  if (bytes.empty()) return reject("it is empty");
  if (!take_line(bytes, magic) || magic != magic_line()) return reject("it is not a cache entry");
  if (!take_line(bytes, entry.key) || !take_line(bytes, entry.kernel) ||
      !take_line(bytes, length) || !take_line(bytes, checksum)) {
    return reject("its header is cut off");
  }
  std::uint64_t expected = 0;
  if (!parse(length, expected) || expected == 0) return reject("its length is damaged");
  if (bytes.size() != expected) return reject("it is cut off or too long");
  if (sha256_hex(bytes) != checksum) return reject("its checksum is wrong");
  entry.cubin = bytes;
  return entry;
}

CacheLocation cache_location() {
  if (auto chosen = path_setting("DEEPGEMM_CACHE_DIR")) return {chosen->path, chosen->problem};
  // The XDG specification: a relative path is to be ignored.
  const auto xdg = env::foreign("XDG_CACHE_HOME");
  if (xdg && xdg->front() == '/') return {*xdg + "/deepgemm", {}};
  const auto home = env::foreign("HOME");
  if (home && home->front() == '/') return {*home + "/.cache/deepgemm", {}};
  return {{}, "neither DEEPGEMM_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set"};
}

bool directory_exists(const std::string& directory) {
  struct stat status{};
  return stat(directory.c_str(), &status) == 0;
}

std::optional<std::string> read_entry(const EntryName& name) {
  const std::string directory = trusted_directory(false);
  if (directory.empty()) return std::nullopt;
  const std::string path = join(directory, "/", file_name(name));
  const auto bytes = files::read(path);
  if (!bytes) return std::nullopt;
  DecodedEntry entry = decode_entry(*bytes);
  if (entry.problem.empty() &&
      (entry.key != kernel_key(name.family, name.compiler) || entry.kernel != name.kernel)) {
    entry.problem = "it holds another kernel";
  }
  if (entry.problem.empty()) {
    mark_used(directory, file_name(name));
    return std::move(entry.cubin);
  }
  log::warn_once(join("cache entry ", path, " is not used: ", entry.problem,
                      ". It is removed and the kernel is compiled again"));
  files::remove(path);
  return std::nullopt;
}

std::vector<CompilerVersion> stored_versions(const std::string& kernel, const std::string& family) {
  std::vector<CompilerVersion> versions;
  const std::string directory = trusted_directory(false);
  if (directory.empty()) return versions;
  const std::string prefix = family_prefix(kernel, family);
  for (const std::string& file : files::list(directory, cache_suffix)) {
    if (!file.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(file).substr(prefix.size());
    const auto version = parse_version(rest.substr(0, rest.size() - cache_suffix.size()));
    if (version) versions.push_back(*version);
  }
  std::sort(versions.rbegin(), versions.rend());
  return versions;
}

void write_entry(const EntryName& name, std::string_view cubin) {
  const std::string directory = trusted_directory(true);
  if (directory.empty()) return;
  const std::string file = file_name(name), bytes = encode_entry(name, cubin);
  const std::string problem = files::write_atomically(join(directory, "/", file), bytes);
  if (!problem.empty()) return warn_memory_only(directory, problem);
  make_room(directory, file, bytes.size());
}

}  // namespace deepgemm::jit
