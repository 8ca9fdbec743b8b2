// A thread of execution with its own stack, switched to by hand.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sm90 {

class Fiber {
 public:
  using Body = void (*)(void* argument);

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Prepares body(argument), which must not return: it ends by switching away for good.
  void start(Body body, void* argument);
  // Runs the fiber until it switches back; to be called from outside of every fiber.
  void resume();
  // Whether it has used more stack than it has; the stack below it may be damaged then.
  bool overflowed() const;
  // Back to resume()'s caller; to be called from inside.
  void suspend();

 private:
  void* stack_ = nullptr;
  void* inside_ = nullptr;   // its stack pointer while it is suspended
  void* outside_ = nullptr;  // the caller's while it runs
};

}  // namespace sm90
