// The scheduler: which thread runs and which asynchronous operation takes effect next.
#include "machine/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "machine/crash.hpp"

namespace sm90 {
namespace {

Machine* machine = nullptr;
Thread* running = nullptr;

void body_of(void* argument) {
  auto& thread = *static_cast<Thread*>(argument);
  Machine::current().launch.kernel();
  thread.exited = true;
  thread.fiber.suspend();
  std::abort();  // an exited thread is never resumed
}

bool all_blocked(const Warp& warp) {
  return std::all_of(warp.lanes.begin(), warp.lanes.end(),
                     [](const Thread* t) { return t->exited || t->blocked; });
}

}  // namespace

std::string line_of(const Where& where) {
  const char* file = std::strstr(where.file_name(), "device/");
  return std::string(file != nullptr ? file + 7 : where.file_name()) + ":" +
         std::to_string(where.line());
}

std::string row_of(const Thread& t) {
  return "CTA " + std::to_string(t.cta->index) + " warp " + std::to_string(t.warp->index);
}

std::string name_of(const Thread& t) { return row_of(t) + " lane " + std::to_string(t.lane); }

Machine::Machine(const Launch& launch_, const Schedule& schedule)
    : launch(launch_), schedule_(schedule), random_(schedule.seed) {}
Machine::~Machine() {
  if (machine == this) machine = nullptr;
}
Machine& Machine::current() { return *machine; }
Thread& Machine::thread() { return *running; }
std::string Machine::name_of_running() {
  return running != nullptr ? name_of(*running) : "the model";
}

std::uint64_t Machine::draw(std::uint64_t below) { return random_() % below; }

bool Machine::tracing() {
  static const bool wanted = std::getenv("SM90_MODEL_TRACE") != nullptr;
  return wanted;
}

void Machine::trace(const std::string& row, char kind, const std::string& words) {
  if (!tracing()) return;
  static std::FILE* const file = std::fopen(std::getenv("SM90_MODEL_TRACE"), "w");
  if (file == nullptr) return;
  std::fprintf(file, "%llu|%s|%c|%s\n", static_cast<unsigned long long>(step_), row.c_str(), kind,
               words.c_str());
  std::fflush(file);
}

void Machine::block(Wait wait) {
  Thread& self = *running;
  if (wait.ready()) return;
  self.wait = std::move(wait);
  self.blocked = true;
  const bool shown = self.lane == 0 && tracing();
  if (shown) trace(row_of(self), '+', line_of(self.wait.where));
  self.fiber.suspend();
  if (shown) trace(row_of(self), '-', line_of(self.wait.where));
}

void Machine::maybe_yield() {
  if (schedule_.mode == Mode::eager || draw(8) != 0) return;
  running->fiber.suspend();
}

void Machine::yield() { running->fiber.suspend(); }

void Machine::fail_later(const std::string& text) {
  if (failure_.empty()) failure_ = text;
}

// Thrown through no frame: a fiber that fails records its report and suspends for good.
void Machine::fail(const std::string& text, const Where& where) {
  fail_later(line_of(where) + ": " + name_of(*running) + ": " + text);
  running->exited = true;
  running->fiber.suspend();
  std::abort();
}

void Machine::enqueue(Unit unit, std::function<bool()> possible, std::function<void()> act,
                      std::string what) {
  operations_.push_back({unit, std::move(possible), std::move(act), std::move(what)});
  while (schedule_.mode == Mode::eager && failure_.empty() && run_operation(false, false)) {
  }
}

void Machine::start_cta(Cluster& cluster, int index, int rank) {
  cluster.ctas.push_back(std::make_unique<Cta>());
  Cta& cta = *cluster.ctas.back();
  cta.cluster = &cluster;
  cta.index = index;
  cta.rank = rank;
  cta.running = launch.block;
  const auto bytes = static_cast<std::size_t>(launch.shared_bytes);
  cta.shared.bytes.assign(bytes, 0xFF);  // NaN in every format
  cta.shared.written.assign(bytes, 0);
  cta.shared.unfenced.assign(bytes / 16 + 1, -1);
  const int registers = std::min(255, 65536 / launch.block / 8 * 8);
  for (int i = 0; i < launch.block; ++i) {
    if (i % 128 == 0) {
      cta.groups.push_back(std::make_unique<Warpgroup>());
      cta.groups.back()->cta = &cta;
    }
    if (i % 32 == 0) {
      cta.warps.push_back(std::make_unique<Warp>());
      cta.warps.back()->index = i / 32;
      cta.warps.back()->registers = registers;
      cta.warps.back()->group = cta.groups.back().get();
      warps_.push_back(cta.warps.back().get());
    }
    cta.threads.push_back(std::make_unique<Thread>());
    Thread& thread = *cta.threads.back();
    thread.cta = &cta;
    thread.warp = cta.warps.back().get();
    thread.index = i;
    thread.lane = i % 32;
    thread.warp->lanes.push_back(&thread);
    cta.groups.back()->threads.push_back(&thread);
    thread.fiber.start(&body_of, &thread);
  }
}

// As many clusters as the device holds, or what is left of the grid.
void Machine::start_wave() {
  clusters_.clear();
  warps_.clear();
  operations_.clear();
  done_.clear();
  // What fits an SM by shared memory and threads, and the stacks of a process.
  const int per_sm = std::min(233472 / (launch.shared_bytes + 1024), 2048 / launch.block);
  const int most = std::min(launch.multiprocessors * std::max(1, per_sm), 32768 / launch.block);
  const int at_once = std::max(1, most / launch.cluster);
  const int end = std::min(next_cluster_ + at_once, launch.grid / launch.cluster);
  for (; next_cluster_ < end; ++next_cluster_) {
    clusters_.push_back(std::make_unique<Cluster>());
    clusters_.back()->running = launch.cluster * launch.block;
    for (int rank = 0; rank < launch.cluster; ++rank) {
      start_cta(*clusters_.back(), next_cluster_ * launch.cluster + rank, rank);
    }
  }
}

void Machine::run_thread(Thread& thread) {
  if (thread.exited) return;
  if (thread.blocked) {
    if (!thread.wait.ready()) return;
    thread.blocked = false;
  }
  running = &thread;
  thread.fiber.resume();
  if (thread.fiber.overflowed()) fail_later(name_of(thread) + ": stack overflow");
  running = nullptr;
  if (!thread.exited || !failure_.empty()) return;
  --thread.cta->running;
  --thread.cta->cluster->running;
  if (thread.arrived_at_cluster) --thread.cta->cluster->arrived;
  settle_cta_barrier(*thread.cta);
  settle_cluster_barrier(*thread.cta->cluster);
  if (thread.cta->running == 0) finish_cta_checks(*thread.cta);
}

// One warp that can go on, drawn at random; a starved one only if no other can.
bool Machine::run_threads() {
  const std::size_t count = warps_.size();
  const std::size_t first = draw(count);
  Warp* late = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    Warp& warp = *warps_[(first + i) % count];
    bool able = false;
    for (Thread* t : warp.lanes) able |= !t->exited && (!t->blocked || t->wait.ready());
    if (!able) continue;
    if (warp.index == schedule_.starved_warp) {
      late = &warp;
      continue;
    }
    for (Thread* t : warp.lanes) {
      run_thread(*t);
      if (!failure_.empty()) return true;
    }
    return true;
  }
  if (late == nullptr) return false;
  if (run_operation(true, false)) return true;
  for (Thread* t : late->lanes) run_thread(*t);
  return true;
}

bool Machine::run_operation(bool any_order, bool starved_too) {
  const std::size_t count = operations_.size();
  if (count == 0) return false;
  const std::size_t first = any_order ? draw(count) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (first + i) % count;
    if (operations_[at].possible && !operations_[at].possible()) continue;
    if (static_cast<int>(operations_[at].unit) == schedule_.starved_unit && !starved_too) continue;
    const Operation operation = std::move(operations_[at]);
    operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(at));
    if (tracing()) trace("asynchronous", '!', operation.what);
    operation.act();
    return true;
  }
  return false;
}

bool Machine::step() {
  ++step_;
  const bool any_order = schedule_.mode != Mode::eager;
  if (schedule_.mode == Mode::random && draw(2) == 0 && run_operation(true, false)) return true;
  return run_threads() || run_operation(any_order, false) || run_operation(any_order, true);
}

bool Machine::waits_for_previous() const {
  if (previous_complete) return false;
  for (const Warp* warp : warps_) {
    for (const Thread* t : warp->lanes) {
      if (t->waits_for_previous && !t->exited) return true;
    }
  }
  return false;
}

// Until every thread has exited, or all wait for the previous kernel.
void Machine::run_wave() {
  constexpr std::uint64_t most_steps = 20'000'000;
  while (failure_.empty()) {
    if (step_ > most_steps) return fail_later("no end after 20 million steps of the scheduler");
    int left = 0;
    for (const auto& cluster : clusters_) left += cluster->running;
    if (left == 0 && operations_.empty()) return;
    if (step()) continue;
    if (!waits_for_previous()) fail_later(deadlock());
    return;
  }
}

void Machine::finish_cta_checks(Cta& cta) {
  for (const Region& r : cta.shared.writes) {
    fail_later("CTA " + std::to_string(cta.index) + " exited while " + r.what +
               " may still write into its shared memory");
  }
  for (const Region& r : cta.shared.reads) {
    fail_later("CTA " + std::to_string(cta.index) + " exited while " + r.what +
               " still reads its shared memory: wait for it before the end of the kernel");
  }
  for (std::size_t id = 1; id < cta.named.size(); ++id) {
    if (cta.named[id].arrived == 0) continue;
    fail_later("CTA " + std::to_string(cta.index) + " exited with " +
               std::to_string(cta.named[id].arrived) + " threads at named barrier " +
               std::to_string(id) + " and nobody to come");
  }
  for (const auto& [address, barrier] : cta.mbarriers) {
    if (barrier.pending == barrier.count && barrier.bytes == 0) continue;
    fail_later("CTA " + std::to_string(cta.index) + " exited with " + barrier.name +
               " in the middle of phase " + std::to_string(barrier.phase) + ": " +
               std::to_string(barrier.count - barrier.pending) + " of " +
               std::to_string(barrier.count) + " arrivals");
  }
}

std::string Machine::deadlock() const {
  std::string text = "deadlock: nothing can go on.";
  for (const Warp* warp : warps_) {
    std::map<std::string, std::string> waits;  // by what they wait for, the lanes
    for (const Thread* t : warp->lanes) {
      if (!t->exited && t->blocked) {
        waits[line_of(t->wait.where) + " waits for " + t->wait.what()] +=
            " " + std::to_string(t->lane);
      }
    }
    for (const auto& [what, lanes] : waits) {
      text += "\n  CTA " + std::to_string(warp->lanes[0]->cta->index) + " warp " +
              std::to_string(warp->index) + " lanes" +
              (all_blocked(*warp) && waits.size() == 1 ? " (all)" : lanes) + ": " + what;
    }
  }
  return text;
}

void Machine::run_ahead() {
  const CrashReports reports;
  machine = this;
  start_wave();
  run_wave();
}

void Machine::run() {
  const CrashReports reports;
  machine = this;
  previous_complete = true;
  if (clusters_.empty()) start_wave();
  run_wave();
  while (failure_.empty() && next_cluster_ < launch.grid / launch.cluster) {
    start_wave();
    run_wave();
  }
  if (!failure_.empty()) throw Failure{failure_};
}

}  // namespace sm90
