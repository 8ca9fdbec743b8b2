// The parameters of a planned kernel, and where in them each call puts its addresses and scalars.
#include <algorithm>
#include <cstddef>

#include "driver/driver.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/general_grouped.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

void set_factors(const RowsByK& x, const float*& data, device::i64& row, device::i64& k) {
  if (x.sf == nullptr) return;
  data = static_cast<const float*>(x.sf->data);
  row = x.sf_row_stride;
  k = x.sf_k_stride;
}

void set_out(const TensorView& out, void*& data, device::i64& row, device::i64& column) {
  data = out.data;
  row = out.strides[0];
  column = out.strides[1];
}

device::RasterParams raster_params(const heuristics::GemmChoice& choice, const GemmProblem& p) {
  const device::GemmConfig& c = choice.config;
  const auto tiles_m =
      static_cast<int>(device::ceil_div(p.m, std::int64_t{c.tile_m} * c.cluster_m));
  const auto tiles_n =
      static_cast<int>(device::ceil_div(p.n, std::int64_t{c.tile_n} * c.cluster_n));
  const auto [inner, outer] =
      choice.raster_along_n ? std::pair(tiles_n, tiles_m) : std::pair(tiles_m, tiles_n);
  const int group = choice.raster_group, last = inner % group;
  device::RasterParams raster{};
  raster.group = group;
  raster.along_n = choice.raster_along_n;
  if (c.grouped()) return raster;  // tiles are found on the device
  raster.matrix = device::divisor_of(tiles_m * tiles_n);
  raster.band = device::divisor_of(group * outer);
  raster.column = device::divisor_of(group);
  raster.last_column = device::divisor_of(last == 0 ? group : last);
  return raster;
}

device::GemmParams gemm_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args,
                               const GroupLayout& stack, bool constant_b) {
  const device::GemmConfig& c = plan.choice.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  auto map = [&](const TmaMatrix& matrix, std::int64_t count, std::int64_t apart) {
    return tensor_map(c.stacked() ? stacked(matrix, count, apart) : matrix);
  };
  device::GemmParams params{};
  params.a = map(a_matrix(a, c), stack.a_matrices(), stack.a);
  params.b = map(b_matrix(b, c), stack.b_matrices(), stack.b);
  if (const auto edge = a_edge_matrix(a, c))
    params.a_edge = map(*edge, stack.a_matrices(), stack.a);
  if (const auto edge = b_edge_matrix(b, c))
    params.b_edge = map(*edge, stack.b_matrices(), stack.b);
  if (c.scaled() && c.scales_by_tma) {
    params.sfa = map(factor_matrix(a, c.tile_m, "sfa", stack), stack.a_matrices(), stack.sfa);
    if (c.column_scales) {
      params.sfb = map(factor_matrix(b, c.tile_n, "sfb", stack), stack.b_matrices(), stack.sfb);
    }
  }
  if (c.epilogue != device::Epilogue::general)
    params.out = map(out_matrix(args.out, c, "out"), stack.out_matrices(), stack.out);
  params.groups = {stack.vector,
                   stack.sfa,
                   stack.sfb,
                   stack.out,
                   stack.bias,
                   stack.c,
                   stack.a_stacked,
                   stack.b_stacked,
                   stack.out_stacked,
                   static_cast<int>(std::min<std::int64_t>(stack.blocks, device::max_group_tiles))};
  if (c.epilogue == device::Epilogue::accumulate)
    params.c = map(out_matrix(*args.c, c, "c"), stack.out_matrices(), stack.c);
  set_factors(a, params.sfa_data, params.sfa_row, params.sfa_k);
  set_factors(b, params.sfb_data, params.sfb_row, params.sfb_k);
  set_out(args.out, params.out_data, params.out_row, params.out_column);
  params.epilogue = epilogue_params(args);
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k = static_cast<int>(p.k);
  params.a_policy = plan.choice.a_policy;
  params.b_policy = plan.choice.b_policy;
  params.raster = raster_params(plan.choice, p);
  params.constant_b = constant_b;
  params.batch = static_cast<int>(stack.groups);
  return params;
}

device::DecodeParams decode_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args,
                                   bool constant_b) {
  const device::DecodeConfig& c = plan.decode.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  device::DecodeParams params{};
  params.rows = tensor_map(decode_matrix(b, c.rows(), c.stage_blocks, "b"));
  params.tokens = tensor_map(decode_matrix(a, c.tokens, c.stage_blocks, "a"));
  set_factors(a, params.sfa, params.sfa_row, params.sfa_k);
  set_factors(b, params.sfb, params.sfb_row, params.sfb_k);
  set_out(args.out, params.out, params.out_row, params.out_column);
  params.epilogue = epilogue_params(args);
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k_blocks = static_cast<int>(p.k / c.block_elements());
  params.b_policy = plan.decode.b_policy;
  params.constant_b = constant_b;
  return params;
}

// The addresses that a call has.
template <class Field>
void add_pointer(Patches& patches, Role role, const Field* field, std::size_t offset) {
  if (field != nullptr) patches.add_pointer(role, offset);
}

void add_epilogue(Patches& patches, const device::EpilogueParams& epilogue, const GemmArgs& args,
                  std::size_t offset) {
  patches.epilogue = offset;
  patches.c_is_scaled = has_scaled_c(args);
  add_pointer(patches, Role::bias, epilogue.bias, offset + offsetof(device::EpilogueParams, bias));
  add_pointer(patches, Role::c, epilogue.c, offset + offsetof(device::EpilogueParams, c));
}

Patches patches_of(const device::GemmParams& params, const device::GemmConfig& c,
                   const GemmArgs& args) {
  using P = device::GemmParams;
  Patches patches;
  patches.add_map(Role::a, offsetof(P, a));
  patches.add_map(Role::b, offsetof(P, b));
  if (c.a_edge_rows(params.m) != 0) patches.add_map(Role::a, offsetof(P, a_edge));
  if (c.b_edge_columns(params.n) != 0) patches.add_map(Role::b, offsetof(P, b_edge));
  if (c.scaled() && c.scales_by_tma) {
    patches.add_map(Role::sfa, offsetof(P, sfa));
    if (c.column_scales) patches.add_map(Role::sfb, offsetof(P, sfb));
  }
  if (c.epilogue != device::Epilogue::general) patches.add_map(Role::out, offsetof(P, out));
  if (c.epilogue == device::Epilogue::accumulate) patches.add_map(Role::c, offsetof(P, c));
  add_pointer(patches, Role::sfa, params.sfa_data, offsetof(P, sfa_data));
  add_pointer(patches, Role::sfb, params.sfb_data, offsetof(P, sfb_data));
  patches.add_pointer(Role::out, offsetof(P, out_data));
  if (params.groups.vector.data != nullptr) {
    patches.add_pointer(Role::groups, offsetof(P, groups) + offsetof(device::GroupParams, vector) +
                                          offsetof(device::GroupVector, data));
  }
  add_epilogue(patches, params.epilogue, args, offsetof(P, epilogue));
  return patches;
}

Patches patches_of(const device::DecodeParams& params, const GemmArgs& args) {
  using P = device::DecodeParams;
  Patches patches;
  patches.add_map(Role::b, offsetof(P, rows));
  patches.add_map(Role::a, offsetof(P, tokens));
  add_pointer(patches, Role::sfa, params.sfa, offsetof(P, sfa));
  add_pointer(patches, Role::sfb, params.sfb, offsetof(P, sfb));
  patches.add_pointer(Role::out, offsetof(P, out));
  add_epilogue(patches, params.epilogue, args, offsetof(P, epilogue));
  return patches;
}

// `base`: where the parameters of the product begin.
Patches patches_of(const device::GeneralGemmParams& params, const GemmArgs& args,
                   std::size_t base = 0) {
  using P = device::GeneralGemmParams;
  using Operand = device::OperandParams;
  Patches patches;
  patches.add_pointer(Role::a, base + offsetof(P, a) + offsetof(Operand, data));
  patches.add_pointer(Role::b, base + offsetof(P, b) + offsetof(Operand, data));
  add_pointer(patches, Role::sfa, static_cast<const char*>(params.a.sf),
              base + offsetof(P, a) + offsetof(Operand, sf));
  add_pointer(patches, Role::sfb, static_cast<const char*>(params.b.sf),
              base + offsetof(P, b) + offsetof(Operand, sf));
  patches.add_pointer(Role::out, base + offsetof(P, out));
  add_epilogue(patches, params.epilogue, args, base + offsetof(P, epilogue));
  return patches;
}

driver::Launch launch_of(const GemmPlan& plan, CUfunction function, const CallOptions& options) {
  driver::LaunchShape shape;
  shape.grid = static_cast<unsigned>(plan.grid);
  shape.block = static_cast<unsigned>(plan.threads);
  shape.cluster = static_cast<unsigned>(plan.cluster);
  shape.shared_bytes = static_cast<unsigned>(plan.shared_bytes);
  shape.pdl = options.pdl && plan.kernel != GemmKernel::general;  // it does not wait
  return {function, shape};
}

PreparedLaunch prepare_persistent(const GemmPlan& plan, const driver::Launch& launch,
                                  const GemmProblem& problem, const GemmArgs& args,
                                  const GroupLayout& layout, bool constant_b) {
  const device::GemmParams params = gemm_params(plan, problem, args, layout, constant_b);
  return {launch, params, patches_of(params, plan.choice.config, args), plan.range};
}

}  // namespace

PreparedLaunch prepare_launch(const GemmPlan& plan, CUfunction function, const GemmProblem& problem,
                              const GemmArgs& args, const GemmBatch& batch,
                              const CallOptions& options) {
  const driver::Launch launch = launch_of(plan, function, options);
  if (plan.kernel == GemmKernel::persistent) {
    return prepare_persistent(plan, launch, problem, args, batch_layout(batch), options.constant_b);
  }
  if (plan.kernel == GemmKernel::decode) {
    const device::DecodeParams params = decode_params(plan, problem, args, options.constant_b);
    return {launch, params, patches_of(params, args), plan.range};
  }
  const device::GeneralGemmParams params = general_params(problem, args);
  return {launch, params, patches_of(params, args), plan.range};
}

PreparedLaunch prepare_launch(const GemmPlan& plan, CUfunction function, const GroupedCall& call,
                              const CallOptions& options) {
  const driver::Launch launch = launch_of(plan, function, options);
  if (plan.kernel == GemmKernel::persistent) {
    return prepare_persistent(plan, launch, call.product, call.first, call.layout,
                              options.constant_b);
  }
  using P = device::GeneralGroupedParams;
  const P params = general_grouped(call).params;
  Patches patches = patches_of(params.product, call.first, offsetof(P, product));
  patches.add_pointer(Role::groups, offsetof(P, groups) + offsetof(device::GroupVector, data));
  return {launch, params, patches, plan.range};
}

}  // namespace deepgemm::plan
