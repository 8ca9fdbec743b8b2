// Checked access to shared memory, for the instructions and for the asynchronous units.
#pragma once

#include "machine/machine.hpp"

namespace sm90 {

// The first byte of dynamic shared memory: not 0, so that a forgotten base address shows.
inline constexpr Address shared_base = 1024;

std::uint8_t* shared_bytes(Cta& cta, Address address);
// Empty if the bytes exist, else what is wrong.
std::string outside(const Cta& cta, Address address, int bytes);
// What forbids a read (by the generic or the async proxy) or a write now; empty if nothing.
// `allows_unwritten`: bytes that nobody wrote may be read; they are NaN.
std::string forbids_read(const Cta& cta, Address address, int bytes, bool async_proxy,
                         bool allows_unwritten = false);
std::string forbids_write(const Cta& cta, Address address, int bytes);
void mark_written(Cta& cta, Address address, int bytes, int unfenced_thread);
void begin_write(Cta& cta, Address begin, Address end, int operation, std::string what);
void begin_read(Cta& cta, Address begin, Address end, int operation, std::string what);
void end_access(Cta& cta, int operation);
// The CTA of that rank in the thread's cluster. The machine stops unless the thread may write or
// arrive there; `access` is the start of that report.
Cta& peer_of(const Thread& thread, int rank, const char* access, const Where& where);
// Bits 4.. of a swizzled address, by the span of the swizzle in bytes (16: none).
inline Address swizzle(Address address, Address span) {
  return address ^ ((address >> 3) & (span - 16));
}

}  // namespace sm90
