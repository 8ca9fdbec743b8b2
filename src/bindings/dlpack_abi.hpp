// The DLPack binary interface (https://dmlc.github.io/dlpack), versions 0.x to 1.3, declared anew:
// only what this module reads or makes. Layouts are fixed by the specification.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deepgemm::dlpack {

struct Version {
  std::uint32_t major = 0, minor = 0;
};

enum DeviceType : std::int32_t {
  device_cpu = 1,
  device_cuda = 2,
  cuda_host = 3,
  cuda_managed = 13
};

struct Device {
  std::int32_t type = device_cpu;
  std::int32_t index = 0;
};

// Codes of DataType.code.
enum TypeCode : std::uint8_t {
  code_int = 0,
  code_uint = 1,
  code_float = 2,
  code_bfloat = 4,
  code_complex = 5,
  code_float8_e4m3fn = 10,
  code_float8_e5m2 = 12,
  code_float8_e8m0fnu = 14,
};

struct DataType {
  std::uint8_t code = 0, bits = 0;
  std::uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t rank = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null: row-major
  std::uint64_t byte_offset = 0;
};

// In a capsule named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};

inline constexpr std::uint64_t flag_read_only = 1;

// In a capsule named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* context = nullptr;
  void (*deleter)(ManagedTensorVersioned*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};

inline constexpr const char* capsule_name = "dltensor";
inline constexpr const char* versioned_capsule_name = "dltensor_versioned";
inline constexpr const char* exchange_capsule_name = "dlpack_exchange_api";

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous = nullptr;  // an older interface that the type offers too
};

// C functions that a tensor type offers through its attribute __dlpack_c_exchange_api__. Those that
// return int give 0, or -1 with a Python error set. Objects are PyObject*.
struct ExchangeApi {
  ExchangeHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensorVersioned** out);
  int (*managed_to_object)(ManagedTensorVersioned* tensor, void** out_object);  // steals tensor
  int (*tensor_from_object)(void* object, Tensor* out);  // borrowed; may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out_stream);
};

static_assert(sizeof(Device) == 8 && sizeof(DataType) == 4 && sizeof(Tensor) == 48);
static_assert(offsetof(ManagedTensorVersioned, tensor) == 32);
static_assert(sizeof(ExchangeHeader) == 16 && sizeof(ExchangeApi) == 56);

}  // namespace deepgemm::dlpack
