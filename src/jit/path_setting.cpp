#include "jit/path_setting.hpp"

#include <map>
#include <mutex>

#include "core/env.hpp"
#include "core/files.hpp"
#include "core/text.hpp"

namespace deepgemm::jit {

std::optional<SettledPath> path_setting(std::string_view variable) {
  const auto setting = env::text(variable);
  if (!setting) return std::nullopt;
  if (setting->front() == '/') return SettledPath{*setting, {}};
  if (*setting == "~" || setting->starts_with("~/")) {
    const auto home = env::foreign("HOME");
    if (home && home->front() == '/') return SettledPath{*home + setting->substr(1), {}};
    return SettledPath{{}, join(variable, " is ", *setting, " and HOME is not set")};
  }
  static std::mutex mutex;
  static auto& absolute = *new std::map<std::string, std::string>;
  std::lock_guard lock(mutex);
  const auto found = absolute.find(*setting);
  if (found != absolute.end()) return SettledPath{found->second, {}};
  const std::string here = files::working_directory();
  if (here.empty()) {
    return SettledPath{{}, join(variable, " is relative and the directory it is in is gone")};
  }
  return SettledPath{absolute[*setting] = join(here, "/", *setting), {}};
}

}  // namespace deepgemm::jit
