// NVTX ranges, which profilers (Nsight Systems, Nsight Compute) show beside the launches.
#pragma once

#include <string>

namespace deepgemm::driver {

void push_range(const char* name) noexcept;
void pop_range() noexcept;

// Marks its scope in the domain "deepgemm"; an empty name marks nothing.
class Range {
 public:
  explicit Range(const std::string& name) noexcept : marked_(!name.empty()) {
    if (marked_) push_range(name.c_str());
  }
  ~Range() {
    if (marked_) pop_range();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool marked_;
};

}  // namespace deepgemm::driver
