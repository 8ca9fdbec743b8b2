// One bundle, mapped into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "jit/bundle_format.hpp"

namespace deepgemm::jit {

// Of 64 hex digits.
Digest digest_of(const std::string& text);

class BundleFile {
 public:
  // Nothing, with `problem`, if the file is no whole bundle for this library.
  static std::shared_ptr<const BundleFile> open(const std::string& path, std::string& problem);
  ~BundleFile();
  BundleFile(const BundleFile&) = delete;
  BundleFile& operator=(const BundleFile&) = delete;

  // The cubin of a family; nothing if it has none, or, with `problem`, if its part is damaged.
  // Thread safe.
  std::optional<std::string> find(const Digest& family, std::string& problem) const;
  const BundleHeader& header() const noexcept { return header_; }

 private:
  BundleFile() = default;
  std::string map(const std::string& path);
  std::string check();
  BundleRecord record(std::size_t number) const noexcept;
  std::optional<std::string> unpack(const BundleRecord& record, std::string_view reference) const;

  std::string_view bytes_;  // the mapping
  BundleHeader header_{};
};

}  // namespace deepgemm::jit
