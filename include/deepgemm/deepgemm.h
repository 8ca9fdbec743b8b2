/* The C interface, for languages that cannot call the C++ one. Same meaning as deepgemm.hpp:
 * everything is checked before anything is launched, and no call lets an exception out.
 *
 * Every function that can fail returns a status; deepgemm_last_error() has the words. Structs are
 * plain data that the caller fills: set them to zero first, so that fields added later keep their
 * defaults, and set struct_bytes to sizeof. */
#ifndef DEEPGEMM_DEEPGEMM_H
#define DEEPGEMM_DEEPGEMM_H

#include <stdint.h>

#if defined(_WIN32)
#define DEEPGEMM_C_API
#else
#define DEEPGEMM_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum deepgemm_status {
  DEEPGEMM_SUCCESS = 0,
  DEEPGEMM_INVALID_VALUE = 1, /* a shape, stride, value or granularity */
  DEEPGEMM_INVALID_TYPE = 2,  /* a dtype */
  DEEPGEMM_DRIVER_ERROR = 3,  /* the CUDA driver failed or is missing */
  DEEPGEMM_COMPILE_ERROR = 4, /* NVRTC failed or is missing */
  DEEPGEMM_ERROR = 5,         /* anything else outside the arguments */
  DEEPGEMM_OUT_OF_MEMORY = 6  /* of the host */
} deepgemm_status;

/* Stored in int32_t fields; the values never change. */
enum {
  DEEPGEMM_FLOAT8_E4M3FN = 0,
  DEEPGEMM_FLOAT8_E5M2 = 1,
  DEEPGEMM_FLOAT8_E8M0FNU = 2,
  DEEPGEMM_BFLOAT16 = 3,
  DEEPGEMM_FLOAT16 = 4,
  DEEPGEMM_FLOAT32 = 5,
  DEEPGEMM_FLOAT64 = 6,
  DEEPGEMM_INT32 = 11, /* of group vectors */
  DEEPGEMM_INT64 = 12
};
enum { DEEPGEMM_CPU = 0, DEEPGEMM_CUDA = 1 };
enum { DEEPGEMM_NT = 0, DEEPGEMM_NN = 1, DEEPGEMM_TN = 2, DEEPGEMM_TT = 3 };
enum {
  DEEPGEMM_ACTIVATION_NONE = 0,
  DEEPGEMM_ACTIVATION_RELU = 1,
  DEEPGEMM_ACTIVATION_GELU = 2,
  DEEPGEMM_ACTIVATION_GELU_TANH = 3,
  DEEPGEMM_ACTIVATION_SILU = 4
};

/* Strides are in elements; data points at element 0. */
typedef struct deepgemm_tensor {
  void* data;
  int32_t dtype;
  int32_t device_kind;
  int32_t device_index;
  int32_t rank; /* 0 to 4 */
  int64_t shape[4];
  int64_t strides[4];
} deepgemm_tensor;

/* What one scale factor covers; 0 is the whole extent. */
typedef struct deepgemm_granularity {
  int64_t rows;
  int64_t k;
} deepgemm_granularity;

/* out = activation(alpha * A @ B + bias) + c. Pointers that are NULL are absent; a granularity that
 * is NULL is inferred from the shape of sf. Factors lie as their values do: for a [K, M] a, a_sf is
 * [K blocks, row blocks], and so for a [K, N] b. A granularity is (rows, k) in every layout. An a
 * or b of rank 3 makes a batch, out [B, M, N]: see gemm.hpp. */
typedef struct deepgemm_gemm_args {
  uint64_t struct_bytes;
  const deepgemm_tensor* a;
  const deepgemm_tensor* a_sf;
  const deepgemm_granularity* a_granularity;
  const deepgemm_tensor* b;
  const deepgemm_tensor* b_sf;
  const deepgemm_granularity* b_granularity;
  const deepgemm_tensor* out;
  const deepgemm_tensor* c;
  const deepgemm_tensor* bias;
  int32_t activation;
  int32_t layout;
  float alpha;     /* as given: a struct of zeros has alpha 0, so set it */
  float out_scale; /* 0 counts as 1 */
} deepgemm_gemm_args;

/* Whose rows are whose, in deepgemm_grouped_args: grouped.hpp defines the four forms. */
enum {
  DEEPGEMM_GROUP_SIZES = 0,
  DEEPGEMM_GROUP_OFFSETS = 1,
  DEEPGEMM_GROUP_ENDS = 2,
  DEEPGEMM_GROUP_LABELS = 3
};

/* Each row of a [M, K] times the matrix of its group, b [G, N, K]; of group g: out =
 * activation(alpha * A_g @ B_g + bias[g]) + c. Rows of no group are not written, nor reach a
 * result. b_sf is [G, N blocks, K blocks], or one element for all. */
typedef struct deepgemm_grouped_args {
  uint64_t struct_bytes;
  const deepgemm_tensor* a;
  const deepgemm_tensor* a_sf;
  const deepgemm_granularity* a_granularity;
  const deepgemm_tensor* b;
  const deepgemm_tensor* b_sf;
  const deepgemm_granularity* b_granularity;
  const deepgemm_tensor* out;
  const deepgemm_tensor* c;
  const deepgemm_tensor* bias; /* [G, N] */
  int32_t activation;
  int32_t layout; /* DEEPGEMM_NT or DEEPGEMM_NN */
  float alpha;    /* as given: a struct of zeros has alpha 0, so set it */
  int32_t form;
  const deepgemm_tensor* groups; /* int32 or int64: what `form` says */
  int64_t alignment;             /* of DEEPGEMM_GROUP_ENDS; 0 counts as 1 */
} deepgemm_grouped_args;

/* The same for matrices of which the first rows[g] rows count: a [G, Mmax, K], out and c [G, Mmax,
 * N], a_sf one matrix of factors for each group. */
typedef struct deepgemm_masked_args {
  uint64_t struct_bytes;
  const deepgemm_tensor* a;
  const deepgemm_tensor* a_sf;
  const deepgemm_granularity* a_granularity;
  const deepgemm_tensor* b;
  const deepgemm_tensor* b_sf;
  const deepgemm_granularity* b_granularity;
  const deepgemm_tensor* out;
  const deepgemm_tensor* c;
  const deepgemm_tensor* bias;
  int32_t activation;
  int32_t layout;
  float alpha;
  int32_t reserved;             /* 0 */
  const deepgemm_tensor* rows;  /* [G] int32 or int64 */
  const int64_t* expected_rows; /* a hint, or NULL */
} deepgemm_masked_args;

/* out[g] = alpha * A_g @ B_g + c[g] over group g's slice of K. Factors cover one row and 128 of K;
 * their blocks are counted per group (grouped.hpp). */
typedef struct deepgemm_k_grouped_args {
  uint64_t struct_bytes;
  const deepgemm_tensor* a;
  const deepgemm_tensor* a_sf;
  const deepgemm_tensor* b;
  const deepgemm_tensor* b_sf;
  const deepgemm_tensor* out; /* [G, M, N] float32 or bfloat16 */
  const deepgemm_tensor* c;
  const deepgemm_tensor* k_sizes; /* [G] int32 or int64 */
  int32_t layout;
  float alpha; /* as given */
} deepgemm_k_grouped_args;

typedef struct deepgemm_quantize_options {
  uint64_t struct_bytes;
  deepgemm_granularity granularity;
  int32_t power_of_two;
  float amax_floor; /* 1e-4 is usual */
} deepgemm_quantize_options;

/* Groups of packed factors: of rows by their ends, or along K by their sizes (scale_layout.hpp).
 * int32 or int64, on the factors' device. */
typedef struct deepgemm_pack_groups {
  uint64_t struct_bytes;
  const deepgemm_tensor* group_ends; /* NULL: every row */
  int64_t alignment;                 /* of the groups' first rows; 0 counts as 1 */
  const deepgemm_tensor* k_sizes;    /* NULL: all of K is one group */
  int64_t k_per_scale;               /* 0 counts as 128 */
} deepgemm_pack_groups;

/* "0.1.0" */
DEEPGEMM_C_API const char* deepgemm_version(void);
/* The words of this thread's last failure; "" if there was none. Valid until the thread's next
 * call. */
DEEPGEMM_C_API const char* deepgemm_last_error(void);
/* Usable CUDA devices; 0 without a driver. */
DEEPGEMM_C_API int deepgemm_device_count(void);

/* `stream` is a CUstream (or cudaStream_t), NULL for the default stream; unused on the CPU. */
DEEPGEMM_C_API deepgemm_status deepgemm_gemm(const deepgemm_gemm_args* args, void* stream);
/* Products of many groups. The values of group vectors are checked in host memory, and on a GPU if
 * the environment variable DEEPGEMM_CHECK_GROUPS is 1. */
DEEPGEMM_C_API deepgemm_status deepgemm_grouped_gemm(const deepgemm_grouped_args* args,
                                                     void* stream);
DEEPGEMM_C_API deepgemm_status deepgemm_masked_gemm(const deepgemm_masked_args* args, void* stream);
DEEPGEMM_C_API deepgemm_status deepgemm_k_grouped_gemm(const deepgemm_k_grouped_args* args,
                                                       void* stream);
DEEPGEMM_C_API deepgemm_status deepgemm_quantize(const deepgemm_tensor* x,
                                                 const deepgemm_tensor* values,
                                                 const deepgemm_tensor* sf,
                                                 const deepgemm_quantize_options* options,
                                                 void* stream);
/* sf NULL: unscaled. granularity NULL: inferred. */
DEEPGEMM_C_API deepgemm_status deepgemm_dequantize(const deepgemm_tensor* values,
                                                   const deepgemm_tensor* sf,
                                                   const deepgemm_granularity* granularity,
                                                   const deepgemm_tensor* out, void* stream);
/* Scale factors, [rows, K blocks] or [G, rows, K blocks], in another layout: as they are, or four
 * exponents of K in an int32. `groups` may be NULL. */
DEEPGEMM_C_API deepgemm_status deepgemm_copy_scales(const deepgemm_tensor* sf,
                                                    const deepgemm_tensor* out, void* stream);
DEEPGEMM_C_API deepgemm_status deepgemm_pack_ue8m0(const deepgemm_tensor* sf,
                                                   const deepgemm_tensor* packed,
                                                   const deepgemm_pack_groups* groups,
                                                   void* stream);
/* Groups along K only. */
DEEPGEMM_C_API deepgemm_status deepgemm_unpack_ue8m0(const deepgemm_tensor* packed,
                                                     const deepgemm_tensor* sf,
                                                     const deepgemm_pack_groups* groups,
                                                     void* stream);

#ifdef __cplusplus
}
#endif

#endif
