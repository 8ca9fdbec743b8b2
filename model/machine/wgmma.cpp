// WGMMA: 128 threads issue one multiplication together; it reads shared memory and writes the
// partial accumulators some time between its issue and the wait for its group.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "machine/api.hpp"
#include "machine/machine.hpp"
#include "machine/matrix.hpp"
#include "machine/memory.hpp"
#include "settings.hpp"

namespace sm90 {
namespace {

constexpr int rows = 64;

Thread& self() { return Machine::thread(); }

bool is_fp8(Format format) { return format == Format::e4m3 || format == Format::e5m2; }

// Bits that are kept below the largest term of a sum, as in the FP8 tensor core (about 13); 0: all.
int kept_bits() { return std::atoi(setting("SM90_MODEL_FP8_BITS", "0").c_str()); }

// The sum of a dot product's terms and of what is accumulated. With limited bits, every term is cut
// off at the same place below the largest; exact otherwise.
double sum_of(const std::vector<double>& terms, int bits) {
  double sum = 0, largest = 0;
  for (double term : terms) largest = std::max(largest, std::fabs(term));
  if (bits == 0 || largest == 0 || !std::isfinite(largest)) {
    for (double term : terms) sum += term;
    return sum;
  }
  const double unit = std::ldexp(1.0, std::ilogb(largest) - bits);
  for (double term : terms) sum += std::trunc(term / unit) * unit;
  return sum;
}

// The product itself.
void execute(Warpgroup& group, const Multiply& m) {
  Cta& cta = *group.cta;
  const int bits = is_fp8(m.a.format) ? kept_bits() : 0;
  const auto depth = static_cast<std::size_t>(depth_of(m.a.format));
  const std::vector<float> a = decode_matrix(cta, matrix_of(m.a, rows, m.where));
  const std::vector<float> b = decode_matrix(cta, matrix_of(m.b, m.columns, m.where));
  std::vector<double> terms(depth + 1);
  for (Thread* t : group.threads) {
    const int row = t->index % 128 / 32 * 16 + t->lane / 4, column = t->lane % 4 * 2;
    auto& sums = t->slots[m.slot].values;
    for (int i = 0; i < m.columns / 2; ++i) {
      const float* x = &a[static_cast<std::size_t>(row + i / 2 % 2 * 8) * depth];
      const float* y = &b[static_cast<std::size_t>(i / 4 * 8 + column + i % 2) * depth];
      for (std::size_t k = 0; k < depth; ++k) terms[k] = double{x[k]} * double{y[k]};
      terms[depth] = m.accumulate ? double{sums[static_cast<std::size_t>(i)]} : 0.0;
      sums[static_cast<std::size_t>(i)] = static_cast<float>(sum_of(terms, bits));
    }
  }
  end_access(cta, m.id);
}

// Everything of the group's oldest WGMMA group, if all its threads have issued and committed it.
bool can_run(const Warpgroup& group, std::int64_t number) {
  const auto found = group.commits.find(number);
  return group.complete == number && found != group.commits.end() && found->second == 128;
}

void run_group(Warpgroup& group, std::int64_t number) {
  for (const Thread* t : group.threads) {
    if (t->warp->registers == group.threads.front()->warp->registers) continue;
    return Machine::current().fail_later(
        row_of(*t) + ": setmaxnreg was not executed by all warps of its warpgroup");
  }
  while (!group.issued.empty() && group.issued.front().group == number) {
    if (group.issued.front().threads != 128) {
      return Machine::current().fail_later(
          "a WGMMA of " + line_of(group.issued.front().where) + " was issued by " +
          std::to_string(group.issued.front().threads) + " of 128 threads");
    }
    execute(group, group.issued.front());
    group.issued.pop_front();
    ++group.first;
  }
  group.commits.erase(number);
  ++group.complete;
}

// This thread's n-th WGMMA: the first of the 128 describes it, the others must agree.
Multiply& join(Warpgroup& group, std::int64_t number, const Multiply& mine) {
  if (number < group.first) {
    Machine::current().fail("a thread is behind its warpgroup: it left out a WGMMA", mine.where);
  }
  const auto at = static_cast<std::size_t>(number - group.first);
  if (at == group.issued.size()) group.issued.push_back(mine);
  Multiply& m = group.issued[at];
  if (static_cast<const Product&>(m) != mine) {
    Machine::current().fail("the threads of a warpgroup issue different WGMMAs", mine.where);
  }
  ++m.threads;
  return m;
}

// The accumulator is this WGMMA's from here on. Groups in flight may share it: the tensor core
// orders WGMMAs of one shape among themselves.
void claim(Slot& accumulator, const Product& p, const Where& where) {
  const int depth = depth_of(p.a.format);
  if (accumulator.group >= 0) {
    if (accumulator.columns != p.columns || accumulator.depth != depth) {
      Machine::current().fail("WGMMA into an accumulator that one of another shape still writes",
                              where);
    }
    // Sums that nobody can have read.
    if (accumulator.group != p.group && !p.accumulate) {
      Machine::current().fail("WGMMA into an accumulator that an earlier group still writes",
                              where);
    }
  }
  accumulator.group = p.group;
  accumulator.columns = p.columns;
  accumulator.depth = depth;
}

// What is wrong with the instruction itself, or null.
const char* forbids_product(const Product& p) {
  if (p.columns % 8 != 0 || p.columns < 8 || p.columns > 256) {
    return "WGMMA has a multiple of 8 columns, up to 256";
  }
  if (depth_of(p.a.format) != depth_of(p.b.format)) return "WGMMA multiplies elements of one size";
  if (is_fp8(p.a.format)) {
    return p.a.mn_major || p.b.mn_major ? "WGMMA takes MN-major operands of 16-bit elements only"
                                        : nullptr;
  }
  return p.a.format == p.b.format ? nullptr : "WGMMA multiplies 16-bit elements of one format";
}

// Begins what it reads: its operands are held until it is executed.
void begin(Cta& cta, Multiply& m) {
  Machine& machine = Machine::current();
  if (const char* problem = forbids_product(m); problem != nullptr) machine.fail(problem, m.where);
  m.id = machine.next_id();
  const std::string what = "the WGMMA of " + line_of(m.where);
  for (const Matrix& matrix : {matrix_of(m.a, rows, m.where), matrix_of(m.b, m.columns, m.where)}) {
    if (const std::string problem = forbids_matrix(cta, matrix); !problem.empty()) {
      machine.fail("WGMMA: " + problem, m.where);
    }
    hold_matrix(cta, matrix, m.id, what);
  }
}

}  // namespace

void wgmma_fence(const Where& where) {
  warp_together("wgmma.fence", where);
  self().wgmma_fenced = true;
}

void wgmma(int columns, Format a, Format b, int slot, bool accumulate, std::uint64_t a_descriptor,
           std::uint64_t b_descriptor, bool a_mn_major, bool b_mn_major, const Where& where) {
  warp_together("wgmma", where);
  Thread& t = self();
  Machine& machine = Machine::current();
  Warpgroup& group = *t.warp->group;
  if (!t.wgmma_fenced) {
    machine.fail("WGMMA without wgmma.fence after the accumulators were touched", where);
  }
  if (group.threads.size() != 128) machine.fail("WGMMA needs 128 threads", where);
  const Multiply mine{{{a_descriptor, a, a_mn_major},
                       {b_descriptor, b, b_mn_major},
                       columns,
                       slot,
                       accumulate,
                       t.commits},
                      where};
  claim(t.slots[slot], mine, where);
  Multiply& m = join(group, t.wgmmas++, mine);
  if (m.threads == 1) begin(*t.cta, m);
}

void wgmma_commit(const Where& where) {
  warp_together("wgmma.commit", where);
  Thread& t = self();
  Warpgroup& group = *t.warp->group;
  const std::int64_t number = t.commits++;
  if (++group.commits[number] == 128) {
    Machine::current().enqueue(
        Unit::wgmma, [&group, number] { return can_run(group, number); },
        [&group, number] { run_group(group, number); }, "WGMMA group of " + line_of(where));
  }
  Machine::current().maybe_yield();
}

void wgmma_wait(int pending, const Where& where) {
  warp_together("wgmma.wait", where);
  Thread& t = self();
  Warpgroup& group = *t.warp->group;
  const std::int64_t wanted = t.commits - pending;
  Machine::current().block({[&group, wanted] { return group.complete >= wanted; },
                            [wanted] { return "WGMMA group " + std::to_string(wanted - 1); },
                            where});
  for (Slot& slot : t.slots) {
    if (slot.group < wanted) slot.group = -1;
  }
}

float& partial(int slot, int element, const Where& where) {
  Thread& t = self();
  if (t.slots[slot].group >= 0) {
    Machine::current().fail("a partial accumulator is read before the wait for its WGMMA group",
                            where);
  }
  t.wgmma_fenced = false;
  return t.slots[slot].values[static_cast<std::size_t>(element)];
}

}  // namespace sm90
