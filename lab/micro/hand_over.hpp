// The minimal work of a call that another core executes: what placement `host` cannot do without.
#pragma once

#include <atomic>
#include <thread>

#include "base/cpus.hpp"
#include "micro/benchmark.hpp"

namespace ferry::benchmarks {

// Nanoseconds per call of `work`, executed on `server_cpus`; one word says which call, and that it
// is done.
template <class Work>
double handed_over(long calls, const CpuSet& server_cpus, Work work) {
  constexpr long leave = -2;
  constexpr long done = -1;
  alignas(64) std::atomic<long> word{done};
  std::thread server([&] {
    run_this_thread_on(server_cpus);
    for (long i = done; i != leave; i = word.load(std::memory_order_acquire)) {
      if (i == done) continue;
      work(i);
      word.store(done, std::memory_order_release);
    }
  });
  const auto call = [&](long i) {
    word.store(i, std::memory_order_release);
    while (word.load(std::memory_order_acquire) != done) {
    }
  };
  call(0);  // the thread is there
  const double each = nanoseconds_each(calls, call);
  word.store(leave, std::memory_order_release);
  server.join();
  return each;
}

}  // namespace ferry::benchmarks
