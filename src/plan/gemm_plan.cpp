#include "plan/gemm_plan.hpp"

#include <limits>

#include "core/math.hpp"
#include "core/text.hpp"
#include "driver/driver.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

using device::GemmConfig;

bool contiguous(std::int64_t stride, std::int64_t extent) { return stride == 1 || extent == 1; }

// Empty if the FP8 kernel can take the problem, else why not.
std::string why_not_fp8(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  if (!is_float8(p.a_dtype) || !is_float8(p.b_dtype)) return "a and b are not both float8";
  if (p.k == 0) return "K is 0";
  if (!a.scaled_by(1, device::block_k)) return "a has no float32 factors of granularity (1, 128)";
  if (!b.scaled_by(device::scale_block_n, device::block_k) && !b.scaled_by(1, device::block_k))
    return "b has no float32 factors of granularity (128, 128) or (1, 128)";
  if (!contiguous(a.k_stride, a.k)) return "a is not K-major";
  if (!contiguous(b.k_stride, b.k)) return "b is not K-major";
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() - 1024;
  if (p.m > limit || p.n > limit || p.k > limit) return "an extent does not fit TMA coordinates";
  const GemmConfig smallest;
  if (auto rule = broken_rule(a_matrix(a, smallest)); !rule.empty()) return join("a: ", rule);
  if (auto rule = broken_rule(b_matrix(b, smallest)); !rule.empty()) return join("b: ", rule);
  return {};
}

bool has_column_scales(const RowsByK& b) {
  return !b.scaled_by(device::scale_block_n, device::block_k);
}

bool takes_factors_by_tma(const RowsByK& operand) {
  return contiguous(operand.sf_row_stride, operand.rows) &&
         broken_rule(factor_matrix(operand, device::block_k, "sf")).empty();
}

// What the sums need on their way to out.
device::Epilogue epilogue_of(const GemmProblem& p, const GemmArgs& args) {
  GemmConfig config;
  if (!is_float8(p.out_dtype)) config.out_type = element_type(p.out_dtype);
  if (!contiguous(args.out.strides[1], p.n) || !broken_rule(out_matrix(args.out, config)).empty()) {
    return device::Epilogue::general;
  }
  if (!needs_epilogue(args)) return device::Epilogue::store;
  return only_accumulates(args) ? device::Epilogue::accumulate : device::Epilogue::general;
}

heuristics::GemmRequest request_of(const GemmProblem& p, const GemmArgs& args, const RowsByK& a,
                                   const RowsByK& b, int num_sms) {
  heuristics::GemmRequest request;
  request.m = p.m;
  request.n = p.n;
  request.k = p.k;
  request.a_type = element_type(p.a_dtype);
  request.b_type = element_type(p.b_dtype);
  request.out_type = element_type(p.out_dtype);
  request.num_sms = num_sms;
  request.column_scales = has_column_scales(b);
  request.scales_by_tma =
      takes_factors_by_tma(a) && (!request.column_scales || takes_factors_by_tma(b));
  request.epilogue = epilogue_of(p, args);
  return request;
}

device::GemmParams fp8_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args) {
  const GemmConfig& c = plan.choice.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  device::GemmParams params{};
  params.a = tensor_map(a_matrix(a, c));
  params.b = tensor_map(b_matrix(b, c));
  if (c.scales_by_tma) {
    params.sfa = tensor_map(factor_matrix(a, c.tile_m, "a.sf"));
    if (c.column_scales) params.sfb = tensor_map(factor_matrix(b, c.tile_n, "b.sf"));
  }
  if (c.epilogue != device::Epilogue::general) params.out = tensor_map(out_matrix(args.out, c));
  params.sfa_data = static_cast<const float*>(a.sf->data);
  params.sfa_row = a.sf_row_stride;
  params.sfa_k = a.sf_k_stride;
  params.sfb_data = static_cast<const float*>(b.sf->data);
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

device::DecodeParams decode_params(const GemmPlan& plan, const GemmProblem& p,
                                   const GemmArgs& args) {
  const device::DecodeConfig& c = plan.decode.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  device::DecodeParams params{};
  params.rows = tensor_map(decode_matrix(b, c.rows(), c.stage_blocks, "b"));
  params.tokens = tensor_map(decode_matrix(a, c.tokens, c.stage_blocks, "a"));
  params.sfa = static_cast<const float*>(a.sf->data);
  params.sfa_row = a.sf_row_stride;
  params.sfa_k = a.sf_k_stride;
  params.sfb = static_cast<const float*>(b.sf->data);
  params.sfb_row = b.sf_row_stride;
  params.sfb_k = b.sf_k_stride;
  params.out = args.out.data;
  params.out_row = args.out.strides[0];
  params.out_column = args.out.strides[1];
  params.epilogue = epilogue_params(args);
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k_blocks = static_cast<int>(p.k / device::block_k);
  return params;
}

// Empty if the decode kernel can take a problem that the FP8 kernel can, else why not.
std::string why_not_decode(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  if (p.m > heuristics::max_decode_tokens)
    return join("M is above ", heuristics::max_decode_tokens);
  if (p.k % device::block_k != 0) return "K is not a multiple of 128";
  if (has_column_scales(b)) return "b has factors per column";
  if (p.a_dtype != DType::float8_e4m3fn || p.b_dtype != DType::float8_e4m3fn)
    return "a and b are not both float8_e4m3fn";
  if (auto rule = broken_rule(decode_matrix(a, 8, 1, "a")); !rule.empty()) return join("a: ", rule);
  if (auto rule = broken_rule(decode_matrix(b, 64, 1, "b")); !rule.empty())
    return join("b: ", rule);
  return {};
}

// Two neighbours of a row can be stored as one word.
bool takes_pairs(const TensorView& out) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out.data) % 4 == 0;
  return aligned && contiguous(out.strides[1], out.shape[1]) &&
         (out.strides[0] % 2 == 0 || out.shape[0] == 1);
}

heuristics::DecodeRequest decode_request(const GemmProblem& p, const GemmArgs& args, int num_sms) {
  heuristics::DecodeRequest request;
  request.m = p.m;
  request.n = p.n;
  request.k = p.k;
  request.out_type = element_type(p.out_dtype);
  request.general_epilogue =
      needs_epilogue(args) || (p.out_dtype != DType::float32 && !takes_pairs(args.out));
  request.num_sms = num_sms;
  return request;
}

GemmPlan general_plan(const GemmProblem& p, std::string reason) {
  GemmPlan plan;
  plan.reason = std::move(reason);
  plan.spec = general_gemm_spec();
  plan.threads = device::GeneralConfig::threads;
  plan.shared_bytes = plan.spec.shared_bytes;
  const std::int64_t tile = device::GeneralConfig::tile;
  plan.grid = ceil_div(p.m, tile) * ceil_div(p.n, tile);
  if (plan.grid > std::numeric_limits<std::int32_t>::max()) {
    throw ValueError(complaint("out", join(p.m, " x ", p.n), "fewer than 2^31 tiles of 64 x 64",
                               join("the general kernel, because ", plan.reason)));
  }
  return plan;
}

GemmPlan decode_plan(const heuristics::DecodeRequest& request, const Policy* policy) {
  GemmPlan plan;
  plan.kernel = GemmKernel::decode;
  plan.decode = heuristics::choose(request, policy);
  plan.reason = "float8 with (1, 128) and (128, 128) factors, few tokens";
  plan.spec = fp8_decode_spec(plan.decode.config);
  plan.threads = plan.decode.config.threads();
  plan.grid = plan.decode.grid;
  plan.cluster = plan.decode.config.cluster_k;
  plan.shared_bytes = static_cast<int>(plan.decode.shared_bytes);
  return plan;
}

GemmPlan fp8_plan(const heuristics::GemmRequest& request, const Policy* policy) {
  GemmPlan plan;
  plan.kernel = GemmKernel::fp8;
  plan.choice = heuristics::choose(request, policy);
  plan.reason = "float8 with (1, 128) and (128, 128) factors";
  plan.spec = fp8_gemm_spec(plan.choice.config);
  plan.threads = plan.choice.config.threads();
  plan.grid = plan.choice.grid;
  plan.cluster = plan.choice.config.cluster();
  plan.shared_bytes = plan.spec.shared_bytes;
  return plan;
}

// Why not the models alone: the FP8 kernel was swept from M = 64 on, and up to 32 tokens the decode
// kernel won on every shape measured.
bool decode_is_faster(const heuristics::DecodeRequest& decode, const heuristics::GemmRequest& fp8) {
  constexpr std::int64_t always_decode = 32;
  if (decode.m <= always_decode) return true;
  return heuristics::candidates(decode).front().predicted_us <
         heuristics::candidates(fp8).front().predicted_us;
}

// Throws for a kernel that the policy asks for and that cannot be had.
void check_wanted(const std::string& wanted, const std::string& obstacle) {
  if (obstacle.empty()) return;
  throw ValueError(complaint("policy.kernel", wanted, "another kernel", obstacle));
}

}  // namespace

GemmPlan make_gemm_plan(const GemmProblem& problem, const GemmArgs& args, const Policy* policy,
                        int num_sms) {
  const RowsByK a = operand_a(args, problem), b = operand_b(args, problem);
  const std::string wanted = policy && policy->kernel ? *policy->kernel : std::string();
  if (!wanted.empty() && wanted != "fp8" && wanted != "decode" && wanted != "general") {
    throw ValueError(complaint("policy.kernel", wanted, "fp8, decode or general"));
  }
  const std::string obstacle = why_not_fp8(problem, a, b);
  if (wanted == "general") return general_plan(problem, "policy asks for it");
  if (!wanted.empty()) check_wanted(wanted, obstacle);
  if (!obstacle.empty()) return general_plan(problem, obstacle);

  if (wanted != "fp8") {
    std::string no_decode = why_not_decode(problem, a, b);
    const heuristics::DecodeRequest request = decode_request(problem, args, num_sms);
    if (no_decode.empty() && heuristics::candidates(request).empty()) {
      no_decode = "no table of factors for this K fits shared memory";
    }
    if (!wanted.empty()) check_wanted(wanted, no_decode);
    if (no_decode.empty() &&
        (wanted == "decode" ||
         decode_is_faster(request, request_of(problem, args, a, b, num_sms)))) {
      return decode_plan(request, policy);
    }
  }
  return fp8_plan(request_of(problem, args, a, b, num_sms), policy);
}

GemmCandidates gemm_candidates(const GemmProblem& problem, const GemmArgs& args, int num_sms) {
  const RowsByK a = operand_a(args, problem), b = operand_b(args, problem);
  GemmCandidates found;
  if (!why_not_fp8(problem, a, b).empty()) return found;
  found.fp8 = heuristics::candidates(request_of(problem, args, a, b, num_sms));
  if (why_not_decode(problem, a, b).empty()) {
    found.decode = heuristics::candidates(decode_request(problem, args, num_sms));
  }
  return found;
}

void run(const GemmPlan& plan, CUfunction function, const GemmProblem& problem,
         const GemmArgs& args, const CallOptions& options) {
  driver::LaunchShape shape;
  shape.grid = static_cast<unsigned>(plan.grid);
  shape.block = static_cast<unsigned>(plan.threads);
  shape.cluster = static_cast<unsigned>(plan.cluster);
  shape.shared_bytes = static_cast<unsigned>(plan.shared_bytes);
  shape.pdl = options.pdl && plan.kernel != GemmKernel::general;  // it does not wait
  if (plan.kernel == GemmKernel::fp8) {
    device::GemmParams params = fp8_params(plan, problem, args);
    driver::launch(function, shape, options.stream, &params);
  } else if (plan.kernel == GemmKernel::decode) {
    device::DecodeParams params = decode_params(plan, problem, args);
    driver::launch(function, shape, options.stream, &params);
  } else {
    device::GeneralGemmParams params = general_params(problem, args);
    driver::launch(function, shape, options.stream, &params);
  }
}

}  // namespace deepgemm::plan
