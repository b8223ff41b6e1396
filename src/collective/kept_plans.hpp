// The plans of a file's latest exchanges in one direction, for calls that repeat one of them
// further on in the file: the next records, chunks or time steps. If all ranks do so by the same
// distance, each knows what the others will send without being told. Programs repeat several in
// turn, one for each variable.
//
// K1  A new plan's slot depends on the number of exchanges alone. So a slot is of the same exchange
//     on all ranks; a rank that has no room for its plan leaves the slot empty.
// K2  A plan is used again if all ranks with data name the same slot and distance. A rank without
//     data agrees to any if it had none in any plan, and has an empty slot nowhere.
// K3  Plans know nothing of views: a view may be set again and again, as libraries do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "collective/context.hpp"
#include "collective/method_trials.hpp"
#include "collective/plan.hpp"

namespace ferry::collective {

// Which plan a call repeats, and how far behind in the file.
struct Repetition {
  std::int64_t slot = 0;
  std::int64_t distance_bytes = 0;
};

class KeptPlans {
 public:
  // What this rank asks for, as two numbers of which the ranks take the maxima.
  std::array<std::int64_t, 2> wish_of(const RankRequest& request) const;
  // Given the maxima, of a transfer of [begin, end) of the file: the same on all ranks. Distances
  // have to be multiples of `unit_bytes`.
  std::optional<Repetition> agreed(std::array<std::int64_t, 2> maxima, std::int64_t begin,
                                   std::int64_t end, std::int64_t unit_bytes) const;
  // The plan for it.
  ExchangePlan& again(const Repetition& repetition, const RankRequest& request);
  // The shape of the exchange that it repeats.
  const TransferShape& shape_of(const Repetition& repetition) const {
    return kept_[static_cast<std::size_t>(repetition.slot)]->shape;
  }
  // Of the exchange that has just been made.
  void keep(const RankRequest& request, std::int64_t begin, std::int64_t end,
            const TransferShape& shape, std::unique_ptr<ExchangePlan> plan) noexcept;

 private:
  struct Kept {
    TypeMap view;
    std::int64_t swapped_bytes = 1;
    // Of this rank.
    std::int64_t stream = 0;
    std::int64_t bytes = 0;
    std::int64_t position = 0;
    // Of all.
    std::int64_t begin = 0;
    std::int64_t end = 0;
    TransferShape shape;
    std::unique_ptr<ExchangePlan> plan;

    bool is_like(const RankRequest& request) const;
  };

  static constexpr std::size_t slots = 8;
  std::array<std::optional<Kept>, slots> kept_;
  std::size_t exchanges_ = 0;
  std::size_t next_ = 0;  // the slot behind the last one that was used, the same on all ranks
};

}  // namespace ferry::collective
