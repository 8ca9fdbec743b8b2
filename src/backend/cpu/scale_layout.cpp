#include <cstring>

#include "backend/cpu/cpu_backend.hpp"

namespace deepgemm::cpu {
namespace {

using Word = std::uint32_t;

constexpr std::int64_t per_word = 4;
constexpr Word exponent_bits = 0x7F800000;

Word* word_at(const TensorView& stack, std::int64_t matrix, std::int64_t row, std::int64_t column) {
  return static_cast<Word*>(stack.data) + matrix * stack.strides[0] + row * stack.strides[1] +
         column * stack.strides[2];
}

template <class Function>
void for_each_word(const TensorView& stack, Function&& function) {
  for (std::int64_t g = 0; g < stack.shape[0]; ++g) {
    for (std::int64_t r = 0; r < stack.shape[1]; ++r) {
      for (std::int64_t c = 0; c < stack.shape[2]; ++c) function(g, r, c);
    }
  }
}

void fill_zero(const TensorView& stack) {
  for_each_word(
      stack, [&](std::int64_t g, std::int64_t r, std::int64_t c) { *word_at(stack, g, r, c) = 0; });
}

}  // namespace

void copy_scales(const TensorView& sf, const TensorView& out) {
  for_each_word(out, [&](std::int64_t g, std::int64_t r, std::int64_t c) {
    *word_at(out, g, r, c) = *word_at(sf, g, r, c);
  });
}

void pack_ue8m0(const TensorView& sf, const TensorView& packed, std::span<const RowRange> rows,
                std::span<const PackedGroup> groups) {
  fill_zero(packed);
  for (std::int64_t g = 0; g < sf.shape[0]; ++g) {
    for (const RowRange& range : rows) {
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        for (const PackedGroup& group : groups) {
          for (std::int64_t k = group.begin; k < group.end; ++k) {
            const std::int64_t at = k - group.begin;
            const Word exponent = *word_at(sf, g, r, k) >> 23 & 0xFF;
            *word_at(packed, g, r, group.packed + at / per_word) |= exponent << at % per_word * 8;
          }
        }
      }
    }
  }
}

void unpack_ue8m0(const TensorView& packed, const TensorView& sf,
                  std::span<const PackedGroup> groups) {
  fill_zero(sf);
  for (std::int64_t g = 0; g < sf.shape[0]; ++g) {
    for (std::int64_t r = 0; r < sf.shape[1]; ++r) {
      for (const PackedGroup& group : groups) {
        for (std::int64_t k = group.begin; k < group.end; ++k) {
          const std::int64_t at = k - group.begin;
          const Word word = *word_at(packed, g, r, group.packed + at / per_word);
          *word_at(sf, g, r, k) = (word >> at % per_word * 8 & 0xFF) << 23;
        }
      }
    }
  }
}

std::optional<ScalePlace> first_not_power_of_two(const TensorView& sf,
                                                 std::span<const RowRange> rows) {
  for (std::int64_t g = 0; g < sf.shape[0]; ++g) {
    for (const RowRange& range : rows) {
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        for (std::int64_t k = 0; k < sf.shape[2]; ++k) {
          if ((*word_at(sf, g, r, k) & ~exponent_bits) != 0) return ScalePlace{g, r, k};
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace deepgemm::cpu
