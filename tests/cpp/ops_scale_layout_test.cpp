#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "deepgemm/scale_layout.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::Tensor;

namespace {

template <class Exception, class Function>
void refuses(Function&& function, const char* part) {
  const std::string message = message_of<Exception>(function);
  INFO(message);
  CHECK(contains(message, part));
}

struct Packing {
  Tensor sf{DType::float32, {4, 6}}, packed{DType::int32, {4, 2}};
  PackGroups groups;
  Packing() {
    sf.fill([](std::int64_t, std::int64_t) { return 1.0; });
  }
  void run() const { pack_ue8m0(sf.view, packed.view, groups); }
  std::uint32_t word(int row, int column) const {
    std::uint32_t found = 0;
    std::memcpy(&found, packed.memory.data() + 4 * (2 * row + column), 4);
    return found;
  }
};

}  // namespace

TEST_CASE("copy_scales: each bad argument is named") {
  Tensor sf{DType::float32, {4, 6}}, out{DType::float32, {4, 6}};
  const auto run = [&] { copy_scales(sf.view, out.view); };
  run();
  SUBCASE("dtype") {
    sf.view.dtype = DType::bfloat16;
    refuses<TypeError>(run, "sf: found bfloat16, need float32 or int32");
  }
  SUBCASE("another dtype") {
    out.view.dtype = DType::int32;
    refuses<TypeError>(run, "out: found int32, need float32");
  }
  SUBCASE("rank") {
    sf.view.rank = 1;
    refuses<ValueError>(run, "sf: found shape [4], rank 1");
  }
  SUBCASE("shape") {
    out.view.shape[1] = 5;
    refuses<ValueError>(run, "out: found shape [4, 5]");
  }
  SUBCASE("device") {
    out.view.device = {DeviceKind::cuda, 0};
    refuses<ValueError>(run, "out");
  }
  SUBCASE("rows that overlap") {
    out.view.strides = {1, 1};
    refuses<ValueError>(run, "out");
  }
  SUBCASE("memory that overlaps") {
    out.view.data = sf.view.data;
    refuses<ValueError>(run, "overlap");
  }
  SUBCASE("no memory") {
    sf.view.data = nullptr;
    refuses<ValueError>(run, "sf");
  }
}

TEST_CASE("pack_ue8m0: each bad argument is named") {
  Packing call;
  const auto run = [&] { call.run(); };
  run();
  Tensor ends{DType::int32, {2}};
  SUBCASE("dtypes") {
    call.sf.view.dtype = DType::int32;
    refuses<TypeError>(run, "sf: found int32, need float32");
  }
  SUBCASE("columns") {
    call.packed.view.shape[1] = 1;
    refuses<ValueError>(run, "out: found shape [4, 1]");
  }
  SUBCASE("rank of out") {
    call.packed.view.rank = 1;
    refuses<ValueError>(run, "out: found shape [4], rank 1");
  }
  SUBCASE("a mantissa") {
    call.sf.set(3, 5, 1.5);
    refuses<ValueError>(run, "sf: found 1.5 at row 3, K block 5");
  }
  SUBCASE("a sign") {
    call.sf.set(0, 1, -2);
    refuses<ValueError>(run, "sf: found -2 at row 0, K block 1");
  }
  SUBCASE("groups of rows") {
    call.groups.rows = RowEnds{ends.view, 0};
    refuses<ValueError>(run, "alignment: found 0");
    call.groups.rows->ends.dtype = DType::float32;
    refuses<TypeError>(run, "group_ends: found float32");
  }
  SUBCASE("groups along K") {
    call.groups.k = KSizes{ends.view, 0};
    refuses<ValueError>(run, "k_per_scale: found 0");
    call.groups.k->sizes.rank = 2;
    refuses<ValueError>(run, "k_sizes");
    call.groups.rows = RowEnds{ends.view, 1};
    refuses<ValueError>(run, "group_ends, k_sizes: found both");
  }
}

TEST_CASE("packing and unpacking, dense and in groups along K") {
  Packing call;
  call.sf.fill([](std::int64_t r, std::int64_t k) { return r == 0 ? 1.0 : k == 5 ? 0.5 : 2.0; });
  call.run();
  CHECK(call.word(0, 0) == 0x7F7F7F7F);
  CHECK(call.word(0, 1) == 0x7F7F);
  CHECK(call.word(3, 1) == 0x7E80);
  Tensor back{DType::float32, {4, 6}};
  unpack_ue8m0(call.packed.view, back.view);
  CHECK(back.memory == call.sf.memory);

  const std::array<std::int64_t, 3> sizes{256, 0, 512};
  CHECK(packed_blocks(sizes, 128) == 2);
  for (std::int64_t blocks : {0, 1, 4, 5}) CHECK(packed_blocks(blocks) == (blocks + 3) / 4);
  CHECK(packed_blocks(std::numeric_limits<std::int64_t>::max()) == std::int64_t{1} << 61);
  CHECK(packed_blocks(sizes, 16) == 12);
  CHECK_THROWS_AS(packed_blocks(sizes, 0), ValueError);
  Tensor vector{DType::int64, {3}};
  for (int i = 0; i < 3; ++i) {
    std::memcpy(vector.memory.data() + 8 * i, &sizes[static_cast<std::size_t>(i)], 8);
  }
  call.groups.k = KSizes{vector.view, 128};
  call.run();
  CHECK(call.word(0, 0) == 0x7F7F);
  CHECK(call.word(3, 0) == 0x8080);
  CHECK(call.word(3, 1) == 0x7E808080U);
  Tensor again{DType::float32, {4, 6}};
  unpack_ue8m0(call.packed.view, again.view, call.groups.k);
  CHECK(again.memory == call.sf.memory);
}

TEST_CASE("unpack_ue8m0: the columns fit") {
  Tensor packed{DType::int32, {4, 2}}, sf{DType::float32, {4, 9}};
  refuses<ValueError>([&] { unpack_ue8m0(packed.view, sf.view); },
                      "out: found 9 K blocks, need 5 to 8");
  packed.view.dtype = DType::float32;
  refuses<TypeError>([&] { unpack_ue8m0(packed.view, sf.view); },
                     "packed: found float32, need int32");
}
