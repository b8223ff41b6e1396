#include "collective/fiber.hpp"

#include <new>

#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

// Of the C++ ABI (Itanium, level 2.1.3); not every <cxxabi.h> declares it.
extern "C" void* ferry_exceptions_of_thread() __asm__("__cxa_get_globals");

namespace ferry::collective {
namespace {

// As large as a thread's by default: client libraries of storages run on it. The kernel gives it
// pages as they are used.
constexpr std::size_t stack_bytes = 8 << 20;

thread_local Fiber* current_fiber = nullptr;

// Functions of their own, which are not inlined: a fiber may go on on another thread, and a
// compiler that sees the variable on both sides of a switch may keep its address.
[[gnu::noinline]] Fiber* fiber_here() {
  return current_fiber;
}
[[gnu::noinline]] void set_fiber_here(Fiber* fiber) {
  current_fiber = fiber;
}

// What the sanitizer must know of a switch: before it and behind it.
void before_switch([[maybe_unused]] void** fake, [[maybe_unused]] const void* bottom,
                   [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
#endif
}
void behind_switch([[maybe_unused]] void* fake, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] std::size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, bottom, bytes);
#endif
}

// The C++ ABI defines what this has, and that each thread has one.
template <class Exceptions>
[[gnu::noinline]] void exchange_exceptions(Exceptions& other) {
  auto& own = *static_cast<Exceptions*>(ferry_exceptions_of_thread());
  const Exceptions before = own;
  own = other;
  other = before;
}

}  // namespace

std::unique_ptr<Fiber> Fiber::make() {
  std::unique_ptr<Fiber> made(new (std::nothrow) Fiber);
  if (made == nullptr) return nullptr;
  const auto guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = stack_bytes + guard;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  made->memory_ = memory;
  made->bytes_ = bytes;
  // It grows downwards; what runs over its end must not write into other memory.
  if (mprotect(memory, guard, PROT_NONE) != 0) return nullptr;
  return made;
}

Fiber::~Fiber() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

bool Fiber::is_here() {
  return fiber_here() != nullptr;
}

void Fiber::enter() {
  behind_switch(fake_stack_, &caller_stack_, &caller_bytes_);
}

void Fiber::leave(bool for_good) {
  before_switch(for_good ? nullptr : &fake_stack_, caller_stack_, caller_bytes_);
  swapcontext(&own_, &caller_);
}

void Fiber::run() {
  Fiber& fiber = *fiber_here();
  fiber.enter();
  fiber.work_(fiber.argument_);
  fiber.work_ = nullptr;
  fiber.leave(true);
}

bool Fiber::resume(bool may_block) {
  may_block_ = may_block;
  if (!has_begun_) {
    getcontext(&own_);
    own_.uc_stack.ss_sp = memory_;
    own_.uc_stack.ss_size = bytes_;
    own_.uc_link = nullptr;
    makecontext(&own_, &Fiber::run, 0);
    has_begun_ = true;
    fake_stack_ = nullptr;
  }
  set_fiber_here(this);
  exchange_exceptions(exceptions_);
  void* fake = nullptr;
  before_switch(&fake, memory_, bytes_);
  swapcontext(&caller_, &own_);
  behind_switch(fake, nullptr, nullptr);
  exchange_exceptions(exceptions_);
  set_fiber_here(nullptr);
  if (work_ == nullptr) has_begun_ = false;
  return work_ == nullptr;
}

void Fiber::begin_undivided() {
  if (Fiber* const fiber = fiber_here()) ++fiber->undivided_;
}

void Fiber::end_undivided() {
  if (Fiber* const fiber = fiber_here()) --fiber->undivided_;
}

bool Fiber::suspend(bool tired) {
  Fiber& fiber = *fiber_here();
  if (fiber.may_block_ || fiber.undivided_ > 0) return false;
  fiber.is_tired_ = tired;
  fiber.leave(false);
  fiber.enter();
  return true;
}

}  // namespace ferry::collective
