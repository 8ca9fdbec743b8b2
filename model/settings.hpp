// The model's settings, from the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace sm90 {

// The variable's value now; the fallback if it is unset or empty.
inline std::string setting(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

}  // namespace sm90
