// Plan and make_plan.
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/text.hpp"
#include "deepgemm/plan.hpp"
#include "deepgemm/runtime.hpp"
#include "ops/checks.hpp"
#include "ops/groups.hpp"
#include "ops/prepared.hpp"

namespace deepgemm {

struct Plan::State {
  std::variant<GemmArgs, GroupedArgs, MaskedArgs, KGroupedArgs> example;  // without addresses
  CallOptions options;                                                    // without a stream
  std::optional<Policy> policy;
  plan::Signature signature;
  std::uint64_t hash = 0;                  // its
  std::uint64_t number = 0;                // of this plan alone
  std::optional<plan::PreparedCall> call;  // none in host memory, and where nothing is computed
  Problem problem;
  KernelReport report;
};

namespace {

std::atomic<std::uint64_t> plans_made{0};

constexpr std::string_view made_so = "the plan was made with it";

void compute(const GemmArgs& args, const CallOptions& options) { gemm(args, options); }
void compute(const GroupedArgs& args, const CallOptions& options) { grouped_gemm(args, options); }
void compute(const MaskedArgs& args, const CallOptions& options) { masked_gemm(args, options); }
void compute(const KGroupedArgs& args, const CallOptions& options) {
  k_grouped_gemm(args, options);
}

const char* operation_of(const GemmArgs&) { return "gemm"; }
const char* operation_of(const GroupedArgs&) { return "grouped_gemm"; }
const char* operation_of(const MaskedArgs&) { return "masked_gemm"; }
const char* operation_of(const KGroupedArgs&) { return "k_grouped_gemm"; }

template <class Args>
std::string_view name_of(plan::Role role, const Args& args) {
  static constexpr std::string_view names[] = {"a", "b", "sfa", "sfb", "out", "c", "bias"};
  if (role != plan::Role::groups) return names[static_cast<std::size_t>(role)];
  if constexpr (std::is_same_v<Args, GroupedArgs>) return ops::name_of(args.form);
  return std::is_same_v<Args, MaskedArgs> ? "rows" : "k_sizes";
}

bool same_strides(const TensorView& a, const TensorView& b) {
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

// `given` in place of `planned`, an array of the example.
void check_array(std::string_view name, const TensorView& given, const TensorView& planned) {
  if (given.dtype != planned.dtype) {
    throw TypeError(
        complaint(name, deepgemm::name(given.dtype), deepgemm::name(planned.dtype), made_so));
  }
  ops::check_device({name, given}, {"the plan", planned});
  const auto refuse = [&](std::string_view found, std::string_view need) {
    throw ValueError(complaint(name, found, need, made_so));
  };
  if (given.rank != planned.rank) refuse(join("rank ", given.rank), join("rank ", planned.rank));
  const std::string shape = ops::shape_text(given), planned_shape = ops::shape_text(planned);
  if (shape != planned_shape) refuse(join("shape ", shape), planned_shape);
  if (!same_strides(given, planned)) {
    const auto rank = static_cast<std::size_t>(given.rank);
    refuse(join("strides ", list_text(given.strides.data(), rank)),
           list_text(planned.strides.data(), rank));
  }
  if (given.device.kind != DeviceKind::cpu && plan::place_of(given) != plan::place_of(planned)) {
    refuse(join("an address ", plan::place_of(given), " bytes past a multiple of 16"),
           join(plan::place_of(planned), " bytes past one"));
  }
}

using Arrays = std::array<std::optional<TensorView>, plan::role_count>;

template <class Args>
Arrays arrays_of(const Args& args) {
  Arrays arrays;
  plan::for_each_array(args, [&](plan::Role role, const TensorView& view) {
    arrays[static_cast<std::size_t>(role)] = view;
  });
  return arrays;
}

std::string in_words(const std::optional<Granularity>& granularity) {
  return granularity ? describe(*granularity) : "none given";
}

// What is no array.
template <class Args>
void check_rest(const Args& given, const Args& planned) {
  const auto check = [](std::string_view name, bool equal, std::string_view found,
                        std::string_view need) {
    if (!equal) throw ValueError(complaint(name, found, need, made_so));
  };
  const auto number = [&](std::string_view name, auto found, auto need) {
    check(name, found == need, to_text(static_cast<std::int64_t>(found)),
          to_text(static_cast<std::int64_t>(need)));
  };
  const auto scale = [&](std::string_view name, float found, float need) {
    check(name, (found == 1.0F) == (need == 1.0F), to_text(found),
          need == 1.0F ? "1" : "a number other than 1");
  };
  const bool in_place = given.c && given.c->data == given.out.data;
  const bool was_in_place = planned.c && planned.c->data == planned.out.data;
  check("c", in_place == was_in_place, in_place ? "out itself" : "memory of its own",
        was_in_place ? "out itself" : "memory of its own");
  scale("alpha", given.alpha, planned.alpha);
  number("layout", static_cast<int>(given.layout), static_cast<int>(planned.layout));
  check("granularity of a", given.a.granularity == planned.a.granularity,
        in_words(given.a.granularity), in_words(planned.a.granularity));
  check("granularity of b", given.b.granularity == planned.b.granularity,
        in_words(given.b.granularity), in_words(planned.b.granularity));
  if constexpr (requires { given.activation; })
    number("activation", static_cast<int>(given.activation), static_cast<int>(planned.activation));
  if constexpr (requires { given.out_scale; })
    scale("out_scale", given.out_scale, planned.out_scale);
  if constexpr (requires { given.alignment; })
    number("alignment", given.alignment, planned.alignment);
  if constexpr (requires { given.expected_rows; })
    number("expected_rows", given.expected_rows.value_or(-1), planned.expected_rows.value_or(-1));
}

// Names what keeps a call from being the plan's.
template <class Args>
[[noreturn]] void refuse(const Args& given, const Args& planned) {
  const Arrays found = arrays_of(given), need = arrays_of(planned);
  for (std::size_t role = 0; role < plan::role_count; ++role) {
    const std::string_view name = name_of(static_cast<plan::Role>(role), given);
    if (found[role] && need[role]) {
      check_array(name, *found[role], *need[role]);
    } else if (found[role] || need[role]) {
      throw ValueError(complaint(name, found[role] ? describe(*found[role]) : "none",
                                 need[role] ? describe(*need[role]) : "none",
                                 need[role] ? made_so : "the plan was made without it"));
    }
  }
  check_rest(given, planned);
  make_problem(given);  // an out_scale that no call may have, an out that must not be written, ...
  throw ValueError(complaint("plan", "another call", "one like that which it was made with"));
}

const GemmProblem& product_of(const Problem& problem) {
  if (const auto* grouped = std::get_if<GroupedProblem>(&problem)) return grouped->product;
  return std::get<GemmProblem>(problem);
}

// Gives an operand the plan's granularity, in its words, where it has another that means the same
// or none: the plan knows which it was made with. False if there is nothing to do, or they differ.
bool take_granularity(ScaledView& given, const ScaledView& planned, const Granularity& meant,
                      std::int64_t rows, std::int64_t k) {
  if (!given.sf || !planned.sf || given.granularity == planned.granularity) return false;
  if (given.granularity && canonical(*given.granularity, rows, k) != meant) return false;
  given.granularity = planned.granularity;
  return true;
}

// `given` with the plan's granularities; nothing if that changes nothing.
template <class Args>
std::optional<Args> with_granularities(const Args& given, const Args& planned,
                                       const GemmProblem& product) {
  Args same = given;
  const bool a = take_granularity(same.a, planned.a, product.a_granularity, product.m, product.k);
  const bool b = take_granularity(same.b, planned.b, product.b_granularity, product.n, product.k);
  if (a || b) return same;
  return std::nullopt;
}

// Of an example the plan keeps no address, but whether there was memory, which bytes within 16 it
// had, and whether c was out.
void forget(TensorView& view, const void* out) {
  if (view.data == nullptr) return;
  const bool is_out = view.data == out;
  view.data = reinterpret_cast<void*>(plan::place_of(view) + (is_out ? 16 : 32));
}
void forget(std::optional<TensorView>& view, const void* out) {
  if (view) forget(*view, out);
}

template <class Args>
Args without_addresses(Args args) {
  const void* out = args.out.data;
  forget(args.a.values, out), forget(args.b.values, out);
  forget(args.a.sf, out), forget(args.b.sf, out), forget(args.c, out);
  if constexpr (requires { args.bias; }) forget(args.bias, out);
  if constexpr (std::is_same_v<Args, GroupedArgs>) forget(args.groups, out);
  if constexpr (std::is_same_v<Args, MaskedArgs>) forget(args.rows, out);
  if constexpr (std::is_same_v<Args, KGroupedArgs>) forget(args.k_sizes, out);
  forget(args.out, out);
  return args;
}

template <class Args>
KernelReport report_of(const Args& args, const CallOptions& options,
                       const std::optional<plan::Prepared>& made) {
  KernelReport report;
  if (!made) {
    report.kernel = "none";
    report.reason = "nothing is to be computed";
    return report;
  }
  report = explain(
      args,
      {.policy = options.policy, .device = args.out.device.index, .num_sms = options.num_sms});
  report.origin = jit::name(made->kernel.origin);
  report.milliseconds = made->kernel.milliseconds;
  return report;
}

}  // namespace

struct PlanMaker {
  template <class Args>
  static Plan make(const Args& example, const CallOptions& options) {
    auto state = std::make_shared<Plan::State>();
    state->options = options;
    state->options.stream = nullptr;
    if (options.policy != nullptr) {
      state->policy = *options.policy;
      state->options.policy = &*state->policy;
    }
    state->problem = make_problem(example);
    if (example.a.values.device.kind != DeviceKind::cpu) {
      std::optional<plan::Prepared> made =
          ops::prepare(example, state->options, ops::GroupValues::unread);
      state->report = report_of(example, state->options, made);
      if (made) state->call = std::move(made->call);
    } else {
      ops::check_sms(options);
      state->report.kernel = "cpu";
      state->report.config = "the reference backend";
      state->report.reason = "the arrays are in host memory";
    }
    state->signature = plan::Signature(example, state->options);
    if (!state->signature.usable()) {  // the other reasons for that are refused above
      throw ValueError(complaint("policy.kernel", state->policy->kernel.value_or(""),
                                 "\"persistent\", \"decode\" or \"general\""));
    }
    state->hash = state->signature.hash();
    state->number = ++plans_made;
    state->example = without_addresses(example);
    return Plan(std::move(state));
  }

  template <class Args>
  static void run(const Plan::State& state, const Args& args, Stream stream) {
    const Args* planned = std::get_if<Args>(&state.example);
    const bool known = planned != nullptr && plan::alike(args, *planned);
    if (!known && !(plan::Signature(args, state.options) == state.signature)) {
      if (planned != nullptr) {
        const auto same = with_granularities(args, *planned, product_of(state.problem));
        if (same) return run(state, *same, stream);
        refuse(args, *planned);
      }
      const char* need = std::visit([](const auto& x) { return operation_of(x); }, state.example);
      throw ValueError(complaint("plan", operation_of(args), need, made_so));
    }
    if (!state.call) {
      CallOptions options = state.options;
      options.stream = stream;
      return compute(args, options);
    }
    const plan::CallValues values(args);
    if (state.call->may_overlap(values)) make_problem(args);
    ops::check_group_values(args, stream);
    // Each thread runs a copy of its own; it is the one that a call without the plan would find.
    plan::PreparedCall* mine = plan::find_call(state.signature, state.hash, state.number);
    if (mine == nullptr) mine = &plan::keep_call(state.signature, state.hash, *state.call);
    mine->run(values, stream);
  }
};

void Plan::run(const GemmArgs& args, Stream stream) const { PlanMaker::run(*state_, args, stream); }
void Plan::run(const GroupedArgs& args, Stream stream) const {
  PlanMaker::run(*state_, args, stream);
}
void Plan::run(const MaskedArgs& args, Stream stream) const {
  PlanMaker::run(*state_, args, stream);
}
void Plan::run(const KGroupedArgs& args, Stream stream) const {
  PlanMaker::run(*state_, args, stream);
}

const Problem& Plan::problem() const noexcept { return state_->problem; }
const KernelReport& Plan::explain() const noexcept { return state_->report; }

Plan make_plan(const GemmArgs& example, const CallOptions& options) {
  return PlanMaker::make(example, options);
}
Plan make_plan(const GroupedArgs& example, const CallOptions& options) {
  return PlanMaker::make(example, options);
}
Plan make_plan(const MaskedArgs& example, const CallOptions& options) {
  return PlanMaker::make(example, options);
}
Plan make_plan(const KGroupedArgs& example, const CallOptions& options) {
  return PlanMaker::make(example, options);
}

}  // namespace deepgemm
