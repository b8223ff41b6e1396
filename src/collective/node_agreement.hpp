// Agreements of the ranks of one node, through memory that they share: a few numbers of each rank
// become their maximum or sum, without messages.
//
// The ranks count their agreements, 1, 2, 3 and so on, and make the same ones.
//
// A1  A rank stores its numbers in its slot of this agreement's parity, then adds itself to
//     `arrived`. The last to arrive sets that to 0 and then `round` to the agreement's number, for
//     which the others wait. Both are acquire and release, so all see all numbers.
// A2  A rank stores into a slot again two agreements later. By then all ranks have arrived at the
//     agreement between, so they have read the slot.
// A3  `round` stays what a rank waits for until that rank arrives at the next agreement.
//
// verification/agreement.pml checks them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ferry::collective {

class Team;

class NodeAgreement {
 public:
  static constexpr std::size_t values_max = 12;

  // Collective. Null on all ranks where not all share one node, or one cannot map the memory or
  // lacks some. Throws nothing.
  static std::unique_ptr<NodeAgreement> make(const Team& team);
  ~NodeAgreement();
  NodeAgreement(const NodeAgreement&) = delete;
  NodeAgreement& operator=(const NodeAgreement&) = delete;

  // Collective. Replaces the values, values_max at most, by `combine(a, b)` over all ranks, in
  // their order.
  template <class Value, class Combine>
  void agree(std::span<Value> values, Combine&& combine) {
    static_assert(sizeof(Value) == sizeof(std::uint64_t));
    publish(values.data(), values.size());
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::array<Value, values_max> theirs;
      read(rank, theirs.data(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = rank == 0 ? theirs[i] : combine(values[i], theirs[i]);
    }
  }

 private:
  // In cache lines of their own.
  struct alignas(64) Header {
    std::uint32_t arrived = 0;
    std::array<std::uint32_t, 15> unused{};
    std::uint32_t round = 0;     // a futex
    std::uint32_t sleepers = 0;  // ranks that may sleep on it
    std::array<std::uint32_t, 14> unused_too{};
  };
  struct alignas(64) Slot {
    std::array<std::uint64_t, values_max> values{};
  };
  static constexpr std::size_t slots_offset = 192;  // behind the token

  NodeAgreement(const Team& team, std::size_t bytes);
  static std::size_t bytes_for(std::size_t ranks) {
    return slots_offset + 2 * ranks * sizeof(Slot);
  }
  Header& header() const { return *reinterpret_cast<Header*>(memory_); }
  Slot& slot(std::size_t rank) const {
    return reinterpret_cast<Slot*>(memory_ + slots_offset)[2 * rank + round_ % 2];
  }
  // Stores this rank's numbers and waits for all others'.
  void publish(const void* values, std::size_t count);
  bool looks_for(const std::atomic_ref<std::uint32_t>& round) const;
  void read(std::size_t rank, void* values, std::size_t count) const;

  const Team& team_;
  std::byte* memory_ = nullptr;
  const std::size_t bytes_;
  const std::size_t ranks_;
  std::uint32_t round_ = 0;
};

}  // namespace ferry::collective
