// What the machine itself takes while a load runs: plain system calls on the same file systems, and
// hand-overs between two threads. A call of Ferry is slow for a reason of its own only if these are
// not as slow.
#pragma once

#include <stop_token>
#include <thread>
#include <vector>

#include "harness/latency_histogram.hpp"
#include "load/calls.hpp"

namespace ferry::load {

class Bystander {
 public:
  // On the places that are local file systems.
  explicit Bystander(const std::vector<LoadPlace>& places);

  void start();
  void stop();  // and again
  // After stop().
  const Latencies& calls() const { return calls_; }
  const bench::LatencyHistogram& hand_overs() const { return hand_overs_; }

 private:
  void make_calls(std::size_t place);
  void hand_over(std::stop_token stop);

  const std::vector<LoadPlace>& places_;
  Latencies calls_;
  bench::LatencyHistogram hand_overs_;  // to another thread and back
  std::vector<std::jthread> threads_;
};

}  // namespace ferry::load
