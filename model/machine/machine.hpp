// One launch of a kernel on a modelled SM90: what its threads, barriers, memories and asynchronous
// units are doing. The functions that kernels call are in machine/api.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <source_location>
#include <string>
#include <vector>

#include "machine/api.hpp"
#include "machine/fiber.hpp"

namespace sm90 {

struct Cta;
struct Cluster;
struct Warp;
struct Warpgroup;

// What a blocked thread waits for; it may run again when `ready` says so.
struct Wait {
  std::function<bool()> ready;
  std::function<std::string()> what;  // in words, for a report of a deadlock
  Where where;
};

struct Slot {  // a partial accumulator in "registers"
  // NaN until written, so that sums without a beginning show.
  Slot() { values.fill(std::numeric_limits<float>::quiet_NaN()); }
  std::array<float, 128> values;
  std::int64_t group = -1;     // latest WGMMA group in flight that writes it, or -1
  int columns = 0, depth = 0;  // the shape of that group's WGMMAs
};

struct Thread {
  Cta* cta = nullptr;
  Warp* warp = nullptr;
  int index = 0, lane = 0;
  Fiber fiber;
  bool exited = false, blocked = false;
  Wait wait;
  Slot slots[2];
  bool wgmma_fenced = false, waits_for_previous = false;
  bool arrived_at_cluster = false;  // and has not waited since
  bool peers_have_started = false;  // known by a cluster barrier
  std::uint64_t cluster_generation = 0;
  std::uint32_t posted[4] = {};               // for the warp's other lanes
  std::vector<std::uint32_t> unfenced_units;  // 16-byte units written since the last proxy fence
  std::int64_t wgmmas = 0, commits = 0;       // issued, and groups closed, by this thread
  std::vector<int> open_stores;               // ids of bulk stores since the last commit
  std::vector<std::vector<int>> store_groups;
};

struct Warp {
  std::vector<Thread*> lanes;
  Warpgroup* group = nullptr;
  int index = 0, registers = 0;
  // The collective that is being gathered.
  const char* kind = nullptr;
  Where where;
  int arrived = 0;
  std::uint64_t generation = 0;
  std::array<std::uint64_t, 32> gathered{}, result{};
};

// A or B of a WGMMA: in shared memory, where its descriptor says.
struct Operand {
  std::uint64_t descriptor;
  Format format;
  bool mn_major;
  bool operator==(const Operand&) const = default;
};

// What a WGMMA does.
struct Product {
  Operand a, b;
  int columns, slot;
  bool accumulate;
  std::int64_t group;
  bool operator==(const Product&) const = default;
};

// One wgmma.mma_async as its 128 threads issue it.
struct Multiply : Product {
  Where where;
  int threads = 0, id = 0;
};

struct Warpgroup {
  Cta* cta = nullptr;
  std::vector<Thread*> threads;
  std::deque<Multiply> issued;          // not yet executed
  std::int64_t first = 0;               // number of issued.front()
  std::int64_t complete = 0;            // groups that have finished
  std::map<std::int64_t, int> commits;  // threads that have closed a group
};

struct Mbarrier {
  std::uint32_t count = 0, pending = 0;
  std::int64_t bytes = 0;  // armed and not yet arrived
  std::uint64_t phase = 0;
  std::string name;
};

struct NamedBarrier {
  int threads = 0, arrived = 0;
  std::uint64_t generation = 0;
};

struct Region {
  Address begin, end;
  int operation;
  std::string what;
};

// Shared memory with what is known about each byte and each 16-byte unit.
struct SharedMemory {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> written;  // per byte
  std::vector<std::int32_t>
      unfenced;  // per 16 bytes: thread whose write the async proxy may not see
  std::vector<Region> writes, reads;  // by asynchronous units, in flight
};

struct Cta {
  Cluster* cluster = nullptr;
  int index = 0, rank = 0;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::unique_ptr<Warpgroup>> groups;
  SharedMemory shared;
  std::map<Address, Mbarrier> mbarriers;
  int unfenced_initialiser = -1;  // thread whose mbarrier.init no fence of its own has followed
  std::array<NamedBarrier, 16> named;
  int running = 0;
};

struct Cluster {
  std::vector<std::unique_ptr<Cta>> ctas;
  int arrived = 0, running = 0;
  std::uint64_t generation = 0;
};

enum class Unit { load, store, wgmma };

// Something that an asynchronous unit will do, at a time that the scheduler draws.
struct Operation {
  Unit unit;
  std::function<bool()> possible;  // null: at any time
  std::function<void()> act;
  std::string what;
};

struct Launch {
  std::function<void()> kernel;
  int grid = 1, block = 1, cluster = 1, shared_bytes = 0, multiprocessors = 4;
};

struct Failure {
  std::string text;
};

// How the scheduler draws: asynchronous work at once, only when no thread can go on, or anywhere in
// between; and what it keeps waiting for as long as anything else can happen.
struct Schedule {
  enum class Mode { eager, lazy, random } mode = Mode::random;
  std::uint64_t seed = 0;
  int starved_warp = -1;
  int starved_unit = -1;  // of Unit
};

// The machine while it runs one launch.
class Machine {
 public:
  Machine(const Launch& launch, const Schedule& schedule);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  // Under programmatic dependent launch: what the first CTAs do before the kernel before this one
  // is complete. They then wait in griddepcontrol.wait, until run().
  void run_ahead();
  void run();  // the rest; throws Failure with the first report

  static Machine& current();
  static Thread& thread();  // that runs now
  static std::string name_of_running();

  // Of the running thread.
  void block(Wait wait);
  void maybe_yield();
  void yield();
  // Ends the launch with a report about the running thread's line, or about an operation.
  [[noreturn]] void fail(const std::string& text, const Where& where);
  void fail_later(const std::string& text);
  // Something that will happen later: at any time, or once `possible` says so.
  void enqueue(Unit unit, std::function<bool()> possible, std::function<void()> act,
               std::string what);
  // Names for accesses in flight, and which of them are over.
  int next_id() { return ++last_id_; }
  void mark_done(int id) { done_.insert(id); }
  bool is_done(int id) const { return done_.count(id) != 0; }
  std::uint64_t draw(std::uint64_t below);
  // One line of SM90_MODEL_TRACE: step, row, what ('+' begins, '-' ends, '!' happens), words.
  void trace(const std::string& row, char kind, const std::string& words);
  static bool tracing();

  Launch launch;
  bool previous_complete = false;  // the kernel before this one

 private:
  void start_wave();
  void start_cta(Cluster& cluster, int index, int rank);
  void run_wave();
  bool waits_for_previous() const;
  bool step();
  bool run_threads();
  bool run_operation(bool any_order, bool starved_too);
  void run_thread(Thread& thread);
  void finish_cta_checks(Cta& cta);
  std::string deadlock() const;

  using Mode = Schedule::Mode;
  Schedule schedule_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Warp*> warps_;
  std::vector<Operation> operations_;
  int last_id_ = 0;
  std::set<int> done_;
  std::string failure_;
  std::uint64_t step_ = 0;
  int next_cluster_ = 0;  // of the grid, not yet started
};

std::string line_of(const Where& where);
std::string name_of(const Thread& thread);
std::string row_of(const Thread& thread);  // of the trace: CTA and warp
// Completes the barrier if nobody is missing any more: after an arrival and after an exit.
void settle_cta_barrier(Cta& cta);
void settle_cluster_barrier(Cluster& cluster);

}  // namespace sm90
