// What a file may hold after calls of which one failed: for each byte which writes it may come
// from, for its size which values. Derived from the calls and their results alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crash/crash_promises.hpp"

namespace ferry::test {

// A call that failed leaves old or new bytes. What calls see and what the storage holds differ by
// what is not written back.
class PossibleFile {
 public:
  static constexpr std::size_t bytes_max = 16 << 10;

  explicit PossibleFile(const ByteSources& sources) : sources_(sources) {}

  // The first `done` of `wanted` bytes were written; the others may be.
  void write(unsigned source, std::uint64_t offset, std::uint64_t done, std::uint64_t wanted) {
    const Mask from = Mask{1} << source;
    const std::uint64_t end = offset + done;
    if (done > 0) {
      grow(end, true);
      for (std::uint64_t at = offset; at < end; ++at) {
        seen_.bytes[at] = from;
        stored_.bytes[at] |= from;
      }
    }
    if (done < wanted) grow(offset + wanted, false);
    for (std::uint64_t at = end; at < offset + wanted; ++at) {
      seen_.bytes[at] |= from;
      stored_.bytes[at] |= from;
    }
  }
  void truncate(std::uint64_t to, bool done) {
    if (to > seen_.first_size) grow(to, done);
    for (std::uint64_t at = to; at < bytes_max; ++at) {
      seen_.bytes[at] = done ? ByteSources::hole : seen_.bytes[at] | ByteSources::hole;
      stored_.bytes[at] |= ByteSources::hole;
    }
    seen_.first_size = std::min(seen_.first_size, to);
    if (done) seen_.first_size = seen_.last_size = to;
    stored_.first_size = std::min(stored_.first_size, to);
    stored_.last_size = std::max(stored_.last_size, to);
  }
  // What calls see is in the storage.
  void secure() { stored_ = seen_; }
  // What was not secured may be lost.
  void lose() {
    for (std::size_t at = 0; at < bytes_max; ++at)
      seen_.bytes[at] |= stored_.bytes[at];
    seen_.first_size = std::min(seen_.first_size, stored_.first_size);
    seen_.last_size = std::max(seen_.last_size, stored_.last_size);
    secure();
  }
  void has_size(std::uint64_t bytes) { seen_.first_size = seen_.last_size = bytes; }

  bool knows_size() const { return seen_.first_size == seen_.last_size; }
  bool may_have_size(std::uint64_t bytes) const {
    return seen_.first_size <= bytes && bytes <= seen_.last_size;
  }
  std::uint64_t size() const { return seen_.last_size; }

  // Empty, or what is wrong with bytes that a read of `wanted` bytes returned.
  std::string look_at_read(std::uint64_t offset, std::string_view got, std::uint64_t wanted,
                           bool may_be_short) const {
    const auto left = [&](std::uint64_t size) {
      return size > offset ? std::min(wanted, size - offset) : 0;
    };
    if (got.size() > left(seen_.last_size) ||
        (!may_be_short && got.size() < left(seen_.first_size)))
      return "a read of " + std::to_string(got.size()) + " bytes";
    return look_at(seen_, offset, got);
  }
  // The same for what the storage holds.
  std::string look_at_stored(std::string_view got) const {
    if (got.size() < stored_.first_size || got.size() > stored_.last_size)
      return "the storage has " + std::to_string(got.size()) + " bytes";
    return look_at(stored_, 0, got);
  }

 private:
  using Mask = std::uint32_t;
  struct State {
    std::vector<Mask> bytes = std::vector<Mask>(bytes_max, ByteSources::hole);
    // The smallest and the largest size.
    std::uint64_t first_size = 0;
    std::uint64_t last_size = 0;
  };

  // To at least `end`, or perhaps.
  void grow(std::uint64_t end, bool certainly) {
    for (State* state : {&seen_, &stored_}) {
      for (std::uint64_t at = state->first_size; at < end; ++at)
        state->bytes[at] |= ByteSources::hole;
      state->last_size = std::max(state->last_size, end);
    }
    if (certainly) seen_.first_size = std::max(seen_.first_size, end);
  }
  std::string look_at(const State& state, std::uint64_t offset, std::string_view got) const {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(offset) + i;
      if (!is_legal(state.bytes[at], at, got[i]))
        return "byte " + std::to_string(at) + " is foreign, or older than it may be";
    }
    return "";
  }
  bool is_legal(Mask legal, std::size_t at, char byte) const {
    for (; legal != 0; legal &= legal - 1)
      if (sources_.byte(static_cast<unsigned>(std::countr_zero(legal)), at) == byte) return true;
    return false;
  }

  const ByteSources& sources_;
  State seen_;
  State stored_;
};

}  // namespace ferry::test
