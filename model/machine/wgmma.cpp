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
  const int bits = is_fp8(m.a_format) ? kept_bits() : 0;
  const auto depth = static_cast<std::size_t>(depth_of(m.a_format));
  const std::vector<float> a = decode_rows(cta, matrix_of(m.a, m.where), rows, m.a_format);
  const std::vector<float> b = decode_rows(cta, matrix_of(m.b, m.where), m.columns, m.b_format);
  std::vector<double> terms(depth + 1);
  for (Thread* t : group.threads) {
    const int row = t->index % 128 / 32 * 16 + t->lane / 4, column = t->lane % 4 * 2;
    auto& sums = t->slots[m.slot].values;
    for (int i = 0; i < m.columns / 2; ++i) {
      const float* x = &a[static_cast<std::size_t>(row + i / 2 % 2 * 8) * depth];
      const float* y = &b[static_cast<std::size_t>(i / 4 * 8 + column + i % 2) * depth];
      for (std::size_t k = 0; k < depth; ++k) terms[k] = double{x[k]} * double{y[k]};
      terms[depth] = m.accumulate != 0 ? double{sums[static_cast<std::size_t>(i)]} : 0.0;
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
  if (m.a != mine.a || m.b != mine.b || m.columns != mine.columns || m.slot != mine.slot ||
      m.accumulate != mine.accumulate || m.group != mine.group || m.a_format != mine.a_format ||
      m.b_format != mine.b_format) {
    Machine::current().fail("the threads of a warpgroup issue different WGMMAs", mine.where);
  }
  ++m.threads;
  return m;
}

}  // namespace

void wgmma_fence(const Where& where) {
  warp_together("wgmma.fence", where);
  self().wgmma_fenced = true;
}

void wgmma(int columns, Format a, Format b, int slot, bool accumulate, std::uint64_t a_descriptor,
           std::uint64_t b_descriptor, const Where& where) {
  warp_together("wgmma", where);
  Thread& t = self();
  Machine& machine = Machine::current();
  Warpgroup& group = *t.warp->group;
  if (!t.wgmma_fenced) {
    machine.fail("WGMMA without wgmma.fence after the accumulators were touched", where);
  }
  if (group.threads.size() != 128) machine.fail("WGMMA needs 128 threads", where);
  if (depth_of(a) != depth_of(b)) machine.fail("WGMMA multiplies elements of one size", where);
  Slot& accumulator = t.slots[slot];
  if (accumulator.group >= 0 && accumulator.group != t.commits) {
    machine.fail("WGMMA into an accumulator that an earlier group still writes", where);
  }
  accumulator.group = t.commits;
  const Multiply mine{columns,      a,         b,    slot, accumulate ? 1 : 0, a_descriptor,
                      b_descriptor, t.commits, where};
  Multiply& m = join(group, t.wgmmas++, mine);
  if (m.threads == 1) {
    m.id = machine.next_id();
    const std::string what = "the WGMMA of " + line_of(where);
    for (const auto& [matrix, count] :
         {std::pair(matrix_of(m.a, where), rows), std::pair(matrix_of(m.b, where), columns)}) {
      if (const std::string problem = forbids_rows(*t.cta, matrix, count); !problem.empty()) {
        machine.fail("WGMMA: " + problem, where);
      }
      hold_rows(*t.cta, matrix, count, m.id, what);
    }
  }
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

float partial(int slot, int element, const Where& where) {
  Thread& t = self();
  if (t.slots[slot].group >= 0) {
    Machine::current().fail("a partial accumulator is read before the wait for its WGMMA group",
                            where);
  }
  t.wgmma_fenced = false;
  return t.slots[slot].values[static_cast<std::size_t>(element)];
}

}  // namespace sm90
