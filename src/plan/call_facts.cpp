#include "plan/call_facts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace deepgemm::plan {
namespace {

// Odd numbers without a pattern (the SplitMix64 generator's), one for each word.
struct Multipliers {
  std::uint64_t of[128];
};
constexpr Multipliers make_multipliers() {
  Multipliers made{};
  std::uint64_t state = 0;
  for (std::uint64_t& multiplier : made.of) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    multiplier = (z ^ (z >> 31)) | 1;
  }
  return made;
}
constexpr Multipliers multipliers = make_multipliers();

}  // namespace

// Writes the words one after the other, and their hash: their sum, each times its multiplier, whose
// top bits are good. Why not hash_bytes(): its multiplications wait for each other.
class Signature::Writer {
 public:
  explicit Writer(Signature& signature) noexcept : signature_(signature) {}
  ~Writer() {
    signature_.size_ = size_;
    signature_.hash_ = sum_ + size_;
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void add(std::uint64_t word) noexcept {
    static_assert(capacity <= std::size(multipliers.of));
    signature_.words_[size_] = word;
    sum_ += word * multipliers.of[size_++];
  }
  void refuse() noexcept { signature_.usable_ = false; }

 private:
  Signature& signature_;
  std::size_t size_ = 0;
  std::uint64_t sum_ = 0;
};

namespace {

enum class Operation : std::uint8_t { gemm, grouped, masked, k_grouped };

// Fields of the first two words, each as wide as its type, so that no two calls share one.
constexpr int layout_bit = 8, activation_bit = 16, flags_bit = 24, form_bit = 32;

// What matters of it to a check or a plan.
std::uint64_t kind_of_scale(float scale) {
  if (scale == 1.0F) return 0;
  return std::isfinite(scale) && scale > 0 ? 1 : 2;
}

// One array. Strides of dimensions with one element mean nothing. Host memory is computed wherever
// it lies; whether an input may be written matters to nobody.
inline void add_array(Signature::Writer& signature, Role role, const TensorView& view) {
  if (static_cast<unsigned>(view.rank) > static_cast<unsigned>(max_rank)) {
    return signature.refuse();
  }
  const bool on_gpu = view.device.kind != DeviceKind::cpu;
  const auto small = static_cast<std::uint32_t>(view.dtype) |
                     static_cast<std::uint32_t>(role) << 8 |
                     static_cast<std::uint32_t>(view.rank) << 12 |
                     static_cast<std::uint32_t>(on_gpu ? place_of(view) : 0) << 16 |
                     static_cast<std::uint32_t>(on_gpu) << 20 |
                     static_cast<std::uint32_t>(view.data == nullptr) << 21 |
                     static_cast<std::uint32_t>(role == Role::out && view.read_only) << 22;
  signature.add(small | static_cast<std::uint64_t>(static_cast<std::uint32_t>(view.device.index))
                            << 32);
  for (int i = 0; i < view.rank; ++i) {
    const std::int64_t extent = view.shape[i], stride = view.strides[i];
    signature.add(static_cast<std::uint64_t>(extent));
    signature.add(static_cast<std::uint64_t>(extent == 1 ? 0 : stride));
  }
}

void add_granularity(Signature::Writer& signature, const std::optional<Granularity>& granularity) {
  if (!granularity) return;
  signature.add(static_cast<std::uint64_t>(granularity->rows));
  signature.add(static_cast<std::uint64_t>(granularity->k));
}

// What is set, then the numbers and the name.
void add_policy(Signature::Writer& signature, const Policy& policy) {
  const std::optional<int>* const numbers[] = {
      &policy.tile_m,       &policy.tile_n,    &policy.stages,      &policy.cluster_m,
      &policy.cluster_n,    &policy.consumers, &policy.consumers_n, &policy.group,
      &policy.stage_blocks, &policy.cluster_k, &policy.ctas_per_sm, &policy.num_sms};
  std::uint64_t set = 0, bit = 1;
  const auto add_bit = [&](bool value) {
    if (value) set |= bit;
    bit <<= 1;
  };
  for (const auto* number : numbers) add_bit(number->has_value());
  for (const auto& flag : {policy.raster_along_n, policy.ordered}) {
    add_bit(flag.has_value());
    add_bit(flag.value_or(false));
  }
  add_bit(policy.kernel.has_value());
  char name[16] = {};
  if (policy.kernel) {
    if (policy.kernel->size() >= sizeof(name)) return signature.refuse();  // no kernel's name
    std::copy(policy.kernel->begin(), policy.kernel->end(), name);
    set |= static_cast<std::uint64_t>(policy.kernel->size()) << 32;
  }
  signature.add(set);
  std::uint64_t words[2];
  std::memcpy(words, name, sizeof(words));
  for (std::uint64_t word : words) signature.add(word);
  for (std::size_t i = 0; i < std::size(numbers); i += 2) {
    const auto low = static_cast<std::uint32_t>(numbers[i]->value_or(0));
    const auto high = static_cast<std::uint32_t>(numbers[i + 1]->value_or(0));
    signature.add(low | static_cast<std::uint64_t>(high) << 32);
  }
}

// What every operation has; `form`: 32 bits of its own.
template <class Args>
void add_call(Signature::Writer& signature, Operation operation, std::uint64_t form,
              const Args& args, const CallOptions& options) {
  std::uint64_t flags = 0;
  std::uint64_t bit = std::uint64_t{1} << flags_bit;
  const auto add_flag = [&](bool value) {
    if (value) flags |= bit;
    bit <<= 1;
  };
  add_flag(args.alpha != 1.0F);
  add_flag(options.pdl);
  add_flag(options.constant_b);
  add_flag(options.accumulate_in_f64);
  add_flag(options.policy != nullptr);
  add_flag(args.c && args.c->data == args.out.data);
  add_flag(args.a.granularity.has_value());
  add_flag(args.b.granularity.has_value());
  std::uint64_t first = static_cast<std::uint64_t>(operation) | flags |
                        static_cast<std::uint64_t>(args.layout) << layout_bit;
  if constexpr (requires { args.activation; }) {
    first |= static_cast<std::uint64_t>(args.activation) << activation_bit;
  }
  signature.add(first);
  signature.add(static_cast<std::uint32_t>(options.num_sms) | form << form_bit);
  add_granularity(signature, args.a.granularity);
  add_granularity(signature, args.b.granularity);
  if (options.policy != nullptr) add_policy(signature, *options.policy);
  for_each_array(args,
                 [&](Role role, const TensorView& view) { add_array(signature, role, view); });
}

}  // namespace

Signature::Signature(const GemmArgs& args, const CallOptions& options) noexcept {
  Writer writer(*this);
  add_call(writer, Operation::gemm, kind_of_scale(args.out_scale), args, options);
}

Signature::Signature(const GroupedArgs& args, const CallOptions& options) noexcept {
  Writer writer(*this);
  add_call(writer, Operation::grouped, static_cast<std::uint64_t>(args.form), args, options);
  writer.add(static_cast<std::uint64_t>(args.alignment));
}

Signature::Signature(const MaskedArgs& args, const CallOptions& options) noexcept {
  Writer writer(*this);
  add_call(writer, Operation::masked, args.expected_rows.has_value(), args, options);
  writer.add(static_cast<std::uint64_t>(args.expected_rows.value_or(0)));
}

Signature::Signature(const KGroupedArgs& args, const CallOptions& options) noexcept {
  Writer writer(*this);
  add_call(writer, Operation::k_grouped, 0, args, options);
}

namespace {

inline bool same(const TensorView& a, const TensorView& b) {
  if (a.rank != b.rank || static_cast<unsigned>(a.rank) > static_cast<unsigned>(max_rank) ||
      a.dtype != b.dtype || a.device != b.device || a.read_only != b.read_only ||
      place_of(a) != place_of(b) || (a.data == nullptr) != (b.data == nullptr)) {
    return false;
  }
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i] || a.strides[i] != b.strides[i]) return false;
  }
  return true;
}
bool same(const std::optional<TensorView>& a, const std::optional<TensorView>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
bool same(const ScaledView& a, const ScaledView& b) {
  return same(a.values, b.values) && same(a.sf, b.sf) && a.granularity == b.granularity;
}

// What every operation has.
template <class Args>
bool same_product(const Args& a, const Args& b) {
  const auto in_place = [](const Args& args) { return args.c && args.c->data == args.out.data; };
  if constexpr (requires { a.bias; }) {
    if (!same(a.bias, b.bias) || a.activation != b.activation) return false;
  }
  return same(a.a, b.a) && same(a.b, b.b) && same(a.out, b.out) && same(a.c, b.c) &&
         in_place(a) == in_place(b) && a.layout == b.layout &&
         (a.alpha == 1.0F) == (b.alpha == 1.0F);
}

}  // namespace

bool alike(const GemmArgs& a, const GemmArgs& b) noexcept {
  return same_product(a, b) && kind_of_scale(a.out_scale) == kind_of_scale(b.out_scale);
}

bool alike(const GroupedArgs& a, const GroupedArgs& b) noexcept {
  return same_product(a, b) && same(a.groups, b.groups) && a.form == b.form &&
         a.alignment == b.alignment;
}

bool alike(const MaskedArgs& a, const MaskedArgs& b) noexcept {
  return same_product(a, b) && same(a.rows, b.rows) && a.expected_rows == b.expected_rows;
}

bool alike(const KGroupedArgs& a, const KGroupedArgs& b) noexcept {
  return same_product(a, b) && same(a.k_sizes, b.k_sizes);
}

}  // namespace deepgemm::plan
