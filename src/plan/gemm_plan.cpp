#include "plan/gemm_plan.hpp"

#include <limits>

#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/tma.hpp"
#include "driver/driver.hpp"
#include "plan/kernel_specs.hpp"

namespace deepgemm::plan {
namespace {

using device::GemmConfig;

TensorView matrix(const TensorView& like, std::int64_t rows, std::int64_t columns,
                  std::int64_t row_stride) {
  TensorView view = like;
  view.rank = 2;
  view.shape = {rows, columns};
  view.strides = {row_stride, 1};
  return view;
}

// The matrices that TMA moves, contiguous dimension last, and the box of each.
struct TmaMatrix {
  TensorView view;
  tma::Tile tile;
  tma::Swizzle swizzle;
  const char* name;
};

TmaMatrix a_matrix(const RowsByK& a, const GemmConfig& c) {
  return {matrix(*a.values, a.rows, a.k, a.row_stride),
          {c.tile_m / c.cluster_n, device::block_k},
          tma::Swizzle::b128,
          "a"};
}
TmaMatrix b_matrix(const RowsByK& b, const GemmConfig& c) {
  return {matrix(*b.values, b.rows, b.k, b.row_stride),
          {c.tile_n / c.cluster_m, device::block_k},
          tma::Swizzle::b128,
          "b"};
}
// Factors of A as [k blocks, rows].
TmaMatrix sfa_matrix(const RowsByK& a, const GemmConfig& c) {
  const std::int64_t blocks = ceil_div(a.k, device::block_k);
  return {matrix(*a.sf, blocks, a.rows, a.sf_k_stride),
          {1, c.tile_m},
          tma::Swizzle::none,
          "a.sf"};
}
TmaMatrix out_matrix(const TensorView& out, const GemmConfig& c) {
  const std::int64_t row_stride = out.shape[0] == 1 ? 0 : out.strides[0];
  const int span = c.chunk_span();
  return {matrix(out, out.shape[0], out.shape[1], row_stride),
          {device::unit_rows, c.chunk_columns()},
          span == 128  ? tma::Swizzle::b128
          : span == 64 ? tma::Swizzle::b64
                       : tma::Swizzle::b32,
          "out"};
}

std::string broken_rule(const TmaMatrix& m) { return tma::broken_rule(m.view, m.tile, m.swizzle); }

bool contiguous(std::int64_t stride, std::int64_t extent) { return stride == 1 || extent == 1; }

// Empty if the FP8 kernel can take the problem, else why not.
std::string why_not_fp8(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  if (!is_float8(p.a_dtype) || !is_float8(p.b_dtype)) return "a and b are not both float8";
  if (p.k == 0) return "K is 0";
  if (!a.scaled_by(1, device::block_k)) return "a has no float32 factors of granularity (1, 128)";
  if (!b.scaled_by(device::scale_block_n, device::block_k))
    return "b has no float32 factors of granularity (128, 128)";
  if (!contiguous(a.k_stride, a.k)) return "a is not K-major";
  if (!contiguous(b.k_stride, b.k)) return "b is not K-major";
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() - 1024;
  if (p.m > limit || p.n > limit || p.k > limit) return "an extent does not fit TMA coordinates";
  const GemmConfig smallest;
  if (auto rule = broken_rule(a_matrix(a, smallest)); !rule.empty()) return join("a: ", rule);
  if (auto rule = broken_rule(b_matrix(b, smallest)); !rule.empty()) return join("b: ", rule);
  return {};
}

heuristics::GemmRequest request_of(const GemmProblem& p, const GemmArgs& args, const RowsByK& a,
                                   int num_sms) {
  const GemmConfig any;
  heuristics::GemmRequest request;
  request.m = p.m;
  request.n = p.n;
  request.k = p.k;
  request.a_type = element_type(p.a_dtype);
  request.b_type = element_type(p.b_dtype);
  request.out_type = element_type(p.out_dtype);
  request.num_sms = num_sms;
  request.sfa_by_tma =
      contiguous(a.sf_row_stride, a.rows) && broken_rule(sfa_matrix(a, any)).empty();
  GemmConfig out_config;
  if (!is_float8(p.out_dtype)) out_config.out_type = request.out_type;
  request.general_epilogue = needs_epilogue(args) || !contiguous(args.out.strides[1], p.n) ||
                             !broken_rule(out_matrix(args.out, out_config)).empty();
  return request;
}

device::TensorMap tensor_map(const TmaMatrix& m) {
  const tma::Descriptor descriptor =
      tma::make_descriptor(m.view, m.tile, m.swizzle, tma::L2Promotion::b256, m.name);
  return __builtin_bit_cast(device::TensorMap, descriptor);
}

device::GemmParams fp8_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args) {
  const GemmConfig& c = plan.choice.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  device::GemmParams params{};
  params.a = tensor_map(a_matrix(a, c));
  params.b = tensor_map(b_matrix(b, c));
  if (c.sfa_by_tma) params.sfa = tensor_map(sfa_matrix(a, c));
  if (!c.general_epilogue) params.out = tensor_map(out_matrix(args.out, c));
  params.sfa_data = static_cast<const float*>(a.sf->data);
  params.sfa_row = a.sf_row_stride;
  params.sfa_k = a.sf_k_stride;
  params.sfb = static_cast<const float*>(b.sf->data);
  params.sfb_row = b.sf_row_stride;
  params.sfb_k = b.sf_k_stride;
  params.out_data = args.out.data;
  params.out_row = args.out.strides[0];
  params.out_column = args.out.strides[1];
  params.epilogue = epilogue_params(args);
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k = static_cast<int>(p.k);
  params.raster_group = plan.choice.raster_group;
  params.raster_along_n = plan.choice.raster_along_n;
  return params;
}

device::GeneralGemmParams general_params(const GemmProblem& p, const GemmArgs& args) {
  device::GeneralGemmParams params{};
  params.a = operand_params(operand_a(args, p));
  params.b = operand_params(operand_b(args, p));
  params.out = args.out.data;
  params.out_row = args.out.strides[0];
  params.out_column = args.out.strides[1];
  params.m = p.m;
  params.n = p.n;
  params.k = p.k;
  params.epilogue = epilogue_params(args);
  return params;
}

GemmPlan general_plan(const GemmProblem& p, std::string reason) {
  GemmPlan plan;
  plan.reason = std::move(reason);
  plan.spec = general_gemm_spec();
  plan.threads = device::GeneralConfig::threads;
  const std::int64_t tile = device::GeneralConfig::tile;
  plan.grid = ceil_div(p.m, tile) * ceil_div(p.n, tile);
  if (plan.grid > std::numeric_limits<std::int32_t>::max()) {
    throw ValueError(complaint("out", join(p.m, " x ", p.n), "fewer than 2^31 tiles of 64 x 64",
                               join("the general kernel, because ", plan.reason)));
  }
  return plan;
}

}  // namespace

GemmPlan make_gemm_plan(const GemmProblem& problem, const GemmArgs& args, const Policy* policy,
                        int num_sms) {
  const RowsByK a = operand_a(args, problem), b = operand_b(args, problem);
  const std::string obstacle = why_not_fp8(problem, a, b);
  const bool wants_general = policy && policy->kernel == "general";
  if (policy && policy->kernel && !wants_general && policy->kernel != "fp8") {
    throw ValueError(complaint("policy.kernel", *policy->kernel, "fp8 or general"));
  }
  if (policy && policy->kernel == "fp8" && !obstacle.empty()) {
    throw ValueError(complaint("policy.kernel", "fp8", "general", obstacle));
  }
  if (wants_general) return general_plan(problem, "policy asks for it");
  if (!obstacle.empty()) return general_plan(problem, obstacle);

  GemmPlan plan;
  plan.fp8 = true;
  plan.choice = heuristics::choose(request_of(problem, args, a, num_sms), policy);
  plan.reason = "float8 with (1, 128) and (128, 128) factors";
  plan.spec = fp8_gemm_spec(plan.choice.config);
  plan.threads = plan.choice.config.threads();
  plan.grid = plan.choice.grid;
  plan.cluster = plan.choice.config.cluster();
  return plan;
}

void run(const GemmPlan& plan, CUfunction function, const GemmProblem& problem,
         const GemmArgs& args, const CallOptions& options) {
  driver::LaunchShape shape;
  shape.grid = static_cast<unsigned>(plan.grid);
  shape.block = static_cast<unsigned>(plan.threads);
  shape.cluster = static_cast<unsigned>(plan.cluster);
  shape.shared_bytes = static_cast<unsigned>(plan.spec.shared_bytes);
  if (plan.fp8) {
    device::GemmParams params = fp8_params(plan, problem, args);
    driver::launch(function, shape, options.stream, &params);
  } else {
    device::GeneralGemmParams params = general_params(problem, args);
    driver::launch(function, shape, options.stream, &params);
  }
}

}  // namespace deepgemm::plan
