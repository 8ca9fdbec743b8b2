// What was found on this machine, kernels prepared ahead, and why a config was chosen.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/problem.hpp"

namespace deepgemm {

struct GpuInfo {
  int index = 0;
  std::string name;
  int sm_count = 0;
  int compute_major = 0, compute_minor = 0;
  std::int64_t l2_bytes = 0;
};

struct RuntimeInfo {
  std::string version;
  int driver_version = 0;      // 13000; 0 if there is no driver
  std::string driver_problem;  // empty if the driver is usable
  std::vector<GpuInfo> gpus;
  std::string nvrtc_path;
  int nvrtc_major = 0, nvrtc_minor = 0;
  std::string nvrtc_problem;
  std::string cache_directory;
  std::string cache_problem;
  std::string sources_digest;
  std::vector<std::pair<std::string, std::string>> settings;  // DEEPGEMM_ variables that are set
};
// Loads the driver and NVRTC to look at them; creates no context. Never throws.
DEEPGEMM_API RuntimeInfo runtime_info() noexcept;
// Number of usable CUDA devices; 0 without a driver. Creates no context.
DEEPGEMM_API int device_count() noexcept;
// 0 if CUDA device 0 is a Hopper GPU, else -1: the device whose figures count if none is named.
// Creates no context.
DEEPGEMM_API int usable_device() noexcept;

// One config that the heuristics weighed, and the Policy fields that ask for it.
struct CandidateReport {
  std::string kernel;  // "persistent", "decode"
  std::string config;
  double predicted_us = 0;
  bool swept = false;  // measured on an H200, fastest of its kernel's: it goes before the others
  std::vector<std::pair<std::string, int>> policy;
};

// How a problem would be, or was, computed.
struct KernelReport {
  std::string kernel;    // "deepgemm_fp8_gemm"
  std::string config;    // "128x256x128, 3 stages, cluster 2x1, ..."
  std::string identity;  // equal for two reports only if the compiled kernel is the same
  std::vector<std::pair<std::string, std::string>> fields;
  std::string reason;  // why this kernel and this config
  std::string origin;  // "memory", "bundle", "disk", "compiled"; empty if not prepared
  double milliseconds = 0;
  int shared_bytes = 0, threads = 0, grid = 0, stages = 0;
  std::vector<CandidateReport> candidates;  // of explain(), cheapest first; none for "general"
};
// Whose figures count.
struct ReportOptions {
  const Policy* policy = nullptr;
  int device = -1;         // below 0: the figures of an H200
  int device_sms = 0;      // above 0: choose for a device of so many SMs, whatever `device` has
  int num_sms = 0;         // as CallOptions::num_sms
  bool load = true;        // of prepare(): also load the kernel, if a device is named
  bool candidates = true;  // of explain(): also list what else was weighed
};
// Chooses the config; compiles nothing. `args` may point to no memory (data null): only shapes,
// strides and alignment count, and null counts as aligned.
DEEPGEMM_API KernelReport explain(const GemmArgs& args, const ReportOptions& options = {});
// Chooses, then compiles (or finds in the cache) and may load the kernel; of a batch that is
// launched product by product, every kernel.
DEEPGEMM_API KernelReport prepare(const GemmArgs& args, const ReportOptions& options = {});
// The same of grouped products; the group vectors may point to no memory, their values do not
// count. Of an empty product the report has no kernel.
DEEPGEMM_API KernelReport explain(const GroupedArgs& args, const ReportOptions& options = {});
DEEPGEMM_API KernelReport explain(const MaskedArgs& args, const ReportOptions& options = {});
DEEPGEMM_API KernelReport explain(const KGroupedArgs& args, const ReportOptions& options = {});
DEEPGEMM_API KernelReport prepare(const GroupedArgs& args, const ReportOptions& options = {});
DEEPGEMM_API KernelReport prepare(const MaskedArgs& args, const ReportOptions& options = {});
DEEPGEMM_API KernelReport prepare(const KGroupedArgs& args, const ReportOptions& options = {});
// The same of quantize() into such values, and of dequantize(), which has one kernel for all.
DEEPGEMM_API KernelReport explain_quantize(const TensorView& values, const Granularity& granularity,
                                           const ReportOptions& options = {});
DEEPGEMM_API KernelReport prepare_quantize(const TensorView& values, const Granularity& granularity,
                                           const ReportOptions& options = {});
DEEPGEMM_API KernelReport explain_dequantize(const ReportOptions& options = {});
DEEPGEMM_API KernelReport prepare_dequantize(const ReportOptions& options = {});
// The same of copy_scales(), pack_ue8m0() and unpack_ue8m0(), which share one kernel.
DEEPGEMM_API KernelReport explain_scale_layout(const ReportOptions& options = {});
DEEPGEMM_API KernelReport prepare_scale_layout(const ReportOptions& options = {});
// What a repeated call costs the CPU from C++, and what of it is the driver's launch: medians over
// `samples` loops of `calls` calls each, in microseconds. Runs the product, and waits for the
// stream between the loops. ValueError if the arrays are not on a GPU, or nothing is computed.
struct CallCost {
  double call_us = 0;
  double launch_us = 0;  // the same launches with nothing around them
};
DEEPGEMM_API CallCost measure_call(const GemmArgs& args, const CallOptions& options, int calls,
                                   int samples);
// Every config that the heuristics can select, as reports whose `kernel`/`config` name it.
DEEPGEMM_API std::vector<KernelReport> selectable_kernels();
// Compiles selectable_kernels()[index] with ptxas -v, touching no cache; returns the log.
struct CompileReport {
  std::string kernel, config, log;
  double milliseconds = 0;
  std::size_t cubin_bytes = 0;
  std::string cubin;
};
DEEPGEMM_API CompileReport compile_selectable(std::size_t index);

}  // namespace deepgemm
