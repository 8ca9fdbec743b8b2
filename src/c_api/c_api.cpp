#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "core/text.hpp"
#include "deepgemm/deepgemm.h"
#include "deepgemm/error.hpp"
#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/quantize.hpp"
#include "deepgemm/runtime.hpp"
#include "deepgemm/scale_layout.hpp"

namespace {

using namespace deepgemm;

static_assert(DEEPGEMM_FLOAT8_E4M3FN == static_cast<int>(DType::float8_e4m3fn));
static_assert(DEEPGEMM_FLOAT8_E5M2 == static_cast<int>(DType::float8_e5m2));
static_assert(DEEPGEMM_FLOAT8_E8M0FNU == static_cast<int>(DType::float8_e8m0fnu));
static_assert(DEEPGEMM_BFLOAT16 == static_cast<int>(DType::bfloat16));
static_assert(DEEPGEMM_FLOAT16 == static_cast<int>(DType::float16));
static_assert(DEEPGEMM_FLOAT32 == static_cast<int>(DType::float32));
static_assert(DEEPGEMM_FLOAT64 == static_cast<int>(DType::float64));
static_assert(DEEPGEMM_INT32 == static_cast<int>(DType::int32));
static_assert(DEEPGEMM_INT64 == static_cast<int>(DType::int64));
static_assert(DEEPGEMM_GROUP_LABELS == static_cast<int>(GroupForm::labels));
static_assert(DEEPGEMM_TT == static_cast<int>(Layout::tt));
static_assert(DEEPGEMM_ACTIVATION_SILU == static_cast<int>(Activation::silu));
static_assert(DEEPGEMM_CUDA == static_cast<int>(DeviceKind::cuda));

thread_local std::string last_error;

deepgemm_status fail(deepgemm_status status, const char* words) noexcept {
  try {
    last_error = words;
  } catch (...) {
    last_error.clear();  // no memory for the words: the status has to do
  }
  return status;
}

// Runs `body` and turns what it throws into a status.
template <class Body>
deepgemm_status guarded(Body&& body) noexcept {
  try {
    last_error.clear();
    body();
    return DEEPGEMM_SUCCESS;
  } catch (const ValueError& error) {
    return fail(DEEPGEMM_INVALID_VALUE, error.what());
  } catch (const TypeError& error) {
    return fail(DEEPGEMM_INVALID_TYPE, error.what());
  } catch (const DriverError& error) {
    return fail(DEEPGEMM_DRIVER_ERROR, error.what());
  } catch (const CompileError& error) {
    return fail(DEEPGEMM_COMPILE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return fail(DEEPGEMM_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return fail(DEEPGEMM_ERROR, error.what());
  } catch (...) {
    return fail(DEEPGEMM_ERROR, "an exception of unknown type");
  }
}

// An enumerator of a C field: 0 to `last`.
template <class Enum>
Enum checked(const char* operand, std::int32_t value, Enum last) {
  if (value >= 0 && value <= static_cast<std::int32_t>(last)) return static_cast<Enum>(value);
  throw ValueError(complaint(operand, to_text(value),
                             join("0 to ", static_cast<std::int32_t>(last)), "see deepgemm.h"));
}

template <class Struct>
void check_struct(const char* operand, const Struct* given) {
  if (given == nullptr) throw ValueError(complaint(operand, "NULL", "a struct"));
  if (given->struct_bytes >= sizeof(Struct)) return;
  throw ValueError(complaint(operand, join("struct_bytes = ", given->struct_bytes),
                             join(sizeof(Struct), " or more"), "set it to sizeof"));
}

TensorView view_of(const char* operand, const deepgemm_tensor* tensor) {
  if (tensor == nullptr) throw ValueError(complaint(operand, "NULL", "a deepgemm_tensor"));
  if (tensor->rank < 0 || tensor->rank > max_rank) {
    throw ValueError(complaint(operand, join("rank ", tensor->rank), join("0 to ", max_rank)));
  }
  const bool floating = tensor->dtype >= 0 && tensor->dtype <= DEEPGEMM_FLOAT64;
  if (!floating && tensor->dtype != DEEPGEMM_INT32 && tensor->dtype != DEEPGEMM_INT64) {
    throw TypeError(
        complaint(operand, join("dtype ", tensor->dtype),
                  join("0 to ", static_cast<int>(DEEPGEMM_FLOAT64), ", ",
                       static_cast<int>(DEEPGEMM_INT32), " or ", static_cast<int>(DEEPGEMM_INT64)),
                  "the DEEPGEMM_ dtypes of deepgemm.h"));
  }
  TensorView view;
  view.data = tensor->data;
  view.dtype = static_cast<DType>(tensor->dtype);
  view.device = {checked(operand, tensor->device_kind, DeviceKind::cuda), tensor->device_index};
  view.rank = tensor->rank;
  std::copy_n(tensor->shape, max_rank, view.shape.begin());
  std::copy_n(tensor->strides, max_rank, view.strides.begin());
  return view;
}

std::optional<TensorView> optional_view(const char* operand, const deepgemm_tensor* tensor) {
  if (tensor == nullptr) return std::nullopt;
  return view_of(operand, tensor);
}

ScaledView scaled_of(const char* values_name, const deepgemm_tensor* values, const char* sf_name,
                     const deepgemm_tensor* sf, const deepgemm_granularity* granularity) {
  ScaledView view{view_of(values_name, values), std::nullopt, std::nullopt};
  view.sf = optional_view(sf_name, sf);
  if (granularity != nullptr) view.granularity = Granularity{granularity->rows, granularity->k};
  return view;
}

// The fields that the structs of all products of rows have.
template <class Args, class Given>
void read_rows(const Given& given, Args& args) {
  args.a = scaled_of("a", given.a, "sfa", given.a_sf, given.a_granularity);
  args.b = scaled_of("b", given.b, "sfb", given.b_sf, given.b_granularity);
  args.out = view_of("out", given.out);
  args.c = optional_view("c", given.c);
  args.bias = optional_view("bias", given.bias);
  args.activation = checked("activation", given.activation, Activation::silu);
  args.layout = checked("layout", given.layout, Layout::tt);
  args.alpha = given.alpha;
}

CallOptions on_stream(void* stream) {
  CallOptions options;
  options.stream = static_cast<Stream>(stream);
  return options;
}

PackGroups groups_of(const deepgemm_pack_groups* groups) {
  PackGroups cpp;
  if (groups == nullptr) return cpp;
  check_struct("groups", groups);
  if (groups->group_ends != nullptr) {
    cpp.rows = RowEnds{view_of("group_ends", groups->group_ends),
                       groups->alignment == 0 ? 1 : groups->alignment};
  }
  if (groups->k_sizes != nullptr) {
    cpp.k = KSizes{view_of("k_sizes", groups->k_sizes),
                   groups->k_per_scale == 0 ? 128 : groups->k_per_scale};
  }
  return cpp;
}

}  // namespace

const char* deepgemm_version(void) { return DEEPGEMM_VERSION; }

const char* deepgemm_last_error(void) { return last_error.c_str(); }

int deepgemm_device_count(void) { return deepgemm::device_count(); }

deepgemm_status deepgemm_gemm(const deepgemm_gemm_args* args, void* stream) {
  return guarded([&] {
    check_struct("args", args);
    GemmArgs cpp;
    read_rows(*args, cpp);
    cpp.out_scale = args->out_scale == 0 ? 1.0F : args->out_scale;
    gemm(cpp, on_stream(stream));
  });
}

deepgemm_status deepgemm_grouped_gemm(const deepgemm_grouped_args* args, void* stream) {
  return guarded([&] {
    check_struct("args", args);
    GroupedArgs cpp;
    read_rows(*args, cpp);
    cpp.form = checked("form", args->form, GroupForm::labels);
    cpp.groups = view_of("groups", args->groups);
    cpp.alignment = args->alignment == 0 ? 1 : args->alignment;
    grouped_gemm(cpp, on_stream(stream));
  });
}

deepgemm_status deepgemm_masked_gemm(const deepgemm_masked_args* args, void* stream) {
  return guarded([&] {
    check_struct("args", args);
    MaskedArgs cpp;
    read_rows(*args, cpp);
    cpp.rows = view_of("rows", args->rows);
    if (args->expected_rows != nullptr) cpp.expected_rows = *args->expected_rows;
    masked_gemm(cpp, on_stream(stream));
  });
}

deepgemm_status deepgemm_k_grouped_gemm(const deepgemm_k_grouped_args* args, void* stream) {
  return guarded([&] {
    check_struct("args", args);
    KGroupedArgs cpp;
    cpp.a = scaled_of("a", args->a, "sfa", args->a_sf, nullptr);
    cpp.b = scaled_of("b", args->b, "sfb", args->b_sf, nullptr);
    cpp.out = view_of("out", args->out);
    cpp.c = optional_view("c", args->c);
    cpp.k_sizes = view_of("k_sizes", args->k_sizes);
    cpp.alpha = args->alpha;
    cpp.layout = checked("layout", args->layout, Layout::tt);
    k_grouped_gemm(cpp, on_stream(stream));
  });
}

deepgemm_status deepgemm_quantize(const deepgemm_tensor* x, const deepgemm_tensor* values,
                                  const deepgemm_tensor* sf,
                                  const deepgemm_quantize_options* options, void* stream) {
  return guarded([&] {
    check_struct("options", options);
    QuantizeOptions cpp;
    cpp.granularity = {options->granularity.rows, options->granularity.k};
    cpp.power_of_two = options->power_of_two != 0;
    cpp.amax_floor = options->amax_floor;
    quantize(view_of("x", x), view_of("values", values), view_of("sf", sf), cpp, on_stream(stream));
  });
}

deepgemm_status deepgemm_dequantize(const deepgemm_tensor* values, const deepgemm_tensor* sf,
                                    const deepgemm_granularity* granularity,
                                    const deepgemm_tensor* out, void* stream) {
  return guarded([&] {
    dequantize(scaled_of("values", values, "sf", sf, granularity), view_of("out", out),
               on_stream(stream));
  });
}

deepgemm_status deepgemm_copy_scales(const deepgemm_tensor* sf, const deepgemm_tensor* out,
                                     void* stream) {
  return guarded([&] { copy_scales(view_of("sf", sf), view_of("out", out), on_stream(stream)); });
}

deepgemm_status deepgemm_pack_ue8m0(const deepgemm_tensor* sf, const deepgemm_tensor* packed,
                                    const deepgemm_pack_groups* groups, void* stream) {
  return guarded([&] {
    pack_ue8m0(view_of("sf", sf), view_of("packed", packed), groups_of(groups), on_stream(stream));
  });
}

deepgemm_status deepgemm_unpack_ue8m0(const deepgemm_tensor* packed, const deepgemm_tensor* sf,
                                      const deepgemm_pack_groups* groups, void* stream) {
  return guarded([&] {
    const PackGroups cpp = groups_of(groups);
    if (cpp.rows) throw ValueError(complaint("group_ends", "an array", "NULL to unpack"));
    unpack_ue8m0(view_of("packed", packed), view_of("sf", sf), cpp.k, on_stream(stream));
  });
}
