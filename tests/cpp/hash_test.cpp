#include "core/hash.hpp"

#include <doctest/doctest.h>

#include <array>
#include <set>

using namespace deepgemm;

// FIPS 180-4 examples, and lengths on both sides of the padding's edges.
TEST_CASE("SHA-256 of known texts") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(sha256_hex(std::string(55, 'x')) ==
        "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  CHECK(sha256_hex(std::string(56, 'x')) ==
        "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  CHECK(sha256_hex(std::string(63, 'x')) ==
        "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  CHECK(sha256_hex(std::string(64, 'x')) ==
        "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  CHECK(sha256_hex(std::string(65, 'x')) ==
        "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
  CHECK(sha256_hex(std::string(119, 'x')) ==
        "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  CHECK(sha256_hex(std::string(120, 'x')) ==
        "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
  CHECK(sha256_hex(std::string(128, 'x')) ==
        "24da1b81d0b16df6428eee73c69fcb2a93c76bc6df706f0c6670fe6bfe800464");
}

TEST_CASE("hash_bytes tells small changes apart") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 10000; ++i) seen.insert(hash_bytes(&i, sizeof(i)));
  CHECK(seen.size() == 10000);
  // Each byte of a key counts, wherever it stands.
  std::array<unsigned char, 251> key{};
  seen = {hash_bytes(key.data(), key.size())};
  for (unsigned char& byte : key) {
    for (int bit = 0; bit < 8; ++bit) {
      byte ^= static_cast<unsigned char>(1 << bit);
      seen.insert(hash_bytes(key.data(), key.size()));
      byte ^= static_cast<unsigned char>(1 << bit);
    }
  }
  CHECK(seen.size() == 1 + 8 * key.size());
  CHECK(hash_bytes(key.data(), 8) != hash_bytes(key.data(), 16));
  CHECK(hash_bytes("ab", 1) == hash_bytes("ac", 1));
  CHECK(hash_bytes(nullptr, 0) == hash_bytes("x", 0));
}
