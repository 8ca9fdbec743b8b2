// Cubins on disk: one file each, written beside its final name and renamed, so that a reader sees a
// whole file or none and no lock is needed. Every failure is a miss or a warning, never an error.
//
// A file is five lines of text and the cubin:
//   deepgemm-cubin <format>      magic and format version
//   <kernel key>                 64 hex digits
//   <kernel name>
//   <cubin bytes>
//   <SHA-256 of the cubin>       64 hex digits
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel_key.hpp"

namespace deepgemm::jit {

inline constexpr std::string_view cache_suffix = ".deepgemm";

struct EntryName {
  std::string kernel;
  std::string family;  // family_key()
  CompilerVersion compiler;
};
// "deepgemm_fp8_gemm-0123...-nvrtc13.0.deepgemm"
std::string file_name(const EntryName& name);
// What the names of a family's entries begin with, whichever compiler made them: up to "-nvrtc".
std::string family_prefix(const std::string& kernel, const std::string& family);

std::string encode_entry(const EntryName& name, std::string_view cubin);
// What a writer that was killed left of an entry: "<entry>.XXXXXX".
bool is_leftover(std::string_view file) noexcept;
struct DecodedEntry {
  std::string problem;  // empty if the entry is whole
  std::string key, kernel;
  std::string cubin;
};
DecodedEntry decode_entry(std::string_view bytes);

// Where the settings say the cache is. Touches no file.
struct CacheLocation {
  std::string directory;  // empty if there is no place, and `problem` then says why
  std::string problem;
};
CacheLocation cache_location();
bool directory_exists(const std::string& directory);

// The cubin, or nothing. A corrupt entry is removed, with one warning.
std::optional<std::string> read_entry(const EntryName& name);
// The compiler versions that have an entry of this family, newest first.
std::vector<CompilerVersion> stored_versions(const std::string& kernel, const std::string& family);
// Creates the directory if need be. On failure the caller's copy in memory is all there is: one
// warning per directory.
void write_entry(const EntryName& name, std::string_view cubin);

}  // namespace deepgemm::jit
