#include "ops/product_checks.hpp"

#include "core/text.hpp"

namespace deepgemm::ops {

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::nt:
      return "nt";
    case Layout::nn:
      return "nn";
    case Layout::tn:
      return "tn";
    case Layout::tt:
      return "tt";
  }
  throw ValueError(
      complaint("layout", join("value ", static_cast<int>(layout)), "nt, nn, tn or tt"));
}

void check_activation(Activation activation) {
  if (activation <= Activation::silu) return;
  throw ValueError(complaint("activation", join("value ", static_cast<int>(activation)),
                             "none, relu, gelu, gelu_tanh or silu"));
}

void check_multiplicand(const Operand& operand, int rank, std::string_view shape_in_words) {
  check_dtype(operand, {DType::float8_e4m3fn, DType::float8_e5m2, DType::bfloat16, DType::float16,
                        DType::float32});
  check_rank(operand, rank, shape_in_words);
  check_extents(operand);
}

void check_scale_factors(const Operand& sf, const Operand& reference) {
  check_dtype(sf, {DType::float32, DType::float8_e8m0fnu}, "scale factors");
  check_extents(sf);
  check_device(sf, reference);
}

void check_result(const Operand& out, std::initializer_list<DType> allowed,
                  std::initializer_list<std::int64_t> shape, std::string_view what,
                  const Operand& reference) {
  check_dtype(out, allowed);
  check_shape(out, shape, what);
  check_extents(out);
  check_device(out, reference);
  check_output(out);
}

void check_addend(const Operand& c, const Operand& out, std::initializer_list<std::int64_t> shape,
                  std::string_view what, const Operand& reference) {
  check_dtype(c, {out.view.dtype, DType::float32}, "out's dtype, or float32");
  check_shape(c, shape, what);
  check_extents(c);
  check_device(c, reference);
  if (same_memory(c.view, out.view) || !overlaps(c.view, out.view)) return;
  throw ValueError(complaint("c", "memory that partly overlaps out",
                             "out itself, or memory of its own",
                             "c may be out only with the same start, strides and dtype"));
}

void check_bias(const Operand& bias, std::initializer_list<std::int64_t> shape,
                std::string_view what, const Operand& reference) {
  check_dtype(bias, {DType::float32, DType::bfloat16, DType::float16});
  check_rank(bias, static_cast<int>(shape.size()), what);
  check_shape(bias, shape, what);
  check_extents(bias);
  check_device(bias, reference);
}

void check_f64(const CallOptions& options, const Device& device) {
  if (!options.accumulate_in_f64 || device.kind == DeviceKind::cpu) return;
  throw ValueError(complaint("accumulate_in_f64", describe(device), "cpu",
                             "FP64 sums are the reference backend's"));
}

}  // namespace deepgemm::ops
