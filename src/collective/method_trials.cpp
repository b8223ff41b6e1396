#include "collective/method_trials.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ferry::collective {
namespace {

// Of each method, the first one of them not measured.
constexpr int transfers_of_a_trial = 3;
// The other method has to be this much better, so that noise alone decides nothing.
constexpr double clearly_faster = 0.8;
constexpr double hopeless_at_first = 3;
// As many slow transfers in sequence end what was learned.
constexpr int slow_max = 3;

Method other_than(Method method) {
  return method == Method::independent ? Method::aggregate : Method::independent;
}

}  // namespace

MethodTrials::Class* MethodTrials::find(const TransferShape& shape, Method by_rule) {
  const int bytes_log2 = std::ilogb(std::max(1.0, shape.bytes));
  const int extent_log2 = std::ilogb(std::max(1.0, shape.mean_extent_bytes));
  for (std::size_t i = 0; i < count_; ++i) {
    Class& one = classes_[i];
    if (one.bytes_log2 == bytes_log2 && one.extent_log2 == extent_log2 && one.by_rule == by_rule)
      return &one;
  }
  if (count_ == classes_max) return nullptr;
  Class& made = classes_[count_++];
  made.bytes_log2 = bytes_log2;
  made.extent_log2 = extent_log2;
  made.by_rule = by_rule;
  return &made;
}

Method MethodTrials::next(const TransferShape& shape, Method by_rule, bool measured) {
  pending_.reset();
  Class* const one = find(shape, by_rule);
  if (one == nullptr) return by_rule;
  const bool learned = one->verdict == Verdict::other;
  const bool tries =
      one->verdict == Verdict::open && measured && one->tried[0].transfers >= transfers_of_a_trial;
  const bool is_other = learned || tries;
  if (measured) {
    const auto place = static_cast<std::size_t>(one - classes_.data());
    pending_ = Pending{place, is_other, std::max(1.0, shape.bytes)};
  }
  ratio_ = learned ? one->tried[1].best_ns / one->tried[0].best_ns : 0;
  return is_other ? other_than(by_rule) : by_rule;
}

void MethodTrials::tell(std::int64_t took_ns) {
  const auto pending = std::exchange(pending_, std::nullopt);
  if (!pending || took_ns <= 0) return;
  Class& one = classes_[pending->place];
  Tried& tried = one.tried[pending->is_other ? 1 : 0];
  const double ns = static_cast<double>(took_ns) / pending->bytes;
  if (one.verdict == Verdict::rule) return;
  if (one.verdict == Verdict::other) {
    one.slow = ns > one.tried[0].best_ns ? one.slow + 1 : 0;
    if (one.slow == slow_max) one.verdict = Verdict::rule;
    return;
  }
  ++tried.transfers;
  if (tried.transfers > 1) tried.best_ns = tried.transfers == 2 ? ns : std::min(tried.best_ns, ns);
  if (!pending->is_other) return;
  const double slower = tried.transfers == 1 ? hopeless_at_first : 1;
  if (ns > slower * one.tried[0].best_ns) {
    one.verdict = Verdict::rule;
  } else if (tried.transfers >= transfers_of_a_trial) {
    const bool faster = tried.best_ns < clearly_faster * one.tried[0].best_ns;
    one.verdict = faster ? Verdict::other : Verdict::rule;
  }
}

}  // namespace ferry::collective
