// Element types: DLPack codes, names, and the dtype objects of the frameworks.
#include <array>
#include <bit>
#include <utility>

#include "bindings/errors.hpp"
#include "bindings/tensor_import.hpp"

namespace deepgemm::bindings {
namespace {

struct Code {
  DType dtype;
  std::uint8_t code, bits;
};
constexpr std::array<Code, 13> codes{{
    {DType::float8_e4m3fn, dlpack::code_float8_e4m3fn, 8},
    {DType::float8_e5m2, dlpack::code_float8_e5m2, 8},
    {DType::float8_e8m0fnu, dlpack::code_float8_e8m0fnu, 8},
    {DType::bfloat16, dlpack::code_bfloat, 16},
    {DType::float16, dlpack::code_float, 16},
    {DType::float32, dlpack::code_float, 32},
    {DType::float64, dlpack::code_float, 64},
    {DType::uint8, dlpack::code_uint, 8},
    {DType::int8, dlpack::code_int, 8},
    {DType::uint16, dlpack::code_uint, 16},
    {DType::int16, dlpack::code_int, 16},
    {DType::int32, dlpack::code_int, 32},
    {DType::int64, dlpack::code_int, 64},
}};

// The codes by kind and size, for one look at each array. Two that share a place would not compile.
constexpr std::size_t place_of(unsigned code, unsigned bits) {
  return code % 16 * 8 + bits / 16 % 8;
}
constexpr std::array<Code, 128> by_place = [] {
  std::array<Code, 128> places{};
  for (const Code& entry : codes) {
    Code& place = places[place_of(entry.code, entry.bits)];
    if (place.bits != 0) throw "two codes in one place";
    place = entry;
  }
  return places;
}();

std::string describe_code(const dlpack::DataType& dtype) {
  static constexpr std::array<const char*, 18> kinds{"int",
                                                     "uint",
                                                     "float",
                                                     "handle",
                                                     "bfloat",
                                                     "complex",
                                                     "bool",
                                                     "float8_e3m4",
                                                     "float8_e4m3",
                                                     "float8_e4m3b11fnuz",
                                                     "float8_e4m3fn",
                                                     "float8_e4m3fnuz",
                                                     "float8_e5m2",
                                                     "float8_e5m2fnuz",
                                                     "float8_e8m0fnu",
                                                     "float6_e2m3fn",
                                                     "float6_e3m2fn",
                                                     "float4_e2m1fn"};
  std::string text =
      dtype.code < kinds.size() ? kinds[dtype.code] : "DLPack code " + std::to_string(dtype.code);
  if (dtype.code <= dlpack::code_complex) text += std::to_string(dtype.bits);
  if (dtype.lanes != 1) text += " x " + std::to_string(dtype.lanes) + " lanes";
  return text;
}

// "torch.bfloat16" -> "bfloat16"
std::string last_word(const std::string& text) { return text.substr(text.rfind('.') + 1); }

std::string dtype_text(nb::handle dtype) {
  if (nb::isinstance<nb::str>(dtype)) return nb::cast<std::string>(dtype);
  for (const char* attribute : {"name", "__name__"}) {
    const nb::object value = nb::getattr(dtype, attribute, nb::none());
    if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  }
  return last_word(nb::cast<std::string>(nb::str(dtype)));
}

[[noreturn, gnu::noinline]] void refuse(const dlpack::DataType& dtype, const char* operand) {
  throw TypeError(complaint(operand, describe_code(dtype),
                            "float8_e4m3fn, float8_e5m2, float8_e8m0fnu, bfloat16, float16, "
                            "float32, float64 or an integer of 8 to 64 bits"));
}

}  // namespace

DType dtype_of(const dlpack::DataType& dtype, const char* operand) {
  const Code& entry = by_place[place_of(dtype.code, dtype.bits)];
  const dlpack::DataType known{entry.code, entry.bits, 1};
  if (std::bit_cast<std::uint32_t>(dtype) != std::bit_cast<std::uint32_t>(known)) {
    refuse(dtype, operand);
  }
  return entry.dtype;
}

dlpack::Device dlpack_device(Device device) noexcept {
  return {device.kind == DeviceKind::cpu ? dlpack::device_cpu : dlpack::device_cuda, device.index};
}

dlpack::DataType dlpack_type(DType dtype) noexcept {
  for (const Code& entry : codes) {
    if (entry.dtype == dtype) return {entry.code, entry.bits, 1};
  }
  return {};
}

DType parse_dtype(nb::handle dtype, const char* argument) {
  const std::string text = dtype_text(dtype);
  try {
    return dtype_from_name(text);
  } catch (const TypeError&) {
    std::string known;
    for (const Code& entry : codes) {
      known.append(known.empty() ? "" : ", ").append(name(entry.dtype));
    }
    throw TypeError(complaint(argument, "dtype " + text, "one of " + known));
  }
}

}  // namespace deepgemm::bindings
