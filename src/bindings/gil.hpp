// The GIL is given up while an operation runs.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace deepgemm::bindings {

// Why not nanobind's own: when the interpreter ends, a thread that asks for the GIL is made to exit
// (before Python 3.14), by an unwinding that no destructor or handler above may stop: the process
// aborted. Such a thread waits here until the process is gone, as it does from 3.14 on.
class GilReleased {
 public:
  GilReleased() noexcept : state_(PyEval_SaveThread()) {}
  ~GilReleased() noexcept(false) {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      while (true) ::pause();
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace deepgemm::bindings
