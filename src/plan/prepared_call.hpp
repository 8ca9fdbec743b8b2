// A call with everything done that does not depend on where its arrays lie: checked, planned, its
// kernel loaded, its parameters encoded. What is left is to put addresses and scalars in, and to
// launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/common/gemm_params.cuh"
#include "driver/driver.hpp"
#include "plan/call_facts.hpp"

namespace deepgemm::plan {

// Where a call's addresses and scalars lie in the parameters of a kernel.
class Patches {
 public:
  struct Address {
    std::uint16_t offset = 0;
    Role role{};
    bool in_map = false;  // of a tensor map, else a pointer
    void* value = nullptr;
  };
  void add_map(Role role, std::size_t offset) { add(role, offset, true); }
  void add_pointer(Role role, std::size_t offset) { add(role, offset, false); }
  Address* begin() { return addresses_.data(); }
  Address* end() { return addresses_.data() + count_; }

  std::size_t epilogue = 0;  // offset of the EpilogueParams
  bool c_is_scaled = false;  // by out_scale

 private:
  void add(Role role, std::size_t offset, bool in_map) {
    addresses_.at(count_++) = {static_cast<std::uint16_t>(offset), role, in_map, nullptr};
  }
  std::size_t count_ = 0;
  std::array<Address, 14> addresses_{};  // 8 maps and 6 pointers of the persistent kernel
};

class PreparedLaunch {
 public:
  template <class Parameters>
  PreparedLaunch(const driver::Launch& launch, const Parameters& parameters, const Patches& patches,
                 std::string range)
      : launch_(launch), patches_(patches), range_(std::move(range)) {
    static_assert(std::is_trivially_copyable_v<Parameters>);
    static_assert(sizeof(Parameters) <= most_bytes && alignof(Parameters) <= alignment);
    std::memcpy(parameters_, &parameters, sizeof(parameters));
  }

  // The arrays of this launch lie `index` times `distances` bytes behind those of `values`.
  void run(const CallValues& values, const std::array<std::int64_t, role_count>& distances,
           std::int64_t index, CUstream stream);
  void run_again(CUstream stream) { launch_.run(stream, parameters_); }
  const std::byte* parameters() const { return parameters_; }

 private:
  static constexpr std::size_t most_bytes = sizeof(device::GemmParams);
  static constexpr std::size_t alignment = alignof(device::GemmParams);

  driver::Launch launch_;
  Patches patches_;
  std::string range_;  // the name of the NVTX range around each run(); empty: none
  alignas(alignment) std::byte parameters_[most_bytes]{};
};

// All launches of a call: one, or one for each product of a batch.
class PreparedCall {
 public:
  // The i-th of `count` launches is launches[i % size], with addresses i * distances further on.
  PreparedCall(int device, std::vector<PreparedLaunch> launches, std::int64_t count = 1,
               const std::array<std::int64_t, role_count>& distances = {})
      : device_(device), launches_(std::move(launches)), count_(count), distances_(distances) {}

  // Remembers which bytes each array spans.
  template <class Args>
  void set_spans(const Args& args) {
    for_each_array(args, [&](Role role, const TensorView& view) {
      const ByteRange range = byte_range(view);
      const auto address = reinterpret_cast<std::uintptr_t>(view.data);
      spans_[static_cast<std::size_t>(role)] = {range.begin - address, range.end - address};
    });
  }
  // Whether out spans bytes that another array spans too, but for a c that is out: then only the
  // checks of the operation can tell. False proves that they would pass.
  bool may_overlap(const CallValues& values) const noexcept;
  // Writes the parameters in place: each thread has its own copy.
  void run(const CallValues& values, CUstream stream);
  // What run() did last, with nothing but the driver's launches.
  void run_again(CUstream stream);

 private:
  int device_ = 0;
  std::vector<PreparedLaunch> launches_;
  std::int64_t count_ = 1;
  std::array<std::int64_t, role_count> distances_{};
  std::array<ByteRange, role_count> spans_{};  // from the address of each
};

}  // namespace deepgemm::plan
