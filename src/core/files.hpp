// File access without iostreams: every failure is a returned reason, never an exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepgemm::files {

// What read() takes at most: 64 MiB, some hundred times the largest kernel.
inline constexpr std::size_t largest_file = std::size_t{64} << 20;
// The whole file, or unset if it cannot be read, is no regular file (a pipe would block, a device
// has no end) or is larger than `largest_file`. Links are followed: what they lead to counts.
std::optional<std::string> read(const std::string& path);
// Writes a temporary file in the same directory, fsyncs and renames it over `path`.
// Returns an empty string, or why it failed (the temporary file is removed). `mode`: who may read
// it.
std::string write_atomically(const std::string& path, std::string_view bytes, unsigned mode = 0600);
// Adds to the end of a file, created with mode 0644, in one write(): what several processes add
// does not mix on a local file system. Returns an empty string, or why it failed; a part of `bytes`
// may then have been written.
std::string append(const std::string& path, std::string_view bytes);
// Empty if a file can be created in `directory` and 64 KiB be written to it, which is tried with
// one that leaves nothing behind; else why not. For a directory that is not there yet, in the
// nearest one above it.
std::string why_not_writable(const std::string& directory);
bool is_directory(const std::string& path);
// mkdir -p with mode 0700 for what it creates. Empty, or why not.
std::string make_directories(const std::string& path);
// Empty if the directory exists, is ours (or root's is ours) and no one else may write to it.
std::string why_not_private(const std::string& path);
// Empty if it was removed.
std::string working_directory();
// Names (without the directory) of the files that end in `suffix`, sorted. Empty if it cannot be
// read.
std::vector<std::string> list(const std::string& directory, std::string_view suffix);
bool remove(const std::string& path) noexcept;

// Of the name itself: a link is not followed.
struct Status {
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970, within what 64 bits hold (to 2262)
};
// Unset for a directory, a pipe or a device, and where there is nothing.
std::optional<Status> status(const std::string& path) noexcept;
// Now, by this machine's clock, on the same scale.
std::int64_t now() noexcept;
// Sets the time of the last change to now. False if that is not allowed.
bool touch(const std::string& path) noexcept;

}  // namespace deepgemm::files
