// The size limit of the disk cache: who was used last, and who has to go. The time of an entry's
// last change is that of its last use. Other processes may do the same at the same time, and clocks
// may jump: at worst an entry goes early and is compiled again.
#pragma once

#include <cstdint>
#include <string>

namespace deepgemm::jit {

// DEEPGEMM_CACHE_MAX_BYTES; 0: none. A value that is no size counts as not set, with one warning.
std::uint64_t cache_limit();

// An entry was read. Marked once per process and entry, and not where another process just did.
void mark_used(const std::string& directory, const std::string& file);

// `file`, of `bytes`, was written. If the directory may be over the limit, the entries used least
// recently are removed, those that this process used last of all and `file` never; and what writers
// that were killed left behind.
void make_room(const std::string& directory, const std::string& file, std::uint64_t bytes);

}  // namespace deepgemm::jit
