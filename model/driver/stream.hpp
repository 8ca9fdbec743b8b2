// The model's one stream.
#pragma once

#include <cstddef>
#include <string>

#include "machine/machine.hpp"

namespace sm90 {

// Keeps the launch back. `overlaps`: its threads may start before the launch before it is complete.
// `parameter` is copied. False if a launch has failed: last_report() says how.
bool launch(const Launch& shape, void (*entry)(void*), const void* parameter, std::size_t bytes,
            bool overlaps);
// Runs everything that was kept back; false as above. A failure is told once.
bool synchronize();
// The same for callers that tell nobody (freeing memory): the failure stays for the next one.
void drain();
std::string last_report();

}  // namespace sm90
