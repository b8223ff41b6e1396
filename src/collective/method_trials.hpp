// What method automatic learns of a file in one direction: its rule goes by the size of extents,
// and is a guess where that is neither small nor large. There the other method is tried, too, and
// the faster one stays.
//
// T1  All of this follows from numbers that the ranks agreed on, so all ranks choose the same.
// T2  A rank sends the time of a measured transfer with its next meeting. The slowest rank's time
//     counts.
// T3  The first try that is slower than the rule's method is the last one. The first transfer by a
//     method opens files and makes plans, so it may take three times as long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferry/collective.hpp"

namespace ferry::collective {

// Of a transfer, over all ranks. Transfers of one class are expected to behave alike.
struct TransferShape {
  double bytes = 0;
  double mean_extent_bytes = 0;
};

class MethodTrials {
 public:
  // The method for the next transfer, if the rule chooses `by_rule` for it. With `measured`, its
  // time will be told.
  Method next(const TransferShape& shape, Method by_rule, bool measured);
  // How long the last measured transfer took on the slowest rank; 0 if nobody knows.
  void tell(std::int64_t took_ns);
  // The time of what next() chose against the rule's, where it did not follow that.
  double ratio() const { return ratio_; }

 private:
  enum class Verdict : std::uint8_t { open, rule, other };
  struct Tried {
    int transfers = 0;
    double best_ns = 0;  // per byte, without the first transfer, which opens files and makes plans
  };
  struct Class {
    int bytes_log2 = 0;
    int extent_log2 = 0;
    Method by_rule = Method::automatic;
    std::array<Tried, 2> tried;  // the rule's method, the other one
    int slow = 0;  // transfers in sequence by the other one that the rule's would beat
    Verdict verdict = Verdict::open;
  };
  struct Pending {
    std::size_t place = 0;
    bool is_other = false;
    double bytes = 0;
  };

  Class* find(const TransferShape& shape, Method by_rule);

  static constexpr std::size_t classes_max = 16;
  std::array<Class, classes_max> classes_;
  std::size_t count_ = 0;
  std::optional<Pending> pending_;
  double ratio_ = 0;
};

}  // namespace ferry::collective
