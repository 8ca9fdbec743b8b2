// WGMMA of the SM90 model against plain loops: every format, swizzle, majorness and number of
// columns, exact; groups that stay in flight over a loop's back edge; what is reported.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "contains.hpp"
#include "machine/api.hpp"
#include "machine/global.hpp"
#include "machine/machine.hpp"
#include "machine/matrix.hpp"
#include "machine/memory.hpp"
#include "ptx/wgmma.cuh"
#include "sm90_formats.hpp"

using namespace sm90;
using deepgemm::device::ElementType;
namespace ptx = deepgemm::device::ptx;

namespace {

constexpr int rows = 64, steps = 2;  // instructions along K
constexpr Address b_offset = 16384;

struct Operands {
  Format format;
  int span;     // bytes of the swizzle
  int columns;  // of B
  bool a_mn_major = false, b_mn_major = false;
  int bytes() const { return bytes_of(format); }
  // K-major, all of K lies in one span.
  int instructions() const { return std::min(steps, span / 32); }
  int depth() const { return instructions() * 32 / bytes(); }
};

int element(int row, int k) { return (row * 7 + k * 3 + row * k) % 5 - 2; }

// Where an element lies. MN-major: blocks of a span of rows, in each a line for every k.
Address place(const Operands& o, bool mn_major, int row, int k) {
  const int across = o.span / o.bytes();
  const int line = mn_major ? row / across * o.depth() + k : row;
  const auto byte = static_cast<Address>(line * o.span + (mn_major ? row % across : k) * o.bytes());
  return swizzle(byte & ~Address{15}, static_cast<Address>(o.span)) + byte % 16;
}

// Of A, or of B as the rows that follow: K from first_k on, by all threads.
void fill(const Operands& o, Address start, bool of_b, int first_k = 0) {
  const int count = of_b ? o.columns : rows, first_row = of_b ? rows : 0;
  const bool mn_major = of_b ? o.b_mn_major : o.a_mn_major;
  for (int i = thread_index(); i < count * o.depth(); i += cta_threads()) {
    const int row = i / o.depth(), k = i % o.depth();
    const std::uint32_t bits = encode(o.format, element(first_row + row, first_k + k));
    write_shared(start + place(o, mn_major, row, k), &bits, o.bytes(), Where::current());
  }
}

// Of the operand from instruction `step` on.
std::uint64_t descriptor(const Operands& o, Address start, bool mn_major, int step) {
  const auto units = [](int bytes) { return static_cast<std::uint64_t>(bytes / 16); };
  const std::uint64_t kind = o.span == 128 ? 1 : o.span == 64 ? 2 : 3;
  const std::uint64_t along = mn_major ? units(step * 32 / o.bytes() * o.span) : units(step * 32);
  const std::uint64_t leading = mn_major ? units(o.depth() * o.span) : 1;
  return ((start >> 4) + along) | leading << 16 | units(8 * o.span) << 32 | kind << 62;
}

Launch one_warpgroup(std::function<void()> kernel) {
  Launch launch;
  launch.block = 128;
  launch.shared_bytes = 131072;
  launch.kernel = std::move(kernel);
  return launch;
}

Schedule schedule_of(Schedule::Mode mode, std::uint64_t seed = 0) {
  Schedule schedule;
  schedule.mode = mode;
  schedule.seed = seed;
  return schedule;
}

// The report of a launch that runs asynchronous work as late as it can; empty if there was none.
std::string report(const std::function<void()>& kernel,
                   const Schedule& schedule = schedule_of(Schedule::Mode::lazy)) {
  try {
    Machine(one_warpgroup(kernel), schedule).run();
  } catch (const Failure& failure) {
    return failure.text;
  }
  return {};
}

void issue(const Operands& o, Address start, int step, bool accumulate) {
  wgmma(o.columns, o.format, o.format, 0, accumulate, descriptor(o, start, o.a_mn_major, step),
        descriptor(o, start + b_offset, o.b_mn_major, step), o.a_mn_major, o.b_mn_major,
        Where::current());
}

// Both operands, written and visible to the tensor core.
void fill_both(const Operands& o, Address start, int first_k = 0) {
  fill(o, start, false, first_k);
  fill(o, start + b_offset, true, first_k);
  fence_async_proxy(Where::current());
  sync_cta(Where::current());
}

// Where thread `t` holds its sum i, in [row][column].
std::size_t place_of_sum(int columns, int t, int i) {
  const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
  const int column = i / 4 * 8 + t % 4 * 2 + i % 2;
  return static_cast<std::size_t>(row * columns + column);
}

// The sums of all threads, [row][column].
std::vector<float> multiply(const Operands& o) {
  std::vector<float> sums(static_cast<std::size_t>(rows * o.columns), NAN);
  const Launch launch = one_warpgroup([&] {
    const Where here = Where::current();
    const Address start = dynamic_shared();
    fill_both(o, start);
    wgmma_fence(here);
    for (int step = 0; step < o.instructions(); ++step) issue(o, start, step, step > 0);
    wgmma_commit(here);
    wgmma_wait(0, here);
    for (int i = 0; i < o.columns / 2; ++i) {
      sums[place_of_sum(o.columns, thread_index(), i)] = partial(0, i, here);
    }
  });
  Machine(launch, Schedule{}).run();
  return sums;
}

// Sums over the first `depth` of K that a plain loop does not find.
int wrong_sums(const std::vector<float>& sums, int columns, int depth) {
  int wrong = 0;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      int want = 0;
      for (int k = 0; k < depth; ++k) want += element(row, k) * element(rows + column, k);
      wrong += sums[static_cast<std::size_t>(row * columns + column)] != static_cast<float>(want);
    }
  }
  return wrong;
}

void check_product(const Operands& o) {
  CAPTURE(static_cast<int>(o.format));
  CAPTURE(o.span);
  CAPTURE(o.columns);
  CAPTURE(o.a_mn_major);
  CAPTURE(o.b_mn_major);
  CHECK(wrong_sums(multiply(o), o.columns, o.depth()) == 0);
}

// As a kernel does it: A is MN-major; a group is waited for when the next one has been issued.
constexpr int columns = 96, blocks = 4;
constexpr Operands pipelined{Format::bf16, 128, columns, true, false};
constexpr Address stage_bytes = 32768;
using Instruction = ptx::Wgmma<columns, ElementType::bf16, ElementType::bf16, 0>;

void start_block(Address stage, int block) {
  const Operands& o = pipelined;
  ptx::wgmma_fence();
  for (int step = 0; step < steps; ++step) {
    Instruction::accumulate<1, 0>(descriptor(o, stage, true, step),
                                  descriptor(o, stage + b_offset, false, step), block + step);
  }
  ptx::wgmma_commit();
}

template <int... Groups>
void read_all(float* sums, std::integer_sequence<int, Groups...>) {
  (ptx::Partial<Groups, 0>::read(sums), ...);
}

// `blocks` blocks of K through a ring of stages, with `Pending` groups in flight when it is read.
template <int Pending>
std::string run_pipelined(int stages, const Schedule& schedule, std::vector<float>& sums) {
  return report(
      [&, stages] {
        for (int block = 0; block < blocks; ++block) {
          const Address stage =
              dynamic_shared() + static_cast<Address>(block % stages) * stage_bytes;
          fill_both(pipelined, stage, block * pipelined.depth());
          start_block(stage, block);
          ptx::wgmma_wait<1>();
        }
        ptx::wgmma_wait<Pending>();
        float mine[columns / 2];
        read_all(mine, std::make_integer_sequence<int, columns / 8>());
        for (int i = 0; i < columns / 2; ++i) {
          sums[place_of_sum(columns, thread_index(), i)] = mine[i];
        }
      },
      schedule);
}

}  // namespace

TEST_CASE("the product of every format and swizzle, by the fragments that threads hold") {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::f16}) {
    for (const int span : {32, 64, 128}) {
      for (const int n : {8, 96, 256}) check_product({format, span, n});
    }
  }
}

TEST_CASE("the product of MN-major operands, of A, of B and of both") {
  for (const Format format : {Format::bf16, Format::f16}) {
    for (const int n : {8, 64, 96, 128, 256}) {
      for (const bool a_mn_major : {false, true}) {
        for (const bool b_mn_major : {false, true}) {
          check_product({format, 128, n, a_mn_major, b_mn_major});
        }
      }
    }
    for (const int span : {32, 64}) check_product({format, span, 96, true, true});
  }
}

TEST_CASE("a group in flight over the back edge of a loop, in two stages") {
  for (const auto mode : {Schedule::Mode::eager, Schedule::Mode::lazy, Schedule::Mode::random}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      std::vector<float> sums(static_cast<std::size_t>(rows * columns), NAN);
      CHECK(run_pipelined<0>(2, schedule_of(mode, seed), sums) == "");
      CHECK(wrong_sums(sums, columns, blocks * pipelined.depth()) == 0);
    }
  }
}

TEST_CASE("what a group in flight still reads or writes is left alone") {
  std::vector<float> sums(static_cast<std::size_t>(rows * columns));
  const auto says = [](const std::string& text, const std::string& words) {
    INFO(text);
    CHECK(test::contains(text, words));
  };
  const Schedule lazy = schedule_of(Schedule::Mode::lazy);
  says(run_pipelined<0>(1, lazy, sums), "are still being read by the WGMMA of");
  says(run_pipelined<1>(2, lazy, sums), "a partial accumulator is read before the wait");
  // By an asynchronous copy: the last line of A, and what follows it.
  const std::uint64_t source = allocate(16);
  const auto copy_to = [source](Address offset) {
    return [source, offset] {
      const Address start = dynamic_shared(), barrier = start + 2 * stage_bytes;
      if (thread_index() == 0) {
        mbarrier_init(barrier, 1, Where::current());
        mbarrier_init_fence(Where::current());
      }
      fill_both(pipelined, start);
      start_block(start, 0);
      ptx::wgmma_wait<1>();
      if (thread_index() == 0) {
        mbarrier_arrive(barrier, 16, Where::current());
        bulk_load(start + offset, reinterpret_cast<const void*>(source), 16, barrier,
                  Where::current());
      }
      mbarrier_wait(barrier, 0, Where::current());
      ptx::wgmma_wait<0>();
    };
  };
  const auto a_bytes = static_cast<Address>(pipelined.depth() * pipelined.span);
  says(report(copy_to(a_bytes - 16)), "are still being read by the WGMMA of");
  CHECK(report(copy_to(a_bytes)) == "");
  release(source);
}

TEST_CASE("an accumulator in flight is added to, by WGMMAs of its shape only") {
  const auto second = [](int n, bool accumulate) {
    return report([n, accumulate] {
      const Operands o{Format::f16, 128, 16};
      const Address start = dynamic_shared();
      fill_both(o, start);
      wgmma_fence(Where::current());
      issue(o, start, 0, false);
      wgmma_commit(Where::current());
      issue({o.format, o.span, n}, start, 1, accumulate);
      wgmma_commit(Where::current());
      wgmma_wait(0, Where::current());
    });
  };
  CHECK(second(16, true) == "");
  CHECK(test::contains(second(16, false), "an accumulator that an earlier group still writes"));
  CHECK(test::contains(second(8, true), "an accumulator that one of another shape still writes"));
}

TEST_CASE("what no WGMMA does is refused") {
  const auto refusal = [](int n, Format a, Format b, bool a_mn_major, bool b_mn_major,
                          std::uint64_t start) {
    return report([=] {
      const std::uint64_t operand = std::uint64_t{1} << 62 | start >> 4;
      wgmma_fence(Where::current());
      wgmma(n, a, b, 0, false, operand, operand, a_mn_major, b_mn_major, Where::current());
    });
  };
  const auto says = [&](const char* words, int n, Format a, Format b, bool a_mn_major = false,
                        bool b_mn_major = false, std::uint64_t start = 1024) {
    const std::string text = refusal(n, a, b, a_mn_major, b_mn_major, start);
    INFO(text);
    CHECK(test::contains(text, words));
  };
  const char* const of_16_bits = "WGMMA takes MN-major operands of 16-bit elements only";
  says(of_16_bits, 8, Format::e4m3, Format::e4m3, true, false);
  says(of_16_bits, 8, Format::e4m3, Format::e4m3, false, true);
  says("elements of one size", 8, Format::bf16, Format::e4m3);
  says("16-bit elements of one format", 8, Format::bf16, Format::f16);
  says("a multiple of 8 columns, up to 256", 264, Format::bf16, Format::bf16);
  says("a multiple of 8 columns, up to 256", 12, Format::bf16, Format::bf16);
  // 64 rows that begin in the middle of a line of 64.
  says("run over the end of their 128 bytes", 8, Format::bf16, Format::bf16, true, true, 1024 + 64);
}
