// Bundles: written, found, and damaged in every way.
#include "jit/bundle.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cstring>
#include <utility>
#include <vector>

#include "contains.hpp"
#include "core/deflate.hpp"
#include "core/hash.hpp"
#include "deepgemm/cache.hpp"
#include "jit/bundle_file.hpp"
#include "jit/bundle_writer.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;
using test::contains;
using testing::CacheDirectory;
using testing::CapturedLog;

namespace {

constexpr jit::CompilerVersion compiler{13, 4};

std::string family(int number) { return sha256_hex(join("family ", number)); }

// Like cubins: long, alike, and not the same.
std::string cubin(int number) {
  std::string text;
  unsigned seed = 7;
  while (text.size() < 20000 + 100 * static_cast<std::size_t>(number)) {
    seed = seed * 1664525 + 1013904223;
    text += static_cast<char>(seed >> 24);
    if (seed % 128 == 0) text += static_cast<char>(number);
  }
  return text;
}

std::vector<jit::BundleMember> members(int count) {
  std::vector<jit::BundleMember> all;
  for (int i = 0; i < count; ++i) {
    all.push_back({i % 2 == 0 ? "deepgemm_even" : "deepgemm_odd", family(i), cubin(i)});
  }
  return all;
}

// A file that DEEPGEMM_BUNDLE names while it lives.
struct NamedBundle {
  explicit NamedBundle(const std::string& bytes) {
    static int number = 0;
    path = join(directory.root(), "/kernels ", ++number);
    REQUIRE(files::write_atomically(path, bytes).empty());
    setenv("DEEPGEMM_BUNDLE", path.c_str(), 1);
  }
  ~NamedBundle() { unsetenv("DEEPGEMM_BUNDLE"); }
  CacheDirectory directory;
  std::string path;
};

// No kernel, and one warning with `reason`, however often it is asked.
void expect_passed_by(const std::string& bytes, const std::string& reason) {
  const NamedBundle bundle(bytes);
  CapturedLog captured;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(jit::find_in_bundle(family(i)).has_value());
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], reason));
  CHECK(contains(CapturedLog::messages()[0], bundle.path));
  CHECK(contains(jit::bundle_info().problem, reason));
  CHECK(jit::bundle_info().kernels == 0);
}

jit::BundleHeader header_of(const std::string& bytes) {
  jit::BundleHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// `bytes` with another header or index and the right CRC, as only a writer with a fault would make
// it.
std::string sealed(std::string bytes, jit::BundleHeader header) {
  header.crc32 = 0;
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof(header));
  const std::string_view records =
      std::string_view(bytes).substr(sizeof(header), header.kernels * sizeof(jit::BundleRecord));
  header.crc32 = deflate::crc32(records, deflate::crc32(head));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

jit::BundleRecord* records_of(std::string& bytes) {
  return reinterpret_cast<jit::BundleRecord*>(bytes.data() + sizeof(jit::BundleHeader));
}

}  // namespace

TEST_CASE("what was written is found, and nothing else") {
  const NamedBundle bundle(jit::encode_bundle(members(50), compiler));
  for (int i = 0; i < 50; ++i) CHECK(jit::find_in_bundle(family(i)) == cubin(i));
  for (int i = 50; i < 100; ++i) CHECK_FALSE(jit::find_in_bundle(family(i)).has_value());
  CHECK_FALSE(jit::find_in_bundle(std::string(64, '0')).has_value());
  CHECK_FALSE(jit::find_in_bundle(std::string(64, 'f')).has_value());
  const jit::BundleInfo info = jit::bundle_info();
  CHECK(info.path == bundle.path);
  CHECK(info.problem.empty());
  CHECK(info.kernels == 50);
  CHECK(info.bytes == files::read(bundle.path)->size());
  CHECK(info.compiler == compiler);
}

TEST_CASE("cubins that are alike share what they have in common") {
  std::size_t all = 0, first = deflate::pack(cubin(0), {}).size();
  for (const auto& member : members(10)) all += deflate::pack(member.cubin, {}).size();
  const std::string bytes = jit::encode_bundle(members(10), compiler);
  CHECK(bytes.size() < all / 3);
  CHECK(bytes.size() > 2 * first);  // each name has a reference
}

TEST_CASE("the same members make the same file; a family counts once") {
  auto twice = members(5);
  twice.push_back({"deepgemm_even", family(3), "another"});
  CHECK(jit::encode_bundle(twice, compiler) == jit::encode_bundle(members(5), compiler));
}

TEST_CASE("an empty bundle") {
  const NamedBundle bundle(jit::encode_bundle({}, compiler));
  CapturedLog captured;
  CHECK_FALSE(jit::find_in_bundle(family(0)).has_value());
  CHECK(CapturedLog::messages().empty());
  CHECK(jit::bundle_info().kernels == 0);
}

TEST_CASE("files that are no bundle") {
  expect_passed_by("", "too short");
  expect_passed_by("PK\3\4", "too short");
  expect_passed_by(std::string(1000, 'x'), "not a kernel bundle");
}

TEST_CASE("a bundle that was cut anywhere, or is longer") {
  const std::string whole = jit::encode_bundle(members(3), compiler);
  for (const std::size_t length : {sizeof(jit::BundleHeader), sizeof(jit::BundleHeader) + 1,
                                   sizeof(jit::BundleHeader) + 3 * sizeof(jit::BundleRecord),
                                   whole.size() / 2, whole.size() - 1}) {
    expect_passed_by(whole.substr(0, length), "cut off or too long");
  }
  expect_passed_by(whole + "x", "cut off or too long");
}

TEST_CASE("bundles of another format and of other device code") {
  const std::string whole = jit::encode_bundle(members(3), compiler);
  jit::BundleHeader header = header_of(whole);
  ++header.format;
  expect_passed_by(sealed(whole, header), "its format is 2");
  header = header_of(whole);
  header.sources[0] ^= 1;
  expect_passed_by(sealed(whole, header), "other device code");
}

TEST_CASE("a bundle with any one bit flipped never gives a wrong cubin") {
  const std::string whole = jit::encode_bundle(
      {{"k", family(0), cubin(0).substr(0, 300)}, {"k", family(1), cubin(0).substr(0, 310)}},
      compiler);
  CHECK(header_of(whole).kernels == 2);
  CacheDirectory directory;
  const std::string path = directory.root() + "/flipped";
  int refused = 0, damaged = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    REQUIRE(files::write_atomically(path, bytes).empty());
    std::string problem;
    const auto file = jit::BundleFile::open(path, problem);
    CHECK((file == nullptr) == !problem.empty());
    if (!file) {
      ++refused;
      continue;
    }
    for (int number : {0, 1}) {
      const auto found = file->find(jit::digest_of(family(number)), problem);
      if (found) CHECK(*found == cubin(0).substr(0, number == 0 ? 300 : 310));
      damaged += !found;
    }
  }
  // Every bit of header and index is guarded.
  CHECK(refused ==
        static_cast<int>(8 * (sizeof(jit::BundleHeader) + 2 * sizeof(jit::BundleRecord))));
  CHECK(damaged > 0);
}

TEST_CASE("a damaged kernel is a miss with one warning; the others are served") {
  std::string bytes = jit::encode_bundle(members(1), compiler);
  bytes.back() = static_cast<char>(bytes.back() ^ 0xff);
  const NamedBundle bundle(bytes);
  CapturedLog captured;
  CHECK_FALSE(jit::find_in_bundle(family(0)).has_value());
  CHECK_FALSE(jit::find_in_bundle(family(0)).has_value());
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "is damaged"));
  CHECK(jit::bundle_info().kernels == 1);
}

TEST_CASE("an index that lies, with the right CRC, leads nowhere") {
  const std::string whole = jit::encode_bundle(members(4), compiler);
  const auto lie = [&whole](auto change) {
    std::string bytes = whole;
    for (int i = 0; i < 4; ++i) change(records_of(bytes)[i]);
    return sealed(bytes, header_of(bytes));
  };
  const std::vector<std::string> liars = {
      lie([](auto& record) { record.offset = ~std::uint64_t{0} - 10; }),
      lie([&](auto& record) { record.offset = whole.size(); }),
      lie([](auto& record) { record.packed_bytes = ~std::uint32_t{0}; }),
      lie([](auto& record) { record.cubin_bytes = ~std::uint32_t{0}; }),
      lie([](auto& record) { record.cubin_bytes = 0; }),
      lie([](auto& record) { record.reference = 4; }),
      lie([](auto& record) { record.reference = 0x7fffffff; }),
      lie([](auto& record) { record.checksum[31] ^= 1; }),
  };
  for (const std::string& bytes : liars) {
    const NamedBundle bundle(bytes);
    CapturedLog captured;
    for (int i = 0; i < 4; ++i) CHECK_FALSE(jit::find_in_bundle(family(i)).has_value());
    CHECK_FALSE(CapturedLog::messages().empty());
  }
  jit::BundleHeader header = header_of(whole);
  header.kernels = 0x7fffffff;
  expect_passed_by(sealed(whole, header), "index is damaged");  // the CRC of all that is there
}

TEST_CASE("a named bundle that is not there, or is no file, is warned of once; off is silent") {
  CacheDirectory directory;
  const std::vector<std::pair<std::string, const char*>> cases = {
      {directory.root() + "/nowhere", "cannot be opened"},
      {directory.root(), "it is no file"},
      {"/dev/zero", "it is no file"},
      {"~/nowhere", ""}};
  for (const auto& [path, reason] : cases) {
    setenv("DEEPGEMM_BUNDLE", path.c_str(), 1);
    CapturedLog captured;
    CHECK_FALSE(jit::find_in_bundle(family(0)).has_value());
    CHECK_FALSE(jit::find_in_bundle(family(1)).has_value());
    CHECK(CapturedLog::messages().size() == 1);
    CHECK_FALSE(jit::bundle_info().problem.empty());
    CHECK(contains(jit::bundle_info().problem, reason));
  }
  CapturedLog captured;
  setenv("DEEPGEMM_BUNDLE", "off", 1);
  CHECK_FALSE(jit::find_in_bundle(family(0)).has_value());
  CHECK(jit::bundle_info().path.empty());
  unsetenv("DEEPGEMM_BUNDLE");
  CHECK_FALSE(jit::find_in_bundle(family(0)).has_value());
  CHECK(jit::bundle_info().path.empty());
  CHECK(CapturedLog::messages().empty());
}

TEST_CASE("a bundle that is replaced, cut or removed while it is in use") {
  const NamedBundle bundle(jit::encode_bundle(members(2), compiler));
  CHECK(jit::find_in_bundle(family(1)) == cubin(1));
  CHECK_FALSE(jit::find_in_bundle(family(5)).has_value());
  REQUIRE(files::write_atomically(bundle.path, jit::encode_bundle(members(6), compiler)).empty());
  CHECK(jit::find_in_bundle(family(5)) == cubin(5));
  CapturedLog captured;
  REQUIRE(truncate(bundle.path.c_str(), 2000) == 0);
  CHECK_FALSE(jit::find_in_bundle(family(5)).has_value());
  CHECK(CapturedLog::messages().size() == 1);
  REQUIRE(unlink(bundle.path.c_str()) == 0);
  CHECK_FALSE(jit::find_in_bundle(family(5)).has_value());
}

TEST_CASE("write_bundle writes what cache_info tells of, and refuses what is no kernel") {
  CacheDirectory directory;
  const std::string path = directory.root() + "/written";
  std::vector<BundledKernel> kernels;
  for (int i = 0; i < 2; ++i) {
    kernels.push_back({"k", "", family(i), "compiled", 0, cubin(i)});
  }
  const BundleSummary summary = write_bundle(path, kernels);
  CHECK(summary.kernels == 2);
  CHECK(summary.bytes == files::read(path)->size());
  CHECK(summary.cubin_bytes == cubin(0).size() + cubin(1).size());
  setenv("DEEPGEMM_BUNDLE", path.c_str(), 1);
  CHECK(cache_info().bundle == path);
  CHECK(cache_info().bundle_kernels == 2);
  CHECK(cache_info().bundle_bytes == summary.bytes);
  CHECK(cache_info().bundle_problem.empty());
  unsetenv("DEEPGEMM_BUNDLE");
  CHECK_THROWS_AS(write_bundle("/proc/nowhere/bundle", kernels), Error);
  kernels[1].family.resize(32);
  CHECK_THROWS_AS(write_bundle(path, kernels), ValueError);
  CHECK_THROWS_AS(kernel_for_bundle(1 << 20), ValueError);
}
