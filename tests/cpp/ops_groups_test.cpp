// The values of group vectors in host memory: each wrong one is refused by name, and nothing is
// computed then.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "grouped_case.hpp"
#include "ops/groups.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::RowGroups;
using test::sentinel;
using test::Vector;

namespace {

using Values = std::vector<std::int64_t>;
constexpr std::int64_t huge = INT64_MAX;

void check_refused(const std::string& message, const std::string& want) {
  INFO(message);
  CHECK(contains(message, want));
}

// a has 12 rows, b 4 groups.
void refuses(GroupForm form, const Values& values, const char* want, std::int64_t alignment = 1) {
  RowGroups p(4, 12, 3, 128, false);
  auto args = test::as<GroupedArgs>(p);
  const Vector vector(values, DType::int64);
  args.groups = vector.view;
  args.form = form;
  args.alignment = alignment;
  check_refused(message_of<ValueError>([&] { grouped_gemm(args); }), want);
  CHECK(p.is_right([](auto, auto) { return -1; }));
}

}  // namespace

TEST_CASE("sizes") {
  refuses(GroupForm::sizes, {3, -1, 4, 4}, "group_sizes: found -1 for group 1, need sizes of 0");
  refuses(GroupForm::sizes, {3, 4, 5, 1},
          "group_sizes: found 1 for group 3 after a sum of 12, need a sum of 12 at most (a has 12 "
          "rows)");
  refuses(GroupForm::sizes, {13, 0, 0, 0}, "found 13 for group 0 after a sum of 0");
  refuses(GroupForm::sizes, {1, huge, huge, 2}, "for group 1 after a sum of 1");  // no overflow
  refuses(GroupForm::sizes, {huge, huge, 2, 0}, "for group 0 after a sum of 0");
}

TEST_CASE("offsets") {
  refuses(GroupForm::offsets, {-1, 3, 4, 5, 6},
          "group_offsets: found -1 at 0, need 0 or more (rows count from 0)");
  refuses(GroupForm::offsets, {0, 3, 2, 5, 6},
          "group_offsets: found 2 at 2, need 3 or more (none is below the one before it)");
  refuses(GroupForm::offsets, {0, 3, 4, 5, 13},
          "group_offsets: found 13 at 4, need 12 at most (a has 12 rows)");
}

TEST_CASE("ends") {
  refuses(GroupForm::ends, {-4, 3, 4, 5}, "group_ends: found -4 at 0, need 0 or more");
  refuses(GroupForm::ends, {5, 4, 6, 7}, "group_ends: found 4 at 1, need 5 or more", 8);
  refuses(GroupForm::ends, {1, 9, 10, 13}, "group_ends: found 13 at 3, need 12 at most", 4);
}

TEST_CASE("labels") {
  Values labels(12, 0);
  labels[7] = 4;
  refuses(GroupForm::labels, labels,
          "labels: found 4 for row 7, need -1 to 3 (b has 4 groups; -1 is a row of none)");
  labels[7] = -2;
  refuses(GroupForm::labels, labels, "labels: found -2 for row 7");
}

TEST_CASE("rows of a masked product") {
  for (const auto& [values, want] :
       {std::pair{Values{0, 6, 5}, "rows: found 6 for group 1, need 0 to 5 (a has 5 rows for"},
        std::pair{Values{0, 5, -1}, "rows: found -1 for group 2"}}) {
    RowGroups p(3, 5, 3, 128, true);
    auto args = test::as<MaskedArgs>(p);
    const Vector vector(values);
    args.rows = vector.view;
    check_refused(message_of<ValueError>([&] { masked_gemm(args); }), want);
    CHECK(p.is_right([](auto, auto) { return -1; }));
  }
}

TEST_CASE("sizes of K") {
  const auto refused = [](const Values& values, std::int64_t k, std::int64_t multiple) {
    const Vector vector(values, DType::int64);
    return message_of<ValueError>([&] { ops::sizes_of_k(vector.view, k, multiple); });
  };
  check_refused(refused({16, -16}, 64, 16), "k_sizes: found -16 for group 1, need sizes of 0");
  check_refused(refused({16, 64}, 64, 16),
                "k_sizes: found 64 for group 1 after a sum of 16, need a sum of 64 at most (a has "
                "K = 64)");
  check_refused(refused({16, 24}, 64, 16),
                "k_sizes: found 24 for group 1, need multiples of 16 (groups of float8");
  CHECK(refused({16, 24}, 64, 1).empty());
  CHECK(refused({0, 64}, 64, 16).empty());
}

TEST_CASE("values are read with their strides, aligned or not") {
  Vector vector({7, 1, -5, 2, 9, 3}, DType::int64);
  vector.view.shape[0] = 3;
  vector.view.strides[0] = 2;
  CHECK(ops::integers_of(vector.view) == Values{7, -5, 9});
  vector.view.strides[0] = -1;
  vector.view.data = vector.memory.data() + 16;
  CHECK(ops::integers_of(vector.view) == Values{-5, 1, 7});
  Vector narrow({-70000, 1});
  std::vector<unsigned char> shifted(9);
  std::copy_n(narrow.memory.begin(), 8, shifted.begin() + 1);
  narrow.view.data = shifted.data() + 1;
  CHECK(ops::integers_of(narrow.view) == Values{-70000, 1});
}
