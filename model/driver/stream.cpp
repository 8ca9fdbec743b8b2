// The stream: launches are kept back until something needs their results, so that a kernel launched
// with programmatic stream serialisation starts before the one before it is complete.
#include "driver/stream.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "settings.hpp"

namespace sm90 {
namespace {

Schedule schedule_of(const std::string& mode, const std::string& seed) {
  Schedule schedule;
  schedule.seed = std::strtoull(seed.c_str(), nullptr, 10);
  if (mode == "eager") schedule.mode = Schedule::Mode::eager;
  if (mode == "lazy") schedule.mode = Schedule::Mode::lazy;
  if (!mode.starts_with("starve:")) return schedule;
  const std::string who = mode.substr(7);
  const std::vector<std::string> units = {"loads", "stores", "wgmma"};
  const auto unit = std::find(units.begin(), units.end(), who);
  if (unit != units.end()) {
    schedule.starved_unit = static_cast<int>(unit - units.begin());
  } else {
    schedule.starved_warp = std::atoi(who.c_str());
  }
  return schedule;
}

// A launch with its own copy of the parameter, at an address as aligned as a kernel's.
class Pending {
 public:
  Pending(Launch shape, void (*entry)(void*), const void* parameter, std::size_t bytes)
      : mode_(setting("SM90_MODEL_MODE", "random")),
        seed_(setting("SM90_MODEL_SEED", "0")),
        parameter_(std::aligned_alloc(128, (bytes + 127) / 128 * 128), &std::free) {
    std::memcpy(parameter_.get(), parameter, bytes);
    shape.kernel = [entry, copy = parameter_.get()] { entry(copy); };
    machine_ = std::make_unique<Machine>(shape, schedule_of(mode_, seed_));
  }
  void run_ahead() { machine_->run_ahead(); }
  void run() { machine_->run(); }
  std::string how_to_repeat() const {
    return " (SM90_MODEL_MODE=" + mode_ + " SM90_MODEL_SEED=" + seed_ + ")";
  }

 private:
  std::string mode_, seed_;
  std::unique_ptr<void, void (*)(void*)> parameter_;
  std::unique_ptr<Machine> machine_;
};

struct Stream {
  std::recursive_mutex mutex;
  std::unique_ptr<Pending> pending;
  std::string report = "no error";
  bool failed = false;  // and nobody has been told yet
};

Stream& stream() {
  static Stream& instance = *new Stream;
  return instance;
}

void finish_pending() {
  const std::unique_ptr<Pending> pending = std::move(stream().pending);
  if (pending == nullptr) return;
  try {
    pending->run();
  } catch (const Failure& failure) {
    if (!stream().failed) stream().report = failure.text + pending->how_to_repeat();
    stream().failed = true;
  }
}

// A failure that nobody asked for before the end of the process is at least seen.
void finish_at_exit() {
  finish_pending();
  if (stream().failed) std::fprintf(stderr, "SM90 model: %s\n", stream().report.c_str());
}

}  // namespace

bool launch(const Launch& shape, void (*entry)(void*), const void* parameter, std::size_t bytes,
            bool overlaps) {
  std::lock_guard lock(stream().mutex);
  auto next = std::make_unique<Pending>(shape, entry, parameter, bytes);
  static const bool registered = std::atexit(finish_at_exit) == 0;
  static_cast<void>(registered);
  if (overlaps && stream().pending != nullptr) next->run_ahead();
  finish_pending();
  if (std::exchange(stream().failed, false)) return false;
  stream().pending = std::move(next);
  return true;
}

bool synchronize() {
  std::lock_guard lock(stream().mutex);
  finish_pending();
  return !std::exchange(stream().failed, false);
}

void drain() {
  std::lock_guard lock(stream().mutex);
  finish_pending();
}

std::string last_report() {
  std::lock_guard lock(stream().mutex);
  return stream().report;
}

}  // namespace sm90
