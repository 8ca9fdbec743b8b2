#include "plan/problem_record.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "driver/driver.hpp"

namespace deepgemm::plan {
namespace {

// A JSON object. Its texts are names of ours, which need no escapes.
class Object {
 public:
  void add(std::string_view key, const std::string& json) {
    text_.append(text_.size() > 1 ? ", \"" : "\"").append(key).append("\": ").append(json);
  }
  void add_word(std::string_view key, std::string_view word) { add(key, join("\"", word, "\"")); }
  std::string text() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

std::string list(const std::array<std::int64_t, max_rank>& numbers, int count) {
  return list_text(numbers.data(), static_cast<std::size_t>(count));
}

bool is_row_major(const TensorView& view) {
  std::int64_t step = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.strides[i] != step) return false;
    step *= view.shape[i];
  }
  return true;
}

Object object_of(const TensorView& view) {
  Object object;
  object.add_word("dtype", name(view.dtype));
  object.add("shape", list(view.shape, view.rank));
  if (!is_row_major(view)) object.add("strides", list(view.strides, view.rank));
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(view.data) % 16;
  if (offset != 0) object.add("offset", to_text(offset));
  return object;
}

std::string part(std::int64_t extent) {
  return extent == Granularity::whole ? "null" : to_text(extent);
}
std::string text_of(const Granularity& g) { return join("[", part(g.rows), ", ", part(g.k), "]"); }

// `view` as the first of `count` matrices, `distance` elements apart.
TensorView stack_of(const TensorView& view, std::int64_t count, std::int64_t distance) {
  TensorView stack = view;
  stack.rank = view.rank + 1;
  for (int i = view.rank; i > 0; --i) {
    stack.shape[i] = view.shape[i - 1];
    stack.strides[i] = view.strides[i - 1];
  }
  stack.shape[0] = count;
  stack.strides[0] = distance;
  return stack;
}

// A single factor that ops have spread over groups or a batch, or that came with rank 0.
bool is_one_factor(const TensorView& sf) {
  bool spread = sf.rank == 0;
  for (int i = 0; i < sf.rank; ++i) {
    if (sf.shape[i] > 1 && sf.strides[i] != 0) return false;
    spread |= sf.shape[i] > 1;
  }
  return spread;
}

// As a caller would give it.
TensorView given_factors(const TensorView& sf, bool turned) {
  if (!is_one_factor(sf)) return turned && sf.rank >= 2 ? transposed(sf) : sf;
  TensorView one = sf;
  one.rank = 1;
  one.shape[0] = one.strides[0] = 1;
  return one;
}

// An operand as its layout has it in memory: below ops, its factors are rows first in any layout.
std::string operand_of(const ScaledView& x, bool turned, bool scaled, const Granularity& g) {
  Object object = object_of(x.values);
  if (scaled && x.sf) {
    object.add("sf", object_of(given_factors(*x.sf, turned)).text());
    object.add("granularity", text_of(g));
  }
  return object.text();
}

constexpr std::string_view layout_names[] = {"nt", "nn", "tn", "tt"};
constexpr std::string_view activation_names[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};

// What is the same for every product: operands that are stacks already, and the epilogue.
void add_product(Object& object, const GemmProblem& p, const GemmArgs& args) {
  object.add_word("layout", layout_names[static_cast<int>(args.layout)]);
  object.add("a", operand_of(args.a, a_is_k_by_m(args.layout), p.a_scaled, p.a_granularity));
  object.add("b", operand_of(args.b, b_is_k_by_n(args.layout), p.b_scaled, p.b_granularity));
  object.add("out", object_of(args.out).text());
  if (args.c && args.c->data == args.out.data) {
    object.add_word("c", "out");
  } else if (args.c) {
    object.add("c", object_of(*args.c).text());
  }
  if (args.bias) object.add("bias", object_of(*args.bias).text());
  if (args.activation != Activation::none)
    object.add_word("activation", activation_names[static_cast<int>(args.activation)]);
  // A plan asks only whether there is an alpha; JSON has no infinity.
  if (args.alpha != 1.0F)
    object.add("alpha", std::isfinite(args.alpha) ? to_text(args.alpha) : "2");
  if (args.out_scale != 1.0F) object.add("out_scale", to_text(args.out_scale));
}

std::string text_of(const Policy& policy) {
  Object object;
  if (policy.kernel) object.add_word("kernel", *policy.kernel);
  const std::pair<const char*, const std::optional<int>&> numbers[] = {
      {"tile_m", policy.tile_m},
      {"tile_n", policy.tile_n},
      {"stages", policy.stages},
      {"cluster_m", policy.cluster_m},
      {"cluster_n", policy.cluster_n},
      {"consumers", policy.consumers},
      {"consumers_n", policy.consumers_n},
      {"group", policy.group},
      {"stage_blocks", policy.stage_blocks},
      {"cluster_k", policy.cluster_k},
      {"ctas_per_sm", policy.ctas_per_sm},
      {"num_sms", policy.num_sms}};
  for (const auto& [field, value] : numbers) {
    if (value) object.add(field, to_text(*value));
  }
  if (policy.raster_along_n)
    object.add("raster_along_n", std::string(to_text(*policy.raster_along_n)));
  if (policy.ordered) object.add("ordered", std::string(to_text(*policy.ordered)));
  return object.text();
}

void add_site(Object& object, const CallSite& site) {
  object.add("device_sms", to_text(driver::device(site.device).sm_count));
  if (site.sms.limited) object.add("num_sms", to_text(site.sms.count));
  if (site.policy != nullptr) object.add("policy", text_of(*site.policy));
}

// The group vector, under the name of the argument that it was.
void add_groups(Object& object, const GroupedCall& call) {
  using device::GroupVectorForm;
  const device::GroupVector& vector = call.layout.vector;
  const bool labels = vector.form == GroupVectorForm::labels;
  const bool offsets = vector.form == GroupVectorForm::offsets;
  TensorView view;
  view.dtype = vector.is_64_bit ? DType::int64 : DType::int32;
  view.rank = 1;
  view.shape[0] = labels ? call.product.m : call.layout.groups + (offsets ? 1 : 0);
  view.strides[0] = view.shape[0] == 1 ? 1 : vector.step;
  const char* key = call.layout.kind == GroupKind::k        ? "k_sizes"
                    : call.layout.kind == GroupKind::masked ? "rows"
                    : labels                                ? "labels"
                    : offsets                               ? "group_offsets"
                    : vector.form == GroupVectorForm::ends  ? "group_ends"
                                                            : "group_sizes";
  object.add(key, object_of(view).text());
  if (vector.form == GroupVectorForm::ends) object.add("alignment", to_text(vector.alignment));
  if (call.layout.kind == GroupKind::masked) object.add("expected_rows", to_text(call.expected));
}

const char* op_of(GroupKind kind) {
  return kind == GroupKind::k        ? "k_grouped_gemm"
         : kind == GroupKind::masked ? "masked_gemm"
                                     : "grouped_gemm";
}

std::string words_of_product(const GemmProblem& p) {
  return join(p.m, "x", p.n, "x", p.k, " ", name(p.a_dtype), " x ", name(p.b_dtype), " to ",
              name(p.out_dtype));
}

}  // namespace

std::string words_of(const GemmProblem& problem, std::int64_t batch) {
  return join("gemm ", batch == 1 ? std::string() : join(batch, " x "), words_of_product(problem));
}

std::string words_of(const GroupedCall& call) {
  return join(op_of(call.layout.kind), " of ", call.layout.groups, " groups, ",
              words_of_product(call.product));
}

std::string record_of(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
                      const CallSite& site) {
  GemmArgs args = first;
  if (batch.count > 1) {
    const auto stack = [&](TensorView& view, std::int64_t distance) {
      view = stack_of(view, batch.count, distance);
    };
    stack(args.a.values, batch.a);
    stack(args.b.values, batch.b);
    stack(args.out, batch.out);
    if (args.a.sf && batch.sfa != 0) stack(*args.a.sf, batch.sfa);
    if (args.b.sf && batch.sfb != 0) stack(*args.b.sf, batch.sfb);
    if (args.c) stack(*args.c, batch.c);
  }
  Object object;
  object.add_word("op", "gemm");
  add_product(object, problem, args);
  add_site(object, site);
  return object.text();
}

std::string record_of(const GroupedCall& call, const CallSite& site) {
  const GroupLayout& layout = call.layout;
  GemmArgs args = call.first;
  const auto stack = [&](TensorView& view, std::int64_t distance) {
    view = stack_of(view, layout.groups, distance);
  };
  if (layout.a_stacked) {
    stack(args.a.values, layout.a);
    if (args.a.sf) stack(*args.a.sf, layout.sfa);
  }
  if (layout.b_stacked) {
    stack(args.b.values, layout.b);
    if (args.b.sf) stack(*args.b.sf, layout.sfb);
  }
  if (layout.out_stacked) {
    stack(args.out, layout.out);
    if (args.c) stack(*args.c, layout.c);
  }
  if (args.bias) stack(*args.bias, layout.bias);
  Object object;
  object.add_word("op", op_of(layout.kind));
  add_product(object, call.product, args);
  add_groups(object, call);
  add_site(object, site);
  return object.text();
}

std::string record_of_quantize(const TensorView& values, const Granularity& granularity) {
  Object object;
  object.add_word("op", "quantize");
  object.add("shape", list(values.shape, values.rank));
  object.add_word("dtype", name(values.dtype));
  object.add("granularity", text_of(granularity));
  return object.text();
}

std::string record_of_dequantize(const TensorView& values) {
  Object object;
  object.add_word("op", "dequantize");
  object.add("shape", list(values.shape, values.rank));
  object.add_word("dtype", name(values.dtype));
  return object.text();
}

std::string record_of_scale_layout() {
  Object object;
  object.add_word("op", "scale_layout");
  return object.text();
}

}  // namespace deepgemm::plan
