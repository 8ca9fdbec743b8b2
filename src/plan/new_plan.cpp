#include "plan/new_plan.hpp"

#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "core/env.hpp"
#include "core/files.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/dump.hpp"
#include "plan/plan_words.hpp"

namespace deepgemm::plan {
namespace {

// A set of records by their hashes, forgotten as a whole when it is full: then some are told again.
class Told {
 public:
  bool insert(std::uint64_t record) {
    constexpr std::size_t most = std::size_t{1} << 16;
    if (hashes_.size() >= most) hashes_.clear();
    return hashes_.insert(record).second;
  }

 private:
  std::unordered_set<std::uint64_t> hashes_;
};

// Whether this process has not told of the record yet. A thread that has takes no lock.
bool is_new(const std::string& record) {
  const std::uint64_t hash = hash_bytes(record.data(), record.size());
  thread_local Told of_thread;
  if (!of_thread.insert(hash)) return false;
  static std::mutex mutex;
  static Told& of_process = *new Told;
  std::lock_guard lock(mutex);
  return of_process.insert(hash);
}

struct Asked {
  std::optional<std::string> trace;
  bool log = log::enabled(log::Level::debug);
  bool dump = jit::dumping();
  Asked() : trace(env::text("DEEPGEMM_TRACE")) {}
  bool anything() const { return trace || log || dump; }
};

// The line feed in front ends what a full disk may have cut off; empty lines mean nothing.
void write_trace(const std::string& file, const std::string& record) {
  static std::atomic<bool> was_cut{false};
  const std::string line = join(was_cut.exchange(false) ? "\n" : "", record, "\n");
  const std::string problem = files::append(file, line);
  if (problem.empty()) return;
  was_cut = true;
  log::warn_once(join("DEEPGEMM_TRACE: ", problem));
}

// A dense call, or a batch of them, in the forms that may be asked for.
struct Dense {
  const GemmProblem& problem;
  const GemmArgs& first;
  const GemmBatch& batch;
  std::string words() const { return words_of(problem, batch.count); }
  std::string record(const CallSite& site) const { return record_of(problem, first, batch, site); }
  std::string descriptors(const GemmPlan& plan) const {
    return descriptor_words(plan, problem, first, batch_layout(batch));
  }
};
struct Grouped {
  const GroupedCall& call;
  std::string words() const { return words_of(call); }
  std::string record(const CallSite& site) const { return record_of(call, site); }
  std::string descriptors(const GemmPlan& plan) const {
    return descriptor_words(plan, call.product, call.first, call.layout);
  }
};

std::string milliseconds_text(const jit::LoadedKernel& kernel) {
  return to_text(std::round(10 * kernel.milliseconds) / 10);
}

// Strict mode's words name the kernel only.
template <class Call>
const jit::LoadedKernel& load(const jit::KernelSpec& spec, int device, const Call& call) {
  try {
    return jit::load(spec, device);
  } catch (const CompileError&) {
    throw;
  } catch (const DriverError&) {
    throw;
  } catch (const Error& error) {
    throw Error(join(call.words(), ": ", error.what()));
  }
}

void dump_plan(const GemmPlan& plan, const std::string& words, const std::string& record,
               const std::string& descriptors) {
  const std::string file =
      join(jit::dump_stem(plan.spec), "-", sha256_hex(record).substr(0, 8), ".plan.txt");
  jit::dump(file, join("problem  ", words, "\nkernel   ", plan.spec.name, "\nconfig   ",
                       config_words(plan), "\nwhy      ", plan.reason, "\nlaunch   ", plan.grid,
                       " CTAs of ", plan.threads, " threads, clusters of ", plan.cluster, ", ",
                       plan.shared_bytes, " bytes of shared memory\nrecord   ", record,
                       "\n\nTMA descriptors, innermost dimension first:\n", descriptors));
}

template <class Call>
const jit::LoadedKernel& load_and_tell(GemmPlan& plan, const CallSite& site, const Call& call) {
  if (ranges_asked()) plan.range = call.words();
  const Asked asked;
  if (!asked.anything()) return load(plan.spec, site.device, call);
  const std::string record = call.record(site);
  const bool fresh = is_new(record);
  // Before the load: a trace also has what strict mode refuses.
  if (fresh && asked.trace) write_trace(*asked.trace, record);
  const bool was_loaded = jit::is_loaded(plan.spec, site.device);
  const jit::LoadedKernel& kernel = load(plan.spec, site.device, call);
  if (fresh && asked.log) {
    log::write(log::Level::debug,
               join("plan of ", call.words(), ": ", plan.spec.name, ", ", config_words(plan), "; ",
                    plan.reason, "; from ", name(was_loaded ? jit::Origin::memory : kernel.origin),
                    ", ", was_loaded ? std::string("0") : milliseconds_text(kernel), " ms"));
  }
  if (fresh && asked.dump) dump_plan(plan, call.words(), record, call.descriptors(plan));
  return kernel;
}

}  // namespace

bool ranges_asked() noexcept {
  try {
    return env::flag("DEEPGEMM_NVTX", false);
  } catch (const std::exception& error) {
    log::warn_once(error.what());
    return false;
  }
}

const jit::LoadedKernel& load_new_plan(GemmPlan& plan, const CallSite& site,
                                       const GemmProblem& problem, const GemmArgs& first,
                                       const GemmBatch& batch) {
  return load_and_tell(plan, site, Dense{problem, first, batch});
}

const jit::LoadedKernel& load_new_plan(GemmPlan& plan, const CallSite& site,
                                       const GroupedCall& call) {
  return load_and_tell(plan, site, Grouped{call});
}

CUfunction load_new_kernel(const jit::KernelSpec& spec, int device, const std::string& record) {
  const Asked asked;
  const bool fresh = asked.anything() && is_new(record);
  if (fresh && asked.trace) write_trace(*asked.trace, record);
  const jit::LoadedKernel& kernel = jit::load(spec, device);
  if (fresh && asked.log) {
    log::write(log::Level::debug, join(spec.name, " for ", record, "; from ", name(kernel.origin),
                                       ", ", milliseconds_text(kernel), " ms"));
  }
  return kernel.function;
}

}  // namespace deepgemm::plan
