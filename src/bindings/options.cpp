// Options of the calling thread: deepgemm.options() and set_options() write them, every call reads.
#include <nanobind/stl/optional.h>

#include <atomic>
#include <map>
#include <optional>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/scalars.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

struct ThreadOptions {
  std::optional<int> num_sms;
  std::optional<bool> pdl, constant_b, deterministic;
};

constexpr int every_device = -1;

// By device; `every_device` holds what is not set for one.
std::map<int, ThreadOptions>& thread_options() {
  thread_local std::map<int, ThreadOptions> options;
  return options;
}

// Whether any thread has set an option: most programs never do, and then none is looked up.
std::atomic<bool> any_set{false};

template <class T>
T look_up(int device, std::optional<T> ThreadOptions::* field, T fallback) {
  const auto& options = thread_options();
  for (int key : {device, every_device}) {
    const auto found = options.find(key);
    if (found != options.end() && found->second.*field) return *(found->second.*field);
  }
  return fallback;
}

nb::dict get_options(nb::handle named) {
  const int device = parse_int(named, "device");
  const auto found = thread_options().find(device);
  const ThreadOptions options = found == thread_options().end() ? ThreadOptions{} : found->second;
  nb::dict result;
  result["num_sms"] = nb::cast(options.num_sms);
  result["pdl"] = nb::cast(options.pdl);
  result["constant_b"] = nb::cast(options.constant_b);
  result["deterministic"] = nb::cast(options.deterministic);
  return result;
}

void set_options(nb::handle device, nb::handle num_sms, nb::handle pdl, nb::handle constant_b,
                 nb::handle deterministic) {
  const ThreadOptions options{parse_optional_int(num_sms, "num_sms"),
                              parse_optional_flag(pdl, "pdl"),
                              parse_optional_flag(constant_b, "constant_b"),
                              parse_optional_flag(deterministic, "deterministic")};
  if (options.num_sms && *options.num_sms < 0) {
    throw ValueError(complaint("num_sms", std::to_string(*options.num_sms), "0 (all) or more"));
  }
  thread_options()[parse_int(device, "device")] = options;
  any_set = true;
}

}  // namespace

CallOptions call_options(Device device) {
  CallOptions options;
  if (!any_set.load(std::memory_order_relaxed) || thread_options().empty()) return options;
  options.num_sms = look_up(device.index, &ThreadOptions::num_sms, 0);
  options.pdl = look_up(device.index, &ThreadOptions::pdl, false);
  options.constant_b = look_up(device.index, &ThreadOptions::constant_b, false);
  return options;
}

void bind_options(nb::module_& module) {
  module.def("get_options", &get_options, "device"_a.none(),
             nb::sig("def get_options(device: int) -> dict[str, typing.Any]"),
             "Options of this thread for `device` (-1: every device); None where unset.");
  module.def("set_options", &set_options, "device"_a.none(), "num_sms"_a.none(), "pdl"_a.none(),
             "constant_b"_a.none(), "deterministic"_a.none(),
             nb::sig("def set_options(device: int, num_sms: int | None, pdl: bool | None, "
                     "constant_b: bool | None, deterministic: bool | None) -> None"),
             "Replaces this thread's options for `device` (-1: every device).");
}

}  // namespace deepgemm::bindings
