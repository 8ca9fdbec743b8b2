#include "core/hash.hpp"

#include <bit>
#include <cstring>

#include "core/text.hpp"

namespace deepgemm {
namespace {

// FIPS 180-4, section 4.2.2.
constexpr std::uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t block_bytes = 64;

void add_block(std::array<std::uint32_t, 8>& state, const unsigned char* block) noexcept {
  std::uint32_t w[64];
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24 |
           static_cast<std::uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<std::uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    std::uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    std::uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += added[i];
}

// The last bytes, a one bit, zeros, and the length in bits: one block or two.
void add_tail(std::array<std::uint32_t, 8>& state, std::string_view bytes) noexcept {
  unsigned char tail[2 * block_bytes] = {};
  std::size_t rest = bytes.size() % block_bytes;
  if (rest != 0) std::memcpy(tail, bytes.data() + bytes.size() - rest, rest);
  tail[rest] = 0x80;
  std::size_t tail_bytes = rest + 9 <= block_bytes ? block_bytes : 2 * block_bytes;
  std::uint64_t bits = static_cast<std::uint64_t>(bytes.size()) * 8;
  for (int i = 0; i < 8; ++i) {
    tail[tail_bytes - 1 - static_cast<std::size_t>(i)] =
        static_cast<unsigned char>(bits >> (8 * i));
  }
  for (std::size_t at = 0; at < tail_bytes; at += block_bytes) add_block(state, tail + at);
}

}  // namespace

std::array<unsigned char, 32> sha256(std::string_view bytes) noexcept {
  std::array<std::uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  auto data = reinterpret_cast<const unsigned char*>(bytes.data());
  for (std::size_t at = 0; at + block_bytes <= bytes.size(); at += block_bytes) {
    add_block(state, data + at);
  }
  add_tail(state, bytes);
  std::array<unsigned char, 32> digest{};
  for (std::size_t i = 0; i < 32; ++i) {
    digest[i] = static_cast<unsigned char>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string sha256_hex(std::string_view bytes) {
  auto digest = sha256(bytes);
  return hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// Why by words: a plan's key is 250 bytes, and a multiplication for each byte of it took a tenth of
// a call.
std::uint64_t hash_bytes(const void* data, std::size_t bytes) noexcept {
  auto p = static_cast<const unsigned char*>(data);
  std::uint64_t h = 0xcbf29ce484222325 ^ bytes;
  const auto add = [&](std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, count);
    h = (h ^ word) * 0x9e3779b97f4a7c15;
    h ^= h >> 32;  // else the top bits of a word would be those of the next one
    p += count;
  };
  for (; bytes >= 8; bytes -= 8) add(8);
  if (bytes > 0) add(bytes);
  // The multiplications leave the low bits weak, and tables use either end: MurmurHash3's
  // finaliser.
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  return h ^ (h >> 33);
}

}  // namespace deepgemm
