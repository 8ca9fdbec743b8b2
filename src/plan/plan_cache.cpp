#include "plan/plan_cache.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "core/hash.hpp"
#include "driver/driver.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/new_plan.hpp"

namespace deepgemm::plan {
namespace {

// Why a bound and not an eviction order: a process that meets more shapes than this is sweeping
// them, and starting over costs it microseconds.
constexpr std::size_t max_plans = 1024;

// Everything that make_gemm_plan() and make_grouped_plan() read, as bytes without padding.
// Addresses and strides enter by what TMA asks of them: their residues modulo 16 bytes, and the
// strides themselves.
struct PlanKey {
  std::int64_t extents[3];
  std::int64_t strides[12];
  std::int64_t granularity[4];
  std::int64_t apart[6];  // the matrices of a stack; 0 of one product
  std::int64_t groups, expected;
  std::int64_t sf_blocks[2];  // along K, where groups divide it
  std::uint8_t residues[6];
  std::uint8_t dtypes[6];
  std::uint8_t flags[12];
  std::int32_t num_sms;  // with the device it also says whether they are fewer than it has
  std::int32_t device;

  friend bool operator==(const PlanKey& a, const PlanKey& b) noexcept {
    return std::memcmp(&a, &b, sizeof(PlanKey)) == 0;
  }
};
static_assert(std::has_unique_object_representations_v<PlanKey>);

struct Hash {
  std::size_t operator()(const PlanKey& key) const noexcept {
    return hash_bytes(&key, sizeof(key));
  }
};

std::uint8_t residue(const TensorView& view) {
  return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(view.data) % 16);
}

PlanKey key_of(const GemmProblem& p, const GemmArgs& args, const GroupLayout& stack, int device,
               int num_sms) {
  PlanKey key{};
  const TensorView none{};
  const TensorView& sfa = args.a.sf ? *args.a.sf : none;
  const TensorView& sfb = args.b.sf ? *args.b.sf : none;
  key.extents[0] = p.m;
  key.extents[1] = p.n;
  key.extents[2] = p.k;
  const TensorView& c = args.c ? *args.c : none;
  const TensorView* views[] = {&args.a.values, &args.b.values, &sfa, &sfb, &args.out, &c};
  for (std::size_t i = 0; i < std::size(views); ++i) {
    key.strides[2 * i] = views[i]->strides[0];
    key.strides[2 * i + 1] = views[i]->strides[1];
    key.dtypes[i] = static_cast<std::uint8_t>(views[i]->dtype);
    key.residues[i] = residue(*views[i]);
  }
  key.granularity[0] = p.a_granularity.rows;
  key.granularity[1] = p.a_granularity.k;
  key.granularity[2] = p.b_granularity.rows;
  key.granularity[3] = p.b_granularity.k;
  key.flags[0] = static_cast<std::uint8_t>(args.layout);
  key.flags[1] = needs_epilogue(args);
  key.flags[2] = static_cast<std::uint8_t>((p.a_scaled ? 1 : 0) | (p.b_scaled ? 2 : 0));
  key.flags[3] = only_accumulates(args);
  key.flags[4] = static_cast<std::uint8_t>(sfa.rank);
  key.flags[5] = static_cast<std::uint8_t>(sfb.rank);
  key.flags[6] = args.c && args.c->data == args.out.data;
  const std::int64_t apart[] = {stack.a, stack.sfa, stack.b, stack.sfb, stack.out, stack.c};
  std::copy(std::begin(apart), std::end(apart), key.apart);
  key.groups = stack.groups;
  key.num_sms = num_sms;
  key.device = device;
  return key;
}

PlanKey key_of(const GroupedCall& call, int device, int num_sms) {
  PlanKey key = key_of(call.product, call.first, call.layout, device, num_sms);
  key.expected = call.expected;
  key.flags[7] = static_cast<std::uint8_t>(1 + static_cast<int>(call.layout.kind));
  key.flags[8] = static_cast<std::uint8_t>(call.layout.vector.form);
  if (call.layout.kind == GroupKind::k) {
    if (call.first.a.sf) key.sf_blocks[0] = call.first.a.sf->shape[1];
    if (call.first.b.sf) key.sf_blocks[1] = call.first.b.sf->shape[1];
  }
  return key;
}

// The thread's plan of this key, else the one that `make` makes and `load` loads.
template <class Make, class Load>
const ReadyPlan& found_or_made(const PlanKey& key, Make&& make, Load&& load) {
  thread_local std::unordered_map<PlanKey, ReadyPlan, Hash> plans;
  if (const auto found = plans.find(key); found != plans.end()) return found->second;
  ReadyPlan ready;
  ready.plan = make();
  ready.function = load(ready.plan);
  if (plans.size() >= max_plans) plans.clear();
  return plans.emplace(key, std::move(ready)).first->second;
}

}  // namespace

const ReadyPlan& ready_plan(const GemmProblem& problem, const GemmArgs& args, int device,
                            const SmBudget& sms, const GemmBatch& batch) {
  const CallSite site{device, sms, nullptr};
  return found_or_made(
      key_of(problem, args, batch_layout(batch), device, sms.count),
      [&] { return make_gemm_plan(problem, args, nullptr, sms, batch); },
      [&](GemmPlan& plan) { return load_new_plan(plan, site, problem, args, batch); });
}

const ReadyPlan& ready_plan(const GroupedCall& call, int device, const SmBudget& sms) {
  const CallSite site{device, sms, nullptr};
  return found_or_made(
      key_of(call, device, sms.count), [&] { return choose_grouped_plan(call, nullptr, sms); },
      [&](GemmPlan& plan) { return load_new_plan(plan, site, call); });
}

}  // namespace deepgemm::plan
