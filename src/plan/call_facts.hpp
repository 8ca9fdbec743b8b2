// A call as its caller gave it: what may change from call to call, and everything else in one
// comparable POD.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"

namespace deepgemm::plan {

// What an array is to a call; `groups` is the group vector, whatever its form is called.
enum class Role : std::uint8_t { a, b, sfa, sfb, out, c, bias, groups };
inline constexpr std::size_t role_count = 8;

// Calls function(Role, const TensorView&) with each array of a call, in the order of Role.
template <class Args, class Function>
void for_each_array(const Args& args, Function&& function) {
  function(Role::a, args.a.values);
  function(Role::b, args.b.values);
  if (args.a.sf) function(Role::sfa, *args.a.sf);
  if (args.b.sf) function(Role::sfb, *args.b.sf);
  function(Role::out, args.out);
  if (args.c) function(Role::c, *args.c);
  if constexpr (requires { args.bias; }) {
    if (args.bias) function(Role::bias, *args.bias);
  }
  if constexpr (std::is_same_v<Args, GroupedArgs>) function(Role::groups, args.groups);
  if constexpr (std::is_same_v<Args, MaskedArgs>) function(Role::groups, args.rows);
  if constexpr (std::is_same_v<Args, KGroupedArgs>) function(Role::groups, args.k_sizes);
}

// Where it lies within 16 bytes: what is read of an address, but whether there is one.
inline std::uintptr_t place_of(const TensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16;
}

// Everything that a check or a plan reads, but for addresses and the values of scalars: operation,
// options, policy, and of each array its dtype, extents, strides, device and place within 16 bytes.
// Two calls of one signature pass the same checks, but those of overlap, and have one plan.
class Signature {
 public:
  class Writer;
  Signature() = default;
  Signature(const GemmArgs& args, const CallOptions& options) noexcept;
  Signature(const GroupedArgs& args, const CallOptions& options) noexcept;
  Signature(const MaskedArgs& args, const CallOptions& options) noexcept;
  Signature(const KGroupedArgs& args, const CallOptions& options) noexcept;
  // False of a call that no check has seen yet and that has no signature, such as a rank of 1000.
  bool usable() const noexcept { return usable_; }
  const std::uint64_t* words() const noexcept { return words_; }
  std::size_t size() const noexcept { return size_; }
  std::uint64_t hash() const noexcept { return hash_; }
  friend bool operator==(const Signature& a, const Signature& b) noexcept {
    return a.usable_ && b.usable_ && a.size_ == b.size_ &&
           std::memcmp(a.words_, b.words_, a.size_ * sizeof(std::uint64_t)) == 0;
  }

 private:
  // 8 arrays of rank 4, the options and a policy.
  static constexpr std::size_t capacity = role_count * (1 + 2 * max_rank) + 24;
  std::size_t size_ = 0;
  std::uint64_t hash_ = 0;
  bool usable_ = true;
  std::uint64_t words_[capacity];  // the first size_ of them
};

// Whether two calls are alike in all that a signature has of their arguments: a yes at a third of
// what it costs to write one. A no says nothing: strides that mean nothing may be all that differs.
bool alike(const GemmArgs& a, const GemmArgs& b) noexcept;
bool alike(const GroupedArgs& a, const GroupedArgs& b) noexcept;
bool alike(const MaskedArgs& a, const MaskedArgs& b) noexcept;
bool alike(const KGroupedArgs& a, const KGroupedArgs& b) noexcept;

// What calls of one signature may differ in.
struct CallValues {
  template <class Args>
  explicit CallValues(const Args& args) : alpha(args.alpha) {
    if constexpr (requires { args.out_scale; }) out_scale = args.out_scale;
    for_each_array(args, [this](Role role, const TensorView& view) {
      addresses[static_cast<std::size_t>(role)] = view.data;
    });
  }

  std::array<void*, role_count> addresses{};  // null: not there
  float alpha = 1, out_scale = 1;
};

}  // namespace deepgemm::plan
