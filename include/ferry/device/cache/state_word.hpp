// The state word of a frame (State in layout.hpp explains its bits).
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

// Called for every change of a state word, for the test that compares changes with the allowed ones
// (tests/device/cache/transitions_test.cpp).
#ifndef FERRY_CACHE_TRANSITION
#define FERRY_CACHE_TRANSITION(before, after) static_cast<void>(0)
#endif

namespace ferry::device::cache {

// A frame's state word. All changes go through here.
class StateWord {
 public:
  using Order = decltype(relaxed);

  FERRY_DEVICE explicit StateWord(std::uint64_t& word) : word_(word) {}

  FERRY_DEVICE std::uint64_t load(Order order) const { return word_.load(order); }
  FERRY_DEVICE std::uint64_t fetch_add(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_add(bits, order);
    FERRY_CACHE_TRANSITION(before, before + bits);
    return before;
  }
  FERRY_DEVICE std::uint64_t fetch_sub(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_sub(bits, order);
    FERRY_CACHE_TRANSITION(before, before - bits);
    return before;
  }
  FERRY_DEVICE std::uint64_t fetch_or(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_or(bits, order);
    FERRY_CACHE_TRANSITION(before, before | bits);
    return before;
  }
  FERRY_DEVICE std::uint64_t fetch_and(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_and(bits, order);
    FERRY_CACHE_TRANSITION(before, before & bits);
    return before;
  }
  FERRY_DEVICE bool compare_exchange_weak(std::uint64_t& before, std::uint64_t after, Order order,
                                          Order failed) const {
    if (!word_.compare_exchange_weak(before, after, order, failed)) return false;
    FERRY_CACHE_TRANSITION(before, after);
    return true;
  }
  FERRY_DEVICE bool compare_exchange_strong(std::uint64_t& before, std::uint64_t after, Order order,
                                            Order failed) const {
    if (!word_.compare_exchange_strong(before, after, order, failed)) return false;
    FERRY_CACHE_TRANSITION(before, after);
    return true;
  }

 private:
  DeviceRef<std::uint64_t> word_;
};

}  // namespace ferry::device::cache
