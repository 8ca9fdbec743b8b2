#include "plan/prepared_call.hpp"

#include "driver/range.hpp"
#include "plan/operands.hpp"

namespace deepgemm::plan {

void PreparedLaunch::run(const CallValues& values,
                         const std::array<std::int64_t, role_count>& distances, std::int64_t index,
                         CUstream stream) {
  for (Patches::Address& patch : patches_) {
    const auto role = static_cast<std::size_t>(patch.role);
    void* const address = static_cast<char*>(values.addresses[role]) + index * distances[role];
    if (address == patch.value) continue;
    std::byte* const place = parameters_ + patch.offset;
    if (patch.in_map) {
      driver::check(
          driver::api().TensorMapReplaceAddress(reinterpret_cast<CUtensorMap*>(place), address),
          "cuTensorMapReplaceAddress");
    } else {
      std::memcpy(place, &address, sizeof(address));
    }
    patch.value = address;
  }
  set_scalars(*reinterpret_cast<device::EpilogueParams*>(parameters_ + patches_.epilogue),
              values.alpha, values.out_scale, patches_.c_is_scaled);
  const driver::Range range(range_);
  launch_.run(stream, parameters_);
}

bool PreparedCall::may_overlap(const CallValues& values) const noexcept {
  constexpr auto out = static_cast<std::size_t>(Role::out);
  const auto begin_of = [&](std::size_t role) {
    return reinterpret_cast<std::uintptr_t>(values.addresses[role]) + spans_[role].begin;
  };
  const auto end_of = [&](std::size_t role) {
    return reinterpret_cast<std::uintptr_t>(values.addresses[role]) + spans_[role].end;
  };
  const std::uintptr_t out_begin = begin_of(out), out_end = end_of(out);
  bool found = false;
  for (std::size_t role = 0; role < role_count; ++role) {
    // A c at out's address is out: the signature says so, and the first call was checked.
    if (values.addresses[role] == values.addresses[out] &&
        (role == out || role == static_cast<std::size_t>(Role::c)))
      continue;
    found |= begin_of(role) < out_end && out_begin < end_of(role);
  }
  return found;
}

void PreparedCall::run(const CallValues& values, CUstream stream) {
  const driver::ContextGuard context(device_);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < count_; ++i) {
    launches_[next].run(values, distances_, i, stream);
    next = next + 1 == launches_.size() ? 0 : next + 1;
  }
}

void PreparedCall::run_again(CUstream stream) {
  const driver::ContextGuard context(device_);
  for (std::int64_t i = 0; i < count_; ++i) {
    launches_[static_cast<std::size_t>(i) % launches_.size()].run_again(stream);
  }
}

}  // namespace deepgemm::plan
