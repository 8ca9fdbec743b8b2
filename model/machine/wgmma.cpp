// WGMMA: 128 threads issue one multiplication together; it reads shared memory and writes the
// partial accumulators some time between its issue and the wait for its group.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "common/float_formats.cuh"
#include "machine/api.hpp"
#include "machine/machine.hpp"
#include "machine/memory.hpp"
#include "settings.hpp"

namespace sm90 {
namespace {

constexpr int rows = 64, depth = 32;  // of one instruction, in FP8

Thread& self() { return Machine::thread(); }

const std::array<float, 256>& values_of(int format) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 2> made{};
    for (unsigned code = 0; code < 256; ++code) {
      made[0][code] = deepgemm::device::e4m3_to_float(static_cast<std::uint8_t>(code));
      made[1][code] = deepgemm::device::e5m2_to_float(static_cast<std::uint8_t>(code));
    }
    return made;
  }();
  return tables[static_cast<std::size_t>(format)];
}

// A K-major operand tile with the 128-byte swizzle, as its matrix descriptor describes it.
struct Operand {
  Address start, eight_rows;
};

Operand operand_of(std::uint64_t descriptor, const Where& where) {
  if (descriptor >> 62 != 1) {
    Machine::current().fail("only the 128-byte swizzle is modelled in a matrix descriptor", where);
  }
  const Address start = static_cast<Address>(descriptor & 0x3FFF) << 4;
  if ((start & 0x380) != 0) {
    Machine::current().fail("a matrix that does not start at a multiple of 1024 bytes", where);
  }
  return {start, static_cast<Address>(descriptor >> 32 & 0x3FFF) << 4};
}

Address line_of_row(const Operand& operand, int row) {
  return operand.start + static_cast<Address>(row / 8) * operand.eight_rows +
         static_cast<Address>(row % 8 * 128);
}

std::string check_rows(const Cta& cta, const Operand& operand, int count) {
  for (int r = 0; r < count; ++r) {
    for (Address unit = 0; unit < depth; unit += 16) {
      const Address at = swizzle(line_of_row(operand, r) + unit, 128);
      if (std::string problem = forbids_read(cta, at, 16, true); !problem.empty()) return problem;
    }
  }
  return {};
}

// The instruction reads 32 bytes of each row; whole rows are held, since nothing else lies in them.
void hold_rows(Cta& cta, const Operand& operand, int count, int id, const std::string& what) {
  begin_read(cta, operand.start & ~Address{127},
             (line_of_row(operand, count - 1) & ~Address{127}) + 128, id, what);
}

void decode_rows(Cta& cta, const Operand& operand, int count, int format, std::vector<float>& out) {
  const auto& values = values_of(format);
  out.resize(static_cast<std::size_t>(count) * depth);
  for (int r = 0; r < count; ++r) {
    for (Address k = 0; k < depth; ++k) {
      const Address at = swizzle((line_of_row(operand, r) + k) & ~Address{15}, 128) + k % 16;
      out[static_cast<std::size_t>(r) * depth + k] = values[*shared_bytes(cta, at)];
    }
  }
}

// Bits that are kept below the largest term of a sum, as in the FP8 tensor core (about 13); 0: all.
int kept_bits() { return std::atoi(setting("SM90_MODEL_FP8_BITS", "0").c_str()); }

// The sum of a dot product's terms and of what is accumulated. With limited bits, every term is cut
// off at the same place below the largest; exact otherwise.
double sum_of(const std::array<double, depth + 1>& terms, int bits) {
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
  const int bits = kept_bits();
  std::vector<float> a, b;
  decode_rows(cta, operand_of(m.a, m.where), rows, m.a_format, a);
  decode_rows(cta, operand_of(m.b, m.where), m.columns, m.b_format, b);
  for (Thread* t : group.threads) {
    const int row = t->index % 128 / 32 * 16 + t->lane / 4, column = t->lane % 4 * 2;
    auto& sums = t->slots[m.slot].values;
    for (int i = 0; i < m.columns / 2; ++i) {
      const float* x = &a[static_cast<std::size_t>(row + i / 2 % 2 * 8) * depth];
      const float* y = &b[static_cast<std::size_t>(i / 4 * 8 + column + i % 2) * depth];
      std::array<double, depth + 1> terms;
      for (int k = 0; k < depth; ++k)
        terms[static_cast<std::size_t>(k)] = double{x[k]} * double{y[k]};
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
      m.accumulate != mine.accumulate || m.group != mine.group) {
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
  Slot& accumulator = t.slots[slot];
  if (accumulator.group >= 0 && accumulator.group != t.commits) {
    machine.fail("WGMMA into an accumulator that an earlier group still writes", where);
  }
  accumulator.group = t.commits;
  const Multiply mine{columns,      static_cast<int>(a), static_cast<int>(b),
                      slot,         accumulate ? 1 : 0,  a_descriptor,
                      b_descriptor, t.commits,           where};
  Multiply& m = join(group, t.wgmmas++, mine);
  if (m.threads == 1) {
    m.id = machine.next_id();
    const std::string what = "the WGMMA of " + line_of(where);
    for (const auto& [operand, count] :
         {std::pair(operand_of(m.a, where), rows), std::pair(operand_of(m.b, where), columns)}) {
      if (const std::string problem = check_rows(*t.cta, operand, count); !problem.empty()) {
        machine.fail("WGMMA: " + problem, where);
      }
      hold_rows(*t.cta, operand, count, m.id, what);
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
