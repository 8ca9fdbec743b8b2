// A dense product with its options, for the tests of calls that repeat.
#pragma once

#include "planned_product.hpp"

namespace test {

// A product with its options; and its policy, if it has one.
struct Call {
  PlannedProduct product{300, 640, 1024};
  CallOptions options;
  Policy policy;
  bool has_policy = false;
  void run() const {
    CallOptions chosen = options;
    if (has_policy) chosen.policy = &policy;
    gemm(product.args, chosen);
  }
};

// To another device, with every array.
inline void move_to(int device, GemmArgs& args) {
  for (TensorView* view : {&args.a.values, &args.b.values, &*args.a.sf, &*args.b.sf, &args.out}) {
    view->device.index = device;
  }
}

inline TensorView bias_of(DType dtype, std::int64_t stride = 1, std::int64_t n = 640) {
  TensorView bias = make_view(reinterpret_cast<void*>(std::uintptr_t{9} << 48), dtype, {n}, gpu);
  bias.strides[0] = stride;
  return bias;
}

}  // namespace test
