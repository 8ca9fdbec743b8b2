#include "core/deflate.hpp"

#include <doctest/doctest.h>

using namespace deepgemm;

namespace {

// Bytes that no compressor makes smaller.
std::string noise(std::size_t bytes, unsigned seed) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    seed = seed * 1664525 + 1013904223;
    text.push_back(static_cast<char>(seed >> 24));
  }
  return text;
}

}  // namespace

TEST_CASE("what was packed is unpacked, alone and against a reference of any length") {
  REQUIRE(deflate::available());
  for (const std::size_t bytes : {0, 1, 8191, 8192, 8193, 60000, 200000}) {
    const std::string text = noise(bytes, 1);
    for (const std::size_t known : {0, 1, 8192, 20000, 60000, 400000}) {
      const std::string reference = noise(known, 2);
      const std::string packed = deflate::pack(text, reference);
      CHECK(deflate::unpack(packed, bytes, reference) == text);
    }
  }
}

TEST_CASE("what the reference says is not said again") {
  const std::string reference = noise(100000, 3);
  std::string text = reference;
  text.insert(50000, "a few bytes more");
  CHECK(deflate::pack(text, {}).size() > text.size() * 9 / 10);
  const std::string packed = deflate::pack(text, reference);
  CHECK(packed.size() < text.size() / 10);
  CHECK(deflate::unpack(packed, text.size(), reference) == text);
  CHECK(deflate::unpack(packed, text.size(), {}) != text);
}

TEST_CASE("another length, a cut stream and what follows it are refused") {
  for (const std::string& reference : {std::string(), noise(30000, 4)}) {
    const std::string text = noise(20000, 4);
    const std::string packed = deflate::pack(text, reference);
    CHECK_FALSE(deflate::unpack(packed, text.size() - 1, reference).has_value());
    CHECK_FALSE(deflate::unpack(packed, text.size() + 1, reference).has_value());
    CHECK_FALSE(deflate::unpack(packed.substr(0, packed.size() - 1), text.size(), reference));
    CHECK_FALSE(deflate::unpack(packed + "x", text.size(), reference).has_value());
    CHECK_FALSE(deflate::unpack({}, text.size(), reference).has_value());
    CHECK_FALSE(deflate::unpack(packed, std::size_t{1} << 40, reference).has_value());
  }
}

TEST_CASE("any flipped bit gives other bytes or none, and no access outside") {
  const std::string reference = noise(3000, 5);
  const std::string text = reference.substr(0, 2000) + "between" + reference.substr(1000);
  const std::string packed = deflate::pack(text, reference);
  for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    std::string damaged = packed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto unpacked = deflate::unpack(damaged, text.size(), reference);
    if (unpacked) CHECK(unpacked->size() == text.size());
  }
}

TEST_CASE("the CRC is the usual one, and can be continued") {
  CHECK(deflate::crc32("123456789") == 0xcbf43926);
  CHECK(deflate::crc32("56789", deflate::crc32("1234")) == 0xcbf43926);
}
