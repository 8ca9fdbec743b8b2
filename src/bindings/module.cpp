// deepgemm._ext: everything that Python needs of libdeepgemm. Loading it loads no libcuda, no NVRTC
// and no Python package but our own deepgemm._nvrtc_path (standard library only).
#include <nanobind/nanobind.h>

#include "bindings/bind.hpp"

NB_MODULE(_ext, module) {
  using namespace deepgemm::bindings;
  // Why: a thread that still runs when the interpreter ends keeps its arrays, and says so in lines.
  nanobind::set_leak_warnings(false);
  module.doc() = "The compiled half of deepgemm; use the deepgemm package.";
  bind_errors(module);
  bind_options(module);
  bind_gemm(module);
  bind_grouped(module);
  bind_plan(module);
  bind_view(module);
  bind_device_array(module);
  bind_quantize(module);
  bind_scale_layout(module);
  bind_runtime(module);
  bind_reports(module);
  bind_problems(module);
  bind_cache(module);
}
