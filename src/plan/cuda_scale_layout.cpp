// Scale layouts on a CUDA device.
#include <cstdlib>

#include "core/math.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/problem_record.hpp"
#include "plan/simple_launch.hpp"

namespace deepgemm::plan {
namespace {

using device::GroupVector;
using device::GroupVectorForm;
using device::ScaleLayoutConfig;
using device::ScaleLayoutParams;
using device::ScaleWork;

// Whether rows, and not columns, are neighbours in memory.
bool lies_by_rows(const TensorView& stack) {
  if (stack.shape[1] <= 1) return false;
  return stack.shape[2] <= 1 || std::abs(stack.strides[1]) < std::abs(stack.strides[2]);
}

ScaleLayoutParams params_of(ScaleWork work, const TensorView& in, const TensorView& out) {
  ScaleLayoutParams p{};
  p.work = work;
  p.in = in.data;
  p.out = out.data;
  p.in_matrix = in.strides[0];
  p.in_row = in.strides[1];
  p.in_column = in.strides[2];
  p.out_matrix = out.strides[0];
  p.out_row = out.strides[1];
  p.out_column = out.strides[2];
  p.rows = out.shape[1];
  p.in_columns = in.shape[2];
  p.out_columns = out.shape[2];
  p.k_per_scale = 1;
  p.in_by_rows = lies_by_rows(in);
  p.out_by_rows = lies_by_rows(out);
  return p;
}

GroupVector vector_of(const TensorView& vector, GroupVectorForm form, std::int64_t rows,
                      std::int64_t alignment) {
  GroupVector v{};
  v.data = vector.data;
  v.step = vector.strides[0];
  v.is_64_bit = vector.dtype == DType::int64;
  v.form = form;
  v.groups = static_cast<int>(vector.shape[0]);
  v.rows = static_cast<int>(rows);
  v.alignment = static_cast<int>(alignment);
  return v;
}

// factors: along K, those of a tile's rows that out's columns hold.
void launch(ScaleLayoutParams& p, const TensorView& out, std::int64_t factors,
            const CallOptions& call) {
  p.tiles_down = ceil_div(p.rows, ScaleLayoutConfig::rows);
  p.tiles_across = ceil_div(factors, ScaleLayoutConfig::factors);
  p.tiles = product_or_max({out.shape[0], p.tiles_down, p.tiles_across});
  launch_simple({scale_layout_spec(), number_of_scale_layout, ScaleLayoutConfig::threads},
                out.device.index, {p.tiles, 1}, &p, call, record_of_scale_layout);
}

void set_sizes(ScaleLayoutParams& p, const KSizes& groups) {
  p.vector = vector_of(groups.sizes, GroupVectorForm::sizes, 0, 1);
  p.k_per_scale = static_cast<int>(groups.k_per_scale);
}

}  // namespace

void copy_scales(const TensorView& sf, const TensorView& out, const CallOptions& call) {
  ScaleLayoutParams p = params_of(ScaleWork::copy, sf, out);
  launch(p, out, out.shape[2], call);
}

void pack_ue8m0(const TensorView& sf, const TensorView& packed, const PackGroups& groups,
                const CallOptions& call) {
  ScaleLayoutParams p = params_of(groups.k ? ScaleWork::pack_groups : ScaleWork::pack, sf, packed);
  if (groups.k) set_sizes(p, *groups.k);
  if (groups.rows) {
    p.vector = vector_of(groups.rows->ends, GroupVectorForm::ends, p.rows, groups.rows->alignment);
  }
  launch(p, packed, product_or_max({packed.shape[2], ScaleLayoutConfig::per_word}), call);
}

void unpack_ue8m0(const TensorView& packed, const TensorView& sf,
                  const std::optional<KSizes>& groups, const CallOptions& call) {
  ScaleLayoutParams p =
      params_of(groups ? ScaleWork::unpack_groups : ScaleWork::unpack, packed, sf);
  if (groups) set_sizes(p, *groups);
  launch(p, sf, sf.shape[2], call);
}

}  // namespace deepgemm::plan
