// measure_call: for `deepgemm bench call`.
#include <algorithm>
#include <chrono>
#include <vector>

#include "core/text.hpp"
#include "deepgemm/device_memory.hpp"
#include "deepgemm/runtime.hpp"
#include "ops/prepared.hpp"

namespace deepgemm {
namespace {

template <class Call>
double us_per_call(int calls, Call&& call) {
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  return took.count() / calls;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

CallCost measure_call(const GemmArgs& args, const CallOptions& options, int calls, int samples) {
  if (calls < 1 || samples < 1) {
    throw ValueError(complaint("calls", join(calls, " in ", samples, " samples"), "1 or more"));
  }
  if (args.a.values.device.kind == DeviceKind::cpu) {
    throw ValueError(complaint("a", "an array in host memory", "one on a GPU"));
  }
  gemm(args, options);  // plans, and loads the kernel
  const plan::Signature signature(args, options);
  plan::PreparedCall* call = plan::find_call(signature, signature.hash());
  if (call == nullptr) throw ValueError(complaint("out", "no element", "something to compute"));
  std::vector<double> whole, alone;
  for (int i = 0; i < samples; ++i) {
    synchronize_stream(options.stream, args.out.device.index);
    whole.push_back(us_per_call(calls, [&] { gemm(args, options); }));
    synchronize_stream(options.stream, args.out.device.index);
    alone.push_back(us_per_call(calls, [&] { call->run_again(options.stream); }));
  }
  synchronize_stream(options.stream, args.out.device.index);
  return {median(std::move(whole)), median(std::move(alone))};
}

}  // namespace deepgemm
