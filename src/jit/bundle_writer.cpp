#include "jit/bundle_writer.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/deflate.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"
#include "jit/bundle_file.hpp"
#include "jit/embedded_sources.hpp"

namespace deepgemm::jit {
namespace {

// Of 240 neighbouring kernels: 27 MB for all of them if each is packed alone, 15 with these
// numbers, and hardly less with more references, which take their time.
constexpr std::size_t references_tried = 6;
constexpr int quick = 4;           // level at which references are compared
constexpr double worth_it = 0.75;  // else the cubin is packed alone and is a reference for the next

struct Packed {
  const BundleMember* member = nullptr;
  const BundleMember* reference = nullptr;
  std::string bytes;
};

// The better of: alone, and against the last references of the same kernel name.
Packed pack(const BundleMember& member, std::vector<const BundleMember*>& references) {
  const auto length = [&member](std::string_view reference) {
    return static_cast<double>(deflate::pack(member.cubin, reference, quick).size());
  };
  const BundleMember* best = nullptr;
  double least = worth_it * length({});
  const std::size_t tried = std::min(references.size(), references_tried);
  for (std::size_t i = references.size() - tried; i < references.size(); ++i) {
    const double found = length(references[i]->cubin);
    if (found < least) {
      best = references[i];
      least = found;
    }
  }
  if (best == nullptr) references.push_back(&member);
  return {&member, best,
          deflate::pack(member.cubin, best != nullptr ? best->cubin : std::string())};
}

std::vector<Packed> pack_all(const std::vector<BundleMember>& members) {
  std::set<std::string> families;
  std::map<std::string, std::vector<const BundleMember*>> references;
  std::vector<Packed> packed;
  for (const BundleMember& member : members) {
    if (families.insert(member.family).second) {
      packed.push_back(pack(member, references[member.kernel]));
    }
  }
  // Of hex digits as of the bytes that they mean.
  std::sort(packed.begin(), packed.end(),
            [](const Packed& a, const Packed& b) { return a.member->family < b.member->family; });
  return packed;
}

template <class Plain>
std::string_view bytes_of(const Plain& plain) {
  return {reinterpret_cast<const char*>(&plain), sizeof(plain)};
}

}  // namespace

std::string encode_bundle(const std::vector<BundleMember>& members, CompilerVersion compiler) {
  if (!deflate::available()) throw Error("a bundle cannot be made: built without zlib");
  const std::vector<Packed> packed = pack_all(members);
  std::map<const BundleMember*, std::uint32_t> numbers;
  for (const Packed& one : packed) {
    numbers.emplace(one.member, static_cast<std::uint32_t>(numbers.size()));
  }
  std::uint64_t offset = sizeof(BundleHeader) + packed.size() * sizeof(BundleRecord);
  std::string records, cubins;
  for (const Packed& one : packed) {
    BundleRecord record{};
    record.family = digest_of(one.member->family);
    record.checksum = sha256(one.member->cubin);
    record.offset = offset;
    record.packed_bytes = static_cast<std::uint32_t>(one.bytes.size());
    record.cubin_bytes = static_cast<std::uint32_t>(one.member->cubin.size());
    record.reference = one.reference != nullptr ? numbers.at(one.reference) : no_reference;
    records += bytes_of(record);
    cubins += one.bytes;
    offset += one.bytes.size();
  }
  BundleHeader header{};
  std::memcpy(header.magic, bundle_magic.data(), sizeof(header.magic));
  header.format = bundle_format_version;
  header.kernels = static_cast<std::uint32_t>(packed.size());
  header.bytes = offset;
  header.compiler_major = static_cast<std::uint32_t>(compiler.major);
  header.compiler_minor = static_cast<std::uint32_t>(compiler.minor);
  header.sources = digest_of(std::string(embedded_sources_digest()));
  header.crc32 = deflate::crc32(records, deflate::crc32(bytes_of(header)));
  return join(bytes_of(header), records, cubins);
}

}  // namespace deepgemm::jit
