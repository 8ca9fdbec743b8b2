/* out = A @ B^T of FP32 matrices through the C interface, in host memory: runs anywhere. */
#include <deepgemm/deepgemm.h>
#include <stdio.h>

int main(void) {
  float a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[2 * 3] = {1, 0, 1, 0, 1, 0}, out[2 * 2];
  deepgemm_tensor left = {0}, right, result;
  left.dtype = DEEPGEMM_FLOAT32;
  left.device_kind = DEEPGEMM_CPU;
  left.rank = 2;
  left.shape[0] = 2, left.shape[1] = 3;
  left.strides[0] = 3, left.strides[1] = 1;
  right = result = left;
  left.data = a, right.data = b, result.data = out;
  result.shape[1] = result.strides[0] = 2;

  deepgemm_gemm_args args = {0};
  args.struct_bytes = sizeof args;
  args.a = &left, args.b = &right, args.out = &result;
  args.layout = DEEPGEMM_NT;
  args.alpha = 1;
  if (deepgemm_gemm(&args, NULL) != DEEPGEMM_SUCCESS) {
    fprintf(stderr, "%s\n", deepgemm_last_error());
    return 1;
  }
  printf("%g %g %g %g, need 4 2 10 5\n", out[0], out[1], out[2], out[3]);
  return out[0] == 4 && out[1] == 2 && out[2] == 10 && out[3] == 5 ? 0 : 1;
}
