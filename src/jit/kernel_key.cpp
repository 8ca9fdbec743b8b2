#include "jit/kernel_key.hpp"

#include <string_view>

#include "core/env.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "jit/embedded_sources.hpp"
#include "jit/nvrtc_compiler.hpp"

namespace deepgemm::jit {
namespace {

// Length first, so that ("ab", "c") and ("a", "bc") differ.
void add_field(std::string& text, std::string_view field) {
  text += to_text(static_cast<std::int64_t>(field.size()));
  text += ':';
  text += field;
}

}  // namespace

std::string family_key(const KernelSpec& spec) {
  std::string text;
  add_field(text, to_text(cache_format_version));
  add_field(text, spec.name);
  add_field(text, spec.config);
  add_field(text, embedded_sources_digest());
  for (const std::string& option : compile_options(false)) add_field(text, option);
  add_field(text, env::foreign("NVRTC_APPEND_FLAGS").value_or(""));
  return sha256_hex(text);
}

std::string kernel_key(const std::string& family, CompilerVersion compiler) {
  std::string text;
  add_field(text, family);
  add_field(text, to_text(compiler.major));
  add_field(text, to_text(compiler.minor));
  return sha256_hex(text);
}

}  // namespace deepgemm::jit
