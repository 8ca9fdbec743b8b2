// Instructions of the SM90 model that no kernel uses yet, against plain loops: votes, mma.sync and
// bulk copies of bytes.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "machine/api.hpp"
#include "machine/global.hpp"
#include "machine/machine.hpp"
#include "sm90_formats.hpp"

using namespace sm90;

namespace {

// The report of a launch; empty if there was none.
std::string run(int threads, const std::function<void()>& kernel, Schedule::Mode mode,
                std::uint64_t seed = 0) {
  Launch launch;
  launch.block = threads;
  launch.shared_bytes = 4096;
  launch.kernel = kernel;
  Schedule schedule;
  schedule.mode = mode;
  schedule.seed = seed;
  try {
    Machine(launch, schedule).run();
  } catch (const Failure& failure) {
    return failure.text;
  }
  return {};
}

constexpr Schedule::Mode modes[] = {Schedule::Mode::eager, Schedule::Mode::lazy,
                                    Schedule::Mode::random};

int a_at(int row, int k) { return (row * 5 + k * 3) % 7 - 3; }
int b_at(int k, int column) { return (k * 2 + column * 3) % 5 - 2; }

struct Bytes {  // of modelled global memory
  explicit Bytes(std::size_t count) : address(allocate(count)), size(count) {}
  ~Bytes() { release(address); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::uint8_t* data() const { return reinterpret_cast<std::uint8_t*>(address); }
  std::uint64_t address;
  std::size_t size;
};

}  // namespace

TEST_CASE("a ballot has the bits of all lanes, and needs them all") {
  std::array<std::uint32_t, 32> votes{};
  CHECK(run(
            32,
            [&] {
              const int lane = thread_index();
              votes[static_cast<std::size_t>(lane)] = ballot(lane % 3 == 0, Where::current());
            },
            Schedule::Mode::random) == "");
  for (const std::uint32_t vote : votes) CHECK(vote == 0x49249249);
  const std::string report = run(
      32,
      [] {
        if (thread_index() != 7) ballot(true, Where::current());
      },
      Schedule::Mode::random);
  CHECK(report.find("deadlock") != std::string::npos);
}

TEST_CASE("mma.sync multiplies what the lanes hold, for every format") {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::f16}) {
    const int elements = format == Format::bf16 || format == Format::f16 ? 2 : 4;
    const int bits = 32 / elements, depth = 8 * elements;
    std::vector<float> found(16 * 8, -1);
    CHECK(run(
              32,
              [&] {
                const int lane = thread_index(), group = lane / 4, in_group = lane % 4;
                std::uint32_t a[4] = {}, b[2] = {};
                for (int i = 0; i < elements; ++i) {
                  for (int word = 0; word < 4; ++word) {
                    const int k = in_group * elements + i + word / 2 * 4 * elements;
                    a[word] |= encode(format, a_at(group + word % 2 * 8, k)) << (i * bits);
                    if (word < 2) {
                      const int b_k = in_group * elements + i + word * 4 * elements;
                      b[word] |= encode(format, b_at(b_k, group)) << (i * bits);
                    }
                  }
                }
                float sum[4] = {1, 1, 1, 1};
                mma_sync(format, sum, a, b, Where::current());
                for (int i = 0; i < 4; ++i) {
                  const int row = group + i / 2 * 8, column = in_group * 2 + i % 2;
                  found[static_cast<std::size_t>(row * 8 + column)] = sum[i];
                }
              },
              Schedule::Mode::random) == "");
    int wrong = 0;
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        int want = 1;
        for (int k = 0; k < depth; ++k) want += a_at(row, k) * b_at(k, column);
        wrong += found[static_cast<std::size_t>(row * 8 + column)] != static_cast<float>(want);
      }
    }
    CAPTURE(static_cast<int>(format));
    CHECK(wrong == 0);
  }
}

TEST_CASE("bytes go in behind a barrier and out in a bulk group, whenever they do") {
  for (const Schedule::Mode mode : modes) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      Bytes from(256), to(256);
      for (std::size_t i = 0; i < 256; ++i) from.data()[i] = static_cast<std::uint8_t>(i * 7);
      CHECK(run(
                32,
                [&] {
                  const Where here = Where::current();
                  const Address barrier = dynamic_shared(), place = barrier + 128;
                  if (thread_index() == 0) {
                    mbarrier_init(barrier, 1, here);
                    mbarrier_init_fence(here);
                  }
                  sync_cta(here);
                  if (thread_index() == 0) {
                    mbarrier_arrive(barrier, 256, here);
                    bulk_load(place, from.data(), 256, barrier, here);
                  }
                  mbarrier_wait(barrier, 0, here);
                  std::uint8_t byte;
                  read_shared(&byte, place + static_cast<Address>(thread_index()), 1, here);
                  if (thread_index() == 0) {
                    bulk_store(to.data(), place, 256, here);
                    tma_commit(here);
                    tma_wait_read(0, here);
                  }
                },
                mode, seed) == "");
      CHECK(std::memcmp(from.data(), to.data(), 256) == 0);
    }
  }
}

TEST_CASE("what is wrong with a bulk copy is reported") {
  Bytes memory(64);
  const auto report = [&](const std::function<void(Address)>& copy) {
    return run(
        32,
        [&] {
          if (thread_index() != 0) return;
          const Address barrier = dynamic_shared();
          mbarrier_init(barrier, 1, Where::current());
          mbarrier_init_fence(Where::current());
          copy(barrier);
        },
        Schedule::Mode::lazy);
  };
  const auto says = [&](const char* words, const std::function<void(Address)>& copy) {
    const std::string text = report(copy);
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
  };
  says("units of 16 bytes", [&](Address barrier) {
    bulk_load(barrier + 128, memory.data() + 4, 16, barrier, Where::current());
  });
  says("outside of every allocation", [&](Address barrier) {
    bulk_load(barrier + 128, memory.data(), 128, barrier, Where::current());
  });
  says("never written",
       [&](Address barrier) { bulk_store(memory.data(), barrier + 128, 16, Where::current()); });
  says("fence.proxy.async", [&](Address barrier) {
    const std::array<std::uint8_t, 16> zeros{};
    write_shared(barrier + 128, zeros.data(), 16, Where::current());
    bulk_store(memory.data(), barrier + 128, 16, Where::current());
  });
  says("still being written", [&](Address barrier) {
    mbarrier_arrive(barrier, 16, Where::current());
    bulk_load(barrier + 128, memory.data(), 16, barrier, Where::current());
    std::uint8_t byte;
    read_shared(&byte, barrier + 128, 1, Where::current());
  });
}
