// Paths in settings that no shell has seen.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace deepgemm::jit {

struct SettledPath {
  std::string path;  // empty if there is no place, and `problem` then says why
  std::string problem;
};

// The path in a setting of ours, or nothing if it is not set. "~" is HOME, and a relative path
// means the working directory of its first use, so that a later chdir() does not move it. Touches
// no file.
std::optional<SettledPath> path_setting(std::string_view variable);

}  // namespace deepgemm::jit
