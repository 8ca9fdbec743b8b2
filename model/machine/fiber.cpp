// Why not ucontext alone: swapcontext makes two system calls, and a launch switches a million
// times.
#include "machine/fiber.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <vector>

#if !defined(__x86_64__)
#error "the model switches stacks by hand on x86-64 only; add the registers of your machine here"
#endif

// Pushes what the ABI lets a callee keep, exchanges stack pointers, pops.
asm(R"(
.text
.globl sm90_switch
.type sm90_switch, @function
sm90_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.globl sm90_begin
.type sm90_begin, @function
sm90_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
)");
extern "C" void sm90_switch(void** save, void* load);
extern "C" void sm90_begin();

namespace sm90 {
namespace {

constexpr std::size_t stack_bytes = 256 << 10;
constexpr std::uint64_t mark = 0x5354414B454E4421;

// Stacks outlive launches: mapping one costs more than running a small kernel on it.
std::vector<void*>& spare_stacks() {
  static std::vector<void*>& stacks = *new std::vector<void*>;
  return stacks;
}

// Many at a time: a process may have 65530 mappings, so there is none to spare for guard pages. The
// lowest word of a stack holds a mark instead.
void* take_stack() {
  constexpr std::size_t slab = 256;
  auto& spare = spare_stacks();
  if (spare.empty()) {
    void* stacks = mmap(nullptr, slab * stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) std::abort();
    for (std::size_t i = 0; i < slab; ++i) {
      spare.push_back(static_cast<char*>(stacks) + i * stack_bytes);
    }
  }
  void* stack = spare.back();
  spare.pop_back();
  *static_cast<std::uint64_t*>(stack) = mark;
  return stack;
}

}  // namespace

Fiber::~Fiber() {
  if (stack_ != nullptr) spare_stacks().push_back(stack_);
}

void Fiber::start(Body body, void* argument) {
  if (stack_ == nullptr) stack_ = take_stack();
  auto top = reinterpret_cast<std::uintptr_t>(stack_) + stack_bytes;
  auto* frame =
      reinterpret_cast<void**>(top - 72);  // so that the body is entered with the ABI's alignment
  // What sm90_switch pops: r15 r14 r13 r12 rbx rbp, then the return address.
  frame[0] = frame[1] = nullptr;
  frame[2] = reinterpret_cast<void*>(body);
  frame[3] = argument;
  frame[4] = frame[5] = nullptr;
  frame[6] = reinterpret_cast<void*>(&sm90_begin);
  inside_ = frame;
}

void Fiber::resume() { sm90_switch(&outside_, inside_); }
bool Fiber::overflowed() const { return *static_cast<const std::uint64_t*>(stack_) != mark; }
void Fiber::suspend() { sm90_switch(&inside_, outside_); }

}  // namespace sm90
