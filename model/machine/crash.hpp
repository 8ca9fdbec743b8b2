// What a kernel that crashes leaves behind: which of its threads it was.
#pragma once

namespace sm90 {

// While it lives, a segmentation fault or a division by zero names the running thread on stderr
// before the process ends as it would have anyway.
class CrashReports {
 public:
  CrashReports();
  ~CrashReports();
  CrashReports(const CrashReports&) = delete;
  CrashReports& operator=(const CrashReports&) = delete;
};

}  // namespace sm90
