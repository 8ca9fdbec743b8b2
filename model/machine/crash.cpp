#include "machine/crash.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "machine/machine.hpp"

namespace sm90 {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
struct sigaction before[3];
stack_t stack_before;

// On a stack of its own: the thread's may be what is broken.
void report(int signal) {
  const std::string text = "SM90 model: " + Machine::name_of_running() + " crashed: " +
                           (signal == SIGFPE ? "integer division by zero" : "bad address") + "\n";
  const ssize_t written = write(2, text.data(), text.size());
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

CrashReports::CrashReports() {
  static void* const memory = std::malloc(64 << 10);
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = 64 << 10;
  sigaltstack(&stack, &stack_before);
  struct sigaction action{};
  action.sa_handler = report;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 3; ++i) sigaction(signals[i], &action, &before[i]);
}

CrashReports::~CrashReports() {
  for (int i = 0; i < 3; ++i) sigaction(signals[i], &before[i], nullptr);
  sigaltstack(&stack_before, nullptr);
}

}  // namespace sm90
