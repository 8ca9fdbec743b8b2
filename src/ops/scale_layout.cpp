// deepgemm::copy_scales, pack_ue8m0, unpack_ue8m0: the checks, then the CPU backend or the GPU
// kernel.
#include "deepgemm/scale_layout.hpp"

#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "core/math.hpp"
#include "core/text.hpp"
#include "ops/checks.hpp"
#include "ops/groups.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/operands.hpp"

namespace deepgemm {
namespace {

using cpu::PackedGroup;
using cpu::RowRange;
using ops::Operand;

bool is_cpu(const TensorView& view) { return view.device.kind == DeviceKind::cpu; }

// [rows, columns] as a stack of one; strides of dimensions with one element are 0.
TensorView as_stack(const TensorView& view) {
  TensorView stack = view;
  if (view.rank == 2) {
    stack.rank = 3;
    stack.shape = {1, view.shape[0], view.shape[1]};
    stack.strides = {0, view.strides[0], view.strides[1]};
  }
  for (int i = 0; i < 3; ++i) {
    if (stack.shape[i] == 1) stack.strides[i] = 0;
  }
  return stack;
}

void check_source(const Operand& source, std::initializer_list<DType> dtypes,
                  std::string_view rule) {
  ops::check_dtype(source, dtypes, rule);
  if (source.view.rank != 3) {
    ops::check_rank(source, 2, "[rows, K blocks], or rank 3, [G, rows, K blocks]");
  }
  ops::check_extents(source);
}

// An output of the source's rows with `columns`, or any number of them if that is negative.
void check_target(const Operand& target, const Operand& source, std::int64_t columns,
                  std::string_view what) {
  const TensorView& s = source.view;
  ops::check_rank(target, s.rank, what);
  ops::check_extents(target);
  if (columns < 0) columns = target.view.shape[s.rank - 1];
  if (s.rank == 2) {
    ops::check_shape(target, {s.shape[0], columns}, what);
  } else {
    ops::check_shape(target, {s.shape[0], s.shape[1], columns}, what);
  }
  ops::check_device(target, source);
  ops::check_output(target);
  ops::check_no_overlap(target, source);
  ops::check_has_data(source);
  ops::check_has_data(target);
}

void check_at_least_1(std::string_view name, std::int64_t value) {
  if (value < 1 || value > plan::most_extent)
    throw ValueError(complaint(name, to_text(value), join("1 to ", plan::most_extent)));
}

// The kernel counts rows and blocks of groups in 32 bits.
void check_countable(const Operand& operand, int dimension) {
  constexpr std::int64_t most = plan::most_extent / 4;
  const std::int64_t extent = operand.view.shape[operand.view.rank - dimension];
  if (is_cpu(operand.view) || extent <= most) return;
  throw ValueError(complaint(operand.name, join("an extent of ", extent), join(most, " at most"),
                             "with groups, on a GPU"));
}

void check_vector(const Operand& vector, const Operand& reference, const Operand& out) {
  ops::check_rank(vector, 1, "[groups]");
  ops::check_group_vector(vector, vector.view.shape[0], "[groups]", reference, out);
  ops::check_has_data(vector);
  check_countable(vector, 1);
}

// The rows that are packed. A GPU's are looked at only if DEEPGEMM_CHECK_GROUPS is set.
std::vector<RowRange> rows_of(const std::optional<RowEnds>& groups, const Operand& sf,
                              const Operand& out, const CallOptions& call) {
  const std::int64_t rows = sf.view.shape[sf.view.rank - 2];
  if (!groups) return {{0, rows}};
  check_vector({"group_ends", groups->ends}, sf, out);
  check_at_least_1("alignment", groups->alignment);
  check_countable(sf, 2);
  if (!ops::are_values_checked(groups->ends)) return {};
  GroupedArgs args;
  args.groups = groups->ends;
  args.form = GroupForm::ends;
  args.alignment = groups->alignment;
  std::vector<RowRange> all;
  for (const auto& ranges : ops::rows_of_groups(args, groups->ends.shape[0], rows, call.stream)) {
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  return all;
}

// Groups along K that `blocks` columns of factors and `words` of packed ones hold.
std::vector<PackedGroup> groups_of(const std::optional<KSizes>& groups, const Operand& sf,
                                   const Operand& packed, const Operand& source, const Operand& out,
                                   const CallOptions& call) {
  const std::int64_t blocks = sf.view.shape[sf.view.rank - 1];
  if (!groups) return {{0, blocks, 0}};
  check_vector({"k_sizes", groups->sizes}, source, out);
  check_at_least_1("k_per_scale", groups->k_per_scale);
  check_countable(sf, 1);
  check_countable(packed, 1);
  if (!ops::are_values_checked(groups->sizes)) return {};
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  std::vector<PackedGroup> all;
  std::int64_t block = 0, word = 0;
  for (std::int64_t size : ops::sizes_of_k(groups->sizes, any, 1, call.stream)) {
    const std::int64_t count = ceil_div(size, groups->k_per_scale);
    all.push_back({block, block + count, word});
    block += count;
    word += ceil_div(count, 4);
  }
  const auto refuse = [&](const Operand& operand, std::int64_t found, std::int64_t need) {
    throw ValueError(complaint(operand.name, join(found, " columns"), join(need, " or more"),
                               "the K blocks of all k_sizes, packed group by group"));
  };
  if (block > blocks) refuse(sf, blocks, block);
  const std::int64_t words = packed.view.shape[packed.view.rank - 1];
  if (word > words) refuse(packed, words, word);
  return all;
}

void check_powers_of_two(const TensorView& stack, const std::vector<RowRange>& rows) {
  const auto place = cpu::first_not_power_of_two(stack, rows);
  if (!place) return;
  const float* data = static_cast<const float*>(stack.data);
  const float found = data[place->matrix * stack.strides[0] + place->row * stack.strides[1] +
                           place->column * stack.strides[2]];
  throw ValueError(complaint("sf",
                             join(to_text(found), " at row ", place->row, ", K block ",
                                  place->column, ", which is no power of two"),
                             "exponents alone", "UE8M0 has no sign and no mantissa"));
}

}  // namespace

std::int64_t packed_blocks(std::span<const std::int64_t> k_sizes, std::int64_t k_per_scale) {
  check_at_least_1("k_per_scale", k_per_scale);
  std::int64_t words = 0;
  for (std::int64_t size : k_sizes) {
    if (size < 0) throw ValueError(complaint("k_sizes", to_text(size), "sizes of 0 or more"));
    words += ceil_div(ceil_div(size, k_per_scale), 4);
  }
  return words;
}

void copy_scales(const TensorView& sf, const TensorView& out, const CallOptions& call) {
  ops::check_sms(call);
  const Operand source{"sf", sf}, target{"out", out};
  check_source(source, {DType::float32, DType::int32}, "scale factors, or packed ones");
  ops::check_dtype(target, {sf.dtype}, "the dtype of sf");
  check_target(target, source, sf.shape[sf.rank - 1], "the shape of sf");
  if (out.size() == 0) return;
  if (is_cpu(out)) return cpu::copy_scales(as_stack(sf), as_stack(out));
  plan::copy_scales(as_stack(sf), as_stack(out), call);
}

void pack_ue8m0(const TensorView& sf, const TensorView& packed, const PackGroups& groups,
                const CallOptions& call) {
  ops::check_sms(call);
  const Operand source{"sf", sf}, target{"out", packed};
  check_source(source, {DType::float32}, "powers of two");
  ops::check_dtype(target, {DType::int32}, "four exponents each");
  if (groups.rows && groups.k) {
    throw ValueError(complaint("group_ends, k_sizes", "both", "one of them at most",
                               "groups are of rows or along K"));
  }
  const std::int64_t columns = groups.k ? -1 : packed_blocks(sf.shape[sf.rank - 1]);
  check_target(target, source, columns, "the rows of sf, and a fourth of its K blocks");
  const std::vector<RowRange> rows = rows_of(groups.rows, source, target, call);
  const auto parts = groups_of(groups.k, source, target, source, target, call);
  if (packed.size() == 0) return;
  const TensorView in = as_stack(sf), out = as_stack(packed);
  if (!is_cpu(packed)) return plan::pack_ue8m0(in, out, groups, call);
  check_powers_of_two(in, rows);
  cpu::pack_ue8m0(in, out, rows, parts);
}

void unpack_ue8m0(const TensorView& packed, const TensorView& sf,
                  const std::optional<KSizes>& groups, const CallOptions& call) {
  ops::check_sms(call);
  const Operand source{"packed", packed}, target{"out", sf};
  check_source(source, {DType::int32}, "four exponents each");
  ops::check_dtype(target, {DType::float32}, "scale factors");
  check_target(target, source, -1, "the rows of packed");
  const std::int64_t blocks = sf.shape[sf.rank - 1], words = packed.shape[packed.rank - 1];
  if (!groups && packed_blocks(blocks) != words) {
    throw ValueError(complaint("out", join(blocks, " K blocks"),
                               join(words == 0 ? 0 : 4 * words - 3, " to ", 4 * words),
                               join("packed has ", words, " columns of four")));
  }
  const auto parts = groups_of(groups, target, source, source, target, call);
  if (sf.size() == 0) return;
  const TensorView in = as_stack(packed), out = as_stack(sf);
  if (!is_cpu(sf)) return plan::unpack_ue8m0(in, out, groups, call);
  cpu::unpack_ue8m0(in, out, parts);
}

}  // namespace deepgemm
