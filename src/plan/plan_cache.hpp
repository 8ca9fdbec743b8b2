// The last calls of this thread, prepared, found by their signature without a lock.
#pragma once

#include "plan/prepared_call.hpp"

namespace deepgemm::plan {

// What a thread keeps at most. A call takes about 2.5 KiB, so that this is 2.5 MiB; one that is
// launched product by product takes up to 16 times that. A thread that never calls keeps nothing.
inline constexpr std::size_t most_prepared_calls = 1024;

// The thread's prepared call of this signature, or null. Valid until its next keep_call(). `hash`
// is the signature's; `plan`, if not 0, a number that belongs to it alone: what was found by that
// once is not compared again.
PreparedCall* find_call(const Signature& signature, std::uint64_t hash, std::uint64_t plan = 0);
// Remembers it, in the place of an older one if need be. The signature is one that was not found.
PreparedCall& keep_call(const Signature& signature, std::uint64_t hash, PreparedCall call);
// How many calls this thread keeps.
std::size_t kept_calls();

}  // namespace deepgemm::plan
