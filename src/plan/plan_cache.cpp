#include "plan/plan_cache.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "core/hash.hpp"
#include "driver/driver.hpp"

namespace deepgemm::plan {
namespace {

// Why a bound and not an eviction order: a process that meets more shapes than this is sweeping
// them, and starting over costs it microseconds.
constexpr std::size_t max_plans = 1024;

// Everything that make_gemm_plan() reads, as bytes without padding. Addresses and strides enter by
// what TMA asks of them: their residues modulo 16 bytes, and the strides themselves.
struct PlanKey {
  std::int64_t extents[3];
  std::int64_t strides[12];
  std::int64_t granularity[4];
  std::int64_t batch[5];  // how many, and how far apart; 1 and 0 of one product
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

PlanKey key_of(const GemmProblem& p, const GemmArgs& args, int device, int num_sms,
               const GemmBatch& batch) {
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
  const std::int64_t apart[] = {batch.count, batch.a, batch.b, batch.out, batch.c};
  std::copy(std::begin(apart), std::end(apart), key.batch);
  key.num_sms = num_sms;
  key.device = device;
  return key;
}

}  // namespace

const ReadyPlan& ready_plan(const GemmProblem& problem, const GemmArgs& args, int device,
                            const SmBudget& sms, const GemmBatch& batch) {
  thread_local std::unordered_map<PlanKey, ReadyPlan, Hash> plans;
  const PlanKey key = key_of(problem, args, device, sms.count, batch);
  if (const auto found = plans.find(key); found != plans.end()) return found->second;
  ReadyPlan ready;
  ready.plan = make_gemm_plan(problem, args, nullptr, sms, batch);
  ready.function = jit::load(ready.plan.spec, device).function;
  if (plans.size() >= max_plans) plans.clear();
  return plans.emplace(key, std::move(ready)).first->second;
}

}  // namespace deepgemm::plan
