// mma.sync: 16 x 8 products of a warp from fragments in registers.
#include <array>
#include <vector>

#include "machine/api.hpp"
#include "machine/machine.hpp"
#include "machine/matrix.hpp"

namespace sm90 {
namespace {

constexpr int a_words = 4;

// Elements of one register, lowest first.
struct Word {
  std::uint64_t bits;
  float element(Format format, int i) const {
    return value_of(format, static_cast<std::uint32_t>(bits >> (i * 8 * bytes_of(format))));
  }
};

}  // namespace

void mma_sync(Format format, float (&sum)[4], const std::uint32_t (&a)[4],
              const std::uint32_t (&b)[2], const Where& where) {
  std::vector<std::array<std::uint64_t, 32>> words;
  for (const std::uint32_t word : {a[0], a[1], a[2], a[3], b[0], b[1]}) {
    words.push_back(warp_gather("mma.sync", word, where));
  }
  const int lane = Machine::thread().lane, elements = 4 / bytes_of(format);
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double total = sum[i];
    for (int k = 0; k < 8 * elements; ++k) {
      // k lies with lane k / elements of four, in the first or the second half of the registers.
      const int holder = k / elements % 4, half = k / (4 * elements);
      const auto left = static_cast<std::size_t>(row % 8 * 4 + holder);
      const auto right = static_cast<std::size_t>(column * 4 + holder);
      const Word x{words[static_cast<std::size_t>(row / 8 + 2 * half)][left]};
      const Word y{words[static_cast<std::size_t>(a_words + half)][right]};
      total += double{x.element(format, k % elements)} * double{y.element(format, k % elements)};
    }
    sum[i] = static_cast<float>(total);
  }
}

}  // namespace sm90
