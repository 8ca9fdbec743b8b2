#include "plan/gemm_plan.hpp"

#include <algorithm>
#include <limits>

#include "core/math.hpp"
#include "core/text.hpp"
#include "plan/gemm_policy.hpp"
#include "plan/grouped_call.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

using device::GemmConfig;

bool contiguous(std::int64_t stride, std::int64_t extent) { return stride == 1 || extent == 1; }

bool is_16bit(DType dtype) { return dtype == DType::bfloat16 || dtype == DType::float16; }

// Of 16-bit operands WGMMA takes either.
bool is_mn_major(const RowsByK& x) { return !contiguous(x.k_stride, x.k); }

bool has_column_scales(const RowsByK& b) {
  return !b.scaled_by(device::scale_block_n, device::block_k);
}

bool takes_factors_by_tma(const RowsByK& operand) {
  return contiguous(operand.sf_row_stride, operand.rows) &&
         broken_rule(factor_matrix(operand, device::block_k, "sf")).empty();
}

// What the sums need on their way to out.
device::Epilogue epilogue_of(const GemmProblem& p, const GemmArgs& args, bool scales_by_tma) {
  GemmConfig config;
  if (!is_float8(p.out_dtype)) config.out_type = element_type(p.out_dtype);
  // TMA clips rows of D in units of 16 bytes: with N = 33 in FP32 it wrote 3 elements too many.
  const bool whole_units = p.n * size_in_bytes(p.out_dtype) % 16 == 0;
  if (!whole_units || !contiguous(args.out.strides[1], p.n) ||
      !broken_rule(out_matrix(args.out, config, "out")).empty()) {
    return device::Epilogue::general;
  }
  if (!needs_epilogue(args)) return device::Epilogue::store;
  // 16-bit sums leave by TMA where the operands are of their type: that bounds the kernels.
  const bool plain = p.out_dtype == DType::float32 || p.out_dtype == p.a_dtype;
  const bool by_tma = plain && only_accumulates(args) && contiguous(args.c->strides[1], p.n) &&
                      broken_rule(out_matrix(*args.c, config, "c")).empty();
  if (!by_tma) return device::Epilogue::general;
  // Why: C through the ring wins where D's bytes dominate, TMA's reduction where math does
  // (docs/performance.md).
  constexpr std::int64_t short_k = 1536;
  const bool in_place = args.c->data == args.out.data;
  const bool adds_once = p.out_dtype == DType::float32;  // TMA would round 16 bits twice
  if (adds_once && in_place && (p.k > short_k || !scales_by_tma)) return device::Epilogue::reduce;
  return scales_by_tma ? device::Epilogue::accumulate : device::Epilogue::general;
}

// The outputs of 16-bit operands that the decode kernel stores without its general epilogue: that
// bounds the kernels.
bool has_own_epilogue(const GemmProblem& p) {
  return p.out_dtype == p.a_dtype ||
         (p.a_dtype == DType::bfloat16 && p.out_dtype == DType::float32);
}

// Two neighbours of a row can be stored as one word.
bool takes_pairs(const TensorView& out) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out.data) % 4 == 0;
  return aligned && contiguous(out.strides[1], out.shape[1]) &&
         (out.strides[0] % 2 == 0 || out.shape[0] == 1);
}

heuristics::DecodeRequest decode_request(const GemmProblem& p, const GemmArgs& args,
                                         const SmBudget& sms) {
  heuristics::DecodeRequest request;
  request.m = p.m;
  request.n = p.n;
  request.k = p.k;
  request.a_type = element_type(p.a_dtype);
  request.b_type = element_type(p.b_dtype);
  request.out_type = element_type(p.out_dtype);
  request.general_epilogue = needs_epilogue(args) ||
                             (p.out_dtype != DType::float32 && !takes_pairs(args.out)) ||
                             (is_16bit(p.a_dtype) && !has_own_epilogue(p));
  request.num_sms = sms.count;
  if (sms.limited) request.max_ctas = sms.count;
  return request;
}

// Empty if the decode kernel can take a problem that the persistent kernel can, else why not.
std::string why_not_decode(const GemmProblem& p, const RowsByK& a, const RowsByK& b,
                           const heuristics::DecodeRequest& request) {
  if (p.m > heuristics::max_decode_tokens)
    return join("M is above ", heuristics::max_decode_tokens);
  const std::int64_t block = device::stage_span / size_in_bytes(p.a_dtype);
  if (p.k % block != 0) return join("K is not a multiple of ", block);
  if (is_16bit(p.a_dtype)) {
    if (is_mn_major(a) || is_mn_major(b)) return "a and b are not both K-major";
  } else {
    if (p.a_dtype != DType::float8_e4m3fn || p.b_dtype != DType::float8_e4m3fn)
      return "a and b are not both float8_e4m3fn";
    if (has_column_scales(b)) return "b has factors per column";
  }
  if (auto rule = broken_rule(decode_matrix(a, 8, 1, "a")); !rule.empty()) return join("a: ", rule);
  if (auto rule = broken_rule(decode_matrix(b, 64, 1, "b")); !rule.empty())
    return join("b: ", rule);
  if (!heuristics::candidates(request).empty()) return {};
  return request.max_ctas > 0 ? "no config fits num_sms and the table of factors for this K"
                              : "no table of factors for this K fits shared memory";
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
  plan.reason = plan.decode.config.scaled()
                    ? "float8 with (1, 128) and (128, 128) factors, few tokens"
                    : "16-bit operands, few tokens";
  plan.spec = decode_spec(plan.decode.config);
  plan.threads = plan.decode.config.threads();
  plan.grid = plan.decode.grid;
  plan.cluster = plan.decode.config.cluster_k;
  plan.shared_bytes = static_cast<int>(plan.decode.shared_bytes);
  return plan;
}

// Why multiples of 16 bytes: TMA clips rows in such units; what lies between K and the next one
// would be read.
std::string why_not_float8(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  if (!is_float8(p.a_dtype) || !is_float8(p.b_dtype))
    return "a and b are neither both float8 nor of one 16-bit dtype";
  if (p.k % 16 != 0) return "K is not a multiple of 16";
  if (!a.scaled_by(1, device::block_k)) return "a has no float32 factors of granularity (1, 128)";
  if (!b.scaled_by(device::scale_block_n, device::block_k) && !b.scaled_by(1, device::block_k))
    return "b has no float32 factors of granularity (128, 128) or (1, 128)";
  if (is_mn_major(a)) return "a is not K-major";
  if (is_mn_major(b)) return "b is not K-major";
  return {};
}

std::string why_not_16bit(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  if (p.a_dtype != p.b_dtype) return "a and b are neither both float8 nor of one 16-bit dtype";
  if (a.sf != nullptr || b.sf != nullptr) return "16-bit operands have factors";
  if (is_mn_major(a) && !contiguous(a.row_stride, a.rows))
    return "neither dimension of a is contiguous";
  if (is_mn_major(b) && !contiguous(b.row_stride, b.rows))
    return "neither dimension of b is contiguous";
  if (p.k % 8 != 0 && !(is_mn_major(a) && is_mn_major(b)))
    return "K is not a multiple of 8, and an operand is K-major";
  return {};
}

// Why not the models alone: the persistent kernel was swept from M = 64 on, and up to 32 tokens the
// decode kernel won on every shape measured.
bool decode_is_faster(const heuristics::DecodeRequest& decode,
                      const heuristics::GemmRequest& persistent) {
  constexpr std::int64_t always_decode = 32;
  if (decode.m <= always_decode) return true;
  return heuristics::candidates(decode).front().predicted_us <
         heuristics::candidates(persistent).front().predicted_us;
}

// Whether one launch can take all products of a batch: 16-bit operands come as stacks.
bool is_stack_of_tiles(const GemmProblem& p, const RowsByK& a, const RowsByK& b,
                       const GemmBatch& batch) {
  if (batch.count == 1 || !is_16bit(p.a_dtype)) return false;
  const GroupLayout stack = batch_layout(batch);
  const GemmConfig some = smallest_config(p, a, b);
  constexpr std::int64_t least_rows = 64, least_columns = 16;  // of a tile
  const std::int64_t tiles =
      product_or_max({ceil_div(p.m, least_rows), ceil_div(p.n, least_columns), batch.count});
  return broken_rule(stacked(a_matrix(a, some), stack.a_matrices(), stack.a)).empty() &&
         broken_rule(stacked(b_matrix(b, some), stack.b_matrices(), stack.b)).empty() &&
         tiles <= device::max_group_tiles;
}

// Turns the request for one product into that for all of a batch.
void ask_for_batch(heuristics::GemmRequest& request, const GemmArgs& args, const GemmBatch& batch) {
  request.groups = batch.count;
  const bool by_tma = request.epilogue != device::Epilogue::general &&
                      moves_as_out(args.out, batch.count, batch.out) &&
                      (!args.c || (batch.c != 0 && moves_as_out(*args.c, batch.count, batch.c)));
  if (!by_tma) request.epilogue = device::Epilogue::general;
}

}  // namespace

GemmConfig smallest_config(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  GemmConfig config;
  config.a_type = element_type(p.a_dtype);
  config.b_type = element_type(p.b_dtype);
  config.a_mn_major = is_mn_major(a);
  config.b_mn_major = is_mn_major(b);
  return config;
}

std::string why_not_persistent(const GemmProblem& p, const RowsByK& a, const RowsByK& b) {
  if (p.m == 0 || p.n == 0) return "the product is empty";
  if (p.k == 0) return "K is 0";
  if (auto why = is_16bit(p.a_dtype) ? why_not_16bit(p, a, b) : why_not_float8(p, a, b);
      !why.empty())
    return why;
  if (std::max({p.m, p.n, p.k}) > most_extent) return "an extent does not fit TMA coordinates";
  const GemmConfig smallest = smallest_config(p, a, b);
  if (auto rule = broken_rule(a_matrix(a, smallest)); !rule.empty()) return join("a: ", rule);
  if (auto rule = broken_rule(b_matrix(b, smallest)); !rule.empty()) return join("b: ", rule);
  return {};
}

heuristics::GemmRequest persistent_request(const GemmProblem& p, const GemmArgs& args,
                                           const RowsByK& a, const RowsByK& b, int num_sms) {
  heuristics::GemmRequest request;
  request.m = p.m;
  request.n = p.n;
  request.k = p.k;
  request.a_type = element_type(p.a_dtype);
  request.b_type = element_type(p.b_dtype);
  request.out_type = element_type(p.out_dtype);
  request.num_sms = num_sms;
  request.a_mn_major = is_mn_major(a);
  request.b_mn_major = is_mn_major(b);
  if (a.sf != nullptr) {
    request.column_scales = has_column_scales(b);
    request.scales_by_tma =
        takes_factors_by_tma(a) && (!request.column_scales || takes_factors_by_tma(b));
  }
  request.epilogue = epilogue_of(p, args, request.scales_by_tma);
  return request;
}

GemmPlan persistent_plan(const heuristics::GemmRequest& request, const Policy* policy) {
  GemmPlan plan;
  plan.kernel = GemmKernel::persistent;
  plan.choice = heuristics::choose(request, policy);
  plan.reason = !plan.choice.config.scaled() ? "16-bit operands"
                : request.column_scales      ? "float8 with (1, 128) factors of a and of b"
                                             : "float8 with (1, 128) and (128, 128) factors";
  plan.spec = persistent_gemm_spec(plan.choice.config);
  plan.threads = plan.choice.config.threads();
  plan.grid = plan.choice.grid;
  plan.cluster = plan.choice.config.cluster();
  plan.shared_bytes = plan.spec.shared_bytes;
  return plan;
}

GemmPlan make_gemm_plan(const GemmProblem& problem, const GemmArgs& args, const Policy* policy,
                        const SmBudget& sms, const GemmBatch& batch) {
  using Choice = WantedKernel::Choice;
  const WantedKernel wanted = wanted_kernel(policy);
  if (wanted.choice == Choice::general) return general_plan(problem, "policy asks for it");
  const RowsByK a = operand_a(args, problem), b = operand_b(args, problem);
  const std::string no_tiles = why_not_persistent(problem, a, b);
  if (wanted.choice != Choice::any) check_possible(wanted, no_tiles);
  if (!no_tiles.empty()) return general_plan(problem, no_tiles);

  heuristics::GemmRequest request = persistent_request(problem, args, a, b, sms.count);
  if (wanted.choice != Choice::decode && is_stack_of_tiles(problem, a, b, batch)) {
    ask_for_batch(request, args, batch);
    GemmPlan plan = persistent_plan(request, policy);
    plan.whole_batch = true;
    return plan;
  }
  if (wanted.choice == Choice::persistent) return persistent_plan(request, policy);
  const heuristics::DecodeRequest decode = decode_request(problem, args, sms);
  const std::string no_decode = why_not_decode(problem, a, b, decode);
  if (wanted.choice == Choice::decode) {
    check_possible(wanted, no_decode);
    return decode_plan(decode, policy);
  }
  if (no_decode.empty() && decode_is_faster(decode, request)) return decode_plan(decode, policy);
  return persistent_plan(request, policy);
}

GemmCandidates gemm_candidates(const GemmProblem& problem, const GemmArgs& args,
                               const SmBudget& sms, const GemmBatch& batch) {
  const RowsByK a = operand_a(args, problem), b = operand_b(args, problem);
  GemmCandidates found;
  if (!why_not_persistent(problem, a, b).empty()) return found;
  heuristics::GemmRequest request = persistent_request(problem, args, a, b, sms.count);
  const bool stack = is_stack_of_tiles(problem, a, b, batch);
  if (stack) ask_for_batch(request, args, batch);
  found.persistent = heuristics::candidates(request);
  const heuristics::DecodeRequest decode = decode_request(problem, args, sms);
  if (!stack && why_not_decode(problem, a, b, decode).empty())
    found.decode = heuristics::candidates(decode);
  return found;
}

}  // namespace deepgemm::plan
