#include "jit/bundle_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/deflate.hpp"
#include "core/files.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "jit/embedded_sources.hpp"

namespace deepgemm::jit {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string hex_of(const Digest& digest) {
  return hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace

Digest digest_of(const std::string& text) {
  Digest digest{};
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  for (std::size_t i = 0; i < digest.size() && 2 * i + 1 < text.size(); ++i) {
    digest[i] = static_cast<unsigned char>(16 * value(text[2 * i]) + value(text[2 * i + 1]));
  }
  return digest;
}

std::string BundleFile::map(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return join("it cannot be opened: ", reason(errno));
  struct stat status{};
  std::string problem;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    problem = "it is no file";
  } else if (static_cast<std::uint64_t>(status.st_size) < sizeof(BundleHeader)) {
    problem = "it is too short for a bundle";
  } else {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (start == MAP_FAILED) {
      problem = join("it cannot be mapped: ", reason(errno));
    } else {
      bytes_ = {static_cast<const char*>(start), size};
    }
  }
  ::close(file);
  return problem;
}

std::string BundleFile::check() {
  std::memcpy(&header_, bytes_.data(), sizeof(header_));
  if (std::string_view(header_.magic, sizeof(header_.magic)) != bundle_magic) {
    return "it is not a kernel bundle";
  }
  if (header_.format != bundle_format_version) {
    return join("its format is ", header_.format, ", this library reads ", bundle_format_version);
  }
  if (header_.bytes != bytes_.size()) return "it is cut off or too long";
  const std::uint64_t records = std::uint64_t{header_.kernels} * sizeof(BundleRecord);
  if (records > bytes_.size() - sizeof(header_)) return "its index is damaged";
  BundleHeader unsigned_header = header_;
  unsigned_header.crc32 = 0;
  const std::string_view head(reinterpret_cast<const char*>(&unsigned_header), sizeof(header_));
  const std::uint32_t crc =
      deflate::crc32(bytes_.substr(sizeof(header_), records), deflate::crc32(head));
  if (crc != header_.crc32) return "its index is damaged";
  if (hex_of(header_.sources) != embedded_sources_digest()) {
    return join("it is of other device code, ", hex_of(header_.sources).substr(0, 12),
                "; this library's is ", embedded_sources_digest().substr(0, 12));
  }
  return {};
}

std::shared_ptr<const BundleFile> BundleFile::open(const std::string& path, std::string& problem) {
  if (!deflate::available()) {
    problem = "this library was built without zlib";
    return nullptr;
  }
  const std::shared_ptr<BundleFile> file(new BundleFile);
  problem = file->map(path);
  if (problem.empty()) problem = file->check();
  return problem.empty() ? file : nullptr;
}

BundleFile::~BundleFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

BundleRecord BundleFile::record(std::size_t number) const noexcept {
  BundleRecord record;
  std::memcpy(&record, bytes_.data() + sizeof(header_) + number * sizeof(record), sizeof(record));
  return record;
}

std::optional<std::string> BundleFile::unpack(const BundleRecord& record,
                                              std::string_view reference) const {
  if (record.offset > bytes_.size() || record.packed_bytes > bytes_.size() - record.offset ||
      record.cubin_bytes > files::largest_file) {
    return std::nullopt;
  }
  auto cubin = deflate::unpack(bytes_.substr(record.offset, record.packed_bytes),
                               record.cubin_bytes, reference);
  if (cubin && sha256(*cubin) != record.checksum) return std::nullopt;
  return cubin;
}

std::optional<std::string> BundleFile::find(const Digest& family, std::string& problem) const {
  std::size_t low = 0, high = header_.kernels;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (record(middle).family < family) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == header_.kernels) return std::nullopt;
  const BundleRecord found = record(low);
  if (found.family != family) return std::nullopt;
  std::optional<std::string> reference = std::string(), cubin;
  if (found.reference != no_reference) {
    reference.reset();
    if (found.reference < header_.kernels) reference = unpack(record(found.reference), {});
  }
  if (reference) cubin = unpack(found, *reference);
  if (!cubin) problem = join("its kernel ", hex_of(family).substr(0, 16), " is damaged");
  return cubin;
}

}  // namespace deepgemm::jit
