// Fixed-size integers and the markers of code that is shared by host and device. Files under
// common/ that include nothing but their neighbours compile with g++ as well as with NVRTC.
#pragma once

#if defined(__CUDACC__)
#define DEEPGEMM_DEVICE __device__ __forceinline__
#define DEEPGEMM_SHARED_CODE __host__ __device__ __forceinline__
#else
#define DEEPGEMM_DEVICE inline
#define DEEPGEMM_SHARED_CODE inline
#endif

namespace deepgemm::device {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

template <class T>
DEEPGEMM_SHARED_CODE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
DEEPGEMM_SHARED_CODE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
DEEPGEMM_SHARED_CODE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

}  // namespace deepgemm::device
