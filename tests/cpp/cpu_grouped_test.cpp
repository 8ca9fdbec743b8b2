// The reference of the grouped products against naive sums, with sentinels around what is written.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "grouped_case.hpp"

using namespace deepgemm;
using test::flat;
using test::RowGroups;
using test::sentinel;
using test::Tensor;
using test::Vector;

namespace {

using Values = std::vector<std::int64_t>;

// Runs one form and says whether every row is right. owners[row] is the group or -1.
bool runs(GroupForm form, const Values& vector, const Values& owners, std::int64_t groups,
          std::int64_t alignment = 1, DType dtype = DType::int32) {
  RowGroups p(groups, static_cast<std::int64_t>(owners.size()), 9, 144, false);
  auto args = test::as<GroupedArgs>(p);
  const Vector numbers(vector, dtype);
  args.groups = numbers.view;
  args.form = form;
  args.alignment = alignment;
  grouped_gemm(args);
  return p.is_right([&](auto, std::int64_t row) { return owners[std::size_t(row)]; });
}

}  // namespace

TEST_CASE("the four forms of groups") {
  const Values owners{0, 0, 0, 2, 3, 3, -1, -1};
  CHECK(runs(GroupForm::sizes, {3, 0, 1, 2, 0}, owners, 5));
  CHECK(runs(GroupForm::sizes, {3, 0, 1, 2, 0}, owners, 5, 1, DType::int64));
  CHECK(runs(GroupForm::offsets, {0, 3, 3, 4, 6, 6}, owners, 5));
  CHECK(runs(GroupForm::offsets, {2, 2, 5}, {-1, -1, 1, 1, 1, -1}, 2));
  CHECK(runs(GroupForm::ends, {3, 3, 4, 6, 6}, owners, 5));
  CHECK(runs(GroupForm::labels, owners, owners, 5));
  CHECK(runs(GroupForm::labels, {2, 0, -1, 2, 1, 1, 0, 2}, {2, 0, -1, 2, 1, 1, 0, 2}, 3));
  // Starts at multiples of 4; a group that is empty by its end before its start, or at it.
  CHECK(runs(GroupForm::ends, {1, 7, 7, 8, 10}, {0, -1, -1, -1, 1, 1, 1, -1, 4, 4, -1}, 5, 4));
  CHECK(runs(GroupForm::ends, {2}, {0, 0, -1}, 1, std::int64_t{1} << 62));
  CHECK(runs(GroupForm::sizes, {}, {-1, -1}, 0));
  CHECK(runs(GroupForm::sizes, {0, 0}, {}, 2));
}

TEST_CASE("rows that no group has are not read: NaN there changes nothing") {
  RowGroups p(2, 6, 5, 130, false);
  for (std::int64_t i : {0, 1, 5}) {
    for (std::int64_t k = 0; k < p.k; ++k) p.a.memory[std::size_t(i * p.k + k)] = 0x7F;
    for (std::int64_t k = 0; k < p.blocks; ++k) test::set_flat(p.sfa, i * p.blocks + k, NAN);
  }
  auto args = test::as<GroupedArgs>(p);
  const Vector offsets({2, 3, 5});
  args.groups = offsets.view;
  args.form = GroupForm::offsets;
  grouped_gemm(args);
  CHECK(p.is_right([](auto, std::int64_t row) { return row < 2 || row == 5 ? -1 : row > 2; }));
}

TEST_CASE("masked: only the first rows of each group") {
  for (std::int64_t most : {1, 3, 17, 40}) {
    const Values counts{0, most, 1, most / 2};
    RowGroups p(4, most, 7, 256, true);
    for (std::int64_t g = 0; g < 4; ++g) {
      for (std::int64_t i = (g * most + counts[std::size_t(g)]) * p.k; i < (g + 1) * most * p.k;
           ++i)
        p.a.memory[std::size_t(i)] = 0x7F;  // NaN
    }
    auto args = test::as<MaskedArgs>(p);
    const Vector rows(counts);
    args.rows = rows.view;
    args.expected_rows = 1000;
    masked_gemm(args);
    CHECK(p.is_right(
        [&](std::int64_t g, std::int64_t row) { return row < counts[std::size_t(g)] ? g : -1; }));
  }
}

TEST_CASE("one factor for all groups, and turned weights") {
  RowGroups p(3, 8, 130, 256, false);
  const Vector sizes({4, 0, 3});
  Tensor one(DType::float32, {1}), turned(DType::float8_e4m3fn, {3, 256, 130});
  Tensor turned_sf(DType::float32, {3, 2, 2});
  for (std::int64_t g = 0; g < 3; ++g) {
    for (std::int64_t j = 0; j < 130; ++j) {
      for (std::int64_t k = 0; k < 256; ++k)
        test::set_flat(turned, (g * 256 + k) * 130 + j, flat(p.b, (g * 130 + j) * 256 + k));
    }
    for (std::int64_t i = 0; i < 4; ++i)
      test::set_flat(turned_sf, g * 4 + i % 2 * 2 + i / 2, flat(p.sfb, g * 4 + i));
  }
  const auto owner = [](auto, std::int64_t row) { return row < 4 ? 0 : row < 7 ? 2 : -1; };
  auto args = test::as<GroupedArgs>(p);
  args.groups = sizes.view;
  args.b = {turned.view, turned_sf.view, std::nullopt};
  args.layout = Layout::nn;
  grouped_gemm(args);
  CHECK(p.is_right(owner));
  one.set(0, 0, 4);
  args = test::as<GroupedArgs>(p);
  args.groups = sizes.view;
  args.b.sf = one.view;
  grouped_gemm(args);
  CHECK_FALSE(p.is_right(owner));
  for (std::int64_t i = 0; i < p.sfb.view.size(); ++i) test::set_flat(p.sfb, i, 4);
  CHECK(p.is_right(owner));
}

TEST_CASE("what follows the sum is the group's own") {
  RowGroups p(2, 3, 4, 128, false);
  Tensor bias(DType::float32, {2, 4}), c(DType::float32, {3, 4});
  for (std::int64_t i = 0; i < 8; ++i) test::set_flat(bias, i, double(i) * 64 - 300);
  for (std::int64_t i = 0; i < 12; ++i) test::set_flat(c, i, double(i));
  auto args = test::as<GroupedArgs>(p);
  const Vector labels({1, -1, 0});
  args.groups = labels.view;
  args.form = GroupForm::labels;
  args.bias = bias.view;
  args.c = c.view;
  args.alpha = 2;
  args.activation = Activation::relu;
  grouped_gemm(args);
  for (std::int64_t row : {0, 2}) {
    const std::int64_t g = row == 0;
    for (std::int64_t j = 0; j < 4; ++j) {
      const double sum = 2 * p.expected(0, row, g, j) + flat(bias, g * 4 + j);
      CHECK(flat(p.out, row * 4 + j) == std::max(sum, 0.0) + flat(c, row * 4 + j));
    }
  }
  CHECK(flat(p.out, 4) == sentinel);
  // In place: c is out.
  const double before = flat(p.out, 8);
  args.c = args.out;
  args.activation = Activation::none;
  grouped_gemm(args);
  CHECK(flat(p.out, 8) == before + 2 * p.expected(0, 2, 0, 0) + flat(bias, 0));
}

TEST_CASE("grouped along K: blocks of factors are counted per group") {
  const Values sizes{144, 0, 128, 16, 0};
  const std::int64_t m = 3, n = 4, k = 320, blocks = 4;  // 2 + 1 + 1; 32 of K belong to none
  test::Random random(5);
  Tensor a(DType::float8_e4m3fn, {m, k}), b(DType::float8_e4m3fn, {n, k});
  Tensor sfa(DType::float32, {m, blocks}), sfb(DType::float32, {n, blocks});
  for (Tensor* t : {&a, &b}) fill_flat(*t, [&] { return double(random.integer(-2, 2)); });
  for (Tensor* t : {&sfa, &sfb})
    fill_flat(*t, [&] { return std::exp2(double(random.integer(-2, 2))); });
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 288; j < k; ++j) a.memory[std::size_t(i * k + j)] = 0x7F;
  }
  Tensor out(DType::float32, {5, m, n});
  const Vector vector(sizes);
  KGroupedArgs args;
  args.a = {a.view, sfa.view, std::nullopt};
  args.b = {b.view, sfb.view, std::nullopt};
  args.out = out.view;
  args.k_sizes = vector.view;
  auto is_right = [&](double alpha, double c) {
    std::int64_t begin = 0, first_block = 0;
    bool right = true;
    for (std::int64_t g = 0; g < 5; ++g) {
      const std::int64_t size = sizes[std::size_t(g)];
      for (std::int64_t i = 0; i < m * n; ++i) {
        const std::int64_t row = i / n, column = i % n;
        double sum = 0;
        for (std::int64_t j = 0; j < size; ++j) {
          sum += a.at(row, begin + j) * sfa.at(row, first_block + j / 128) *
                 b.at(column, begin + j) * sfb.at(column, first_block + j / 128);
        }
        right &= flat(out, g * m * n + i) == alpha * sum + c;
      }
      begin += size;
      first_block += (size + 127) / 128;
    }
    return right;
  };
  fill_flat(out, [] { return sentinel; });
  k_grouped_gemm(args);
  CHECK(is_right(1, 0));
  fill_flat(out, [] { return 64.0; });
  args.c = args.out;
  args.alpha = -2;
  k_grouped_gemm(args);
  CHECK(is_right(-2, 64));
  CHECK_FALSE(is_right(-2, 0));

  // Turned operands: [K, M] and [K, N], factors likewise.
  Tensor a_t(DType::float8_e4m3fn, {k, m}), b_t(DType::float8_e4m3fn, {k, n});
  Tensor sfa_t(DType::float32, {blocks, m}), sfb_t(DType::float32, {blocks, n});
  a_t.fill([&](auto i, auto j) { return a.at(j, i); });
  b_t.fill([&](auto i, auto j) { return b.at(j, i); });
  sfa_t.fill([&](auto i, auto j) { return sfa.at(j, i); });
  sfb_t.fill([&](auto i, auto j) { return sfb.at(j, i); });
  args.a = {a_t.view, sfa_t.view, std::nullopt};
  args.b = {b_t.view, sfb_t.view, std::nullopt};
  args.layout = Layout::tn;
  args.c.reset();
  CallOptions options;
  options.accumulate_in_f64 = true;
  k_grouped_gemm(args, options);
  CHECK(is_right(-2, 0));
}
