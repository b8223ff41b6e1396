#include "collective/kept_plans.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace ferry::collective {
namespace {

// In a plan with more parts the headers are not what takes the time.
constexpr std::size_t parts_max = 1024;
constexpr std::size_t extents_max = 8192;
// The wish of a rank that goes with any, and of one that goes with none.
constexpr std::array<std::int64_t, 2> any{std::numeric_limits<std::int64_t>::min(),
                                          std::numeric_limits<std::int64_t>::min()};
constexpr std::array<std::int64_t, 2> none{std::numeric_limits<std::int64_t>::max(),
                                           std::numeric_limits<std::int64_t>::max()};

// Whether one is the other, moved in the file.
bool have_same_shape(const TypeMap& one, const TypeMap& other) {
  const auto a = one.extents();
  const auto b = other.extents();
  if (a.size() != b.size() || one.period_bytes() != other.period_bytes()) return false;
  return std::equal(a.begin(), a.end(), b.begin(), [&](const Extent& x, const Extent& y) {
    return x.bytes == y.bytes && x.offset - a[0].offset == y.offset - b[0].offset;
  });
}

}  // namespace

bool KeptPlans::Kept::is_like(const RankRequest& request) const {
  const FileView& now = request.view;
  return bytes == request.bytes && swapped_bytes == now.swapped_bytes &&
         (request.stream - stream) % now.map.data_bytes() == 0 && have_same_shape(view, now.map);
}

std::array<std::int64_t, 2> KeptPlans::wish_of(const RankRequest& request) const {
  constexpr std::int64_t distance_max = std::numeric_limits<std::int64_t>::max() / (4 * slots);
  const std::size_t used = std::min(exchanges_, slots);
  if (request.bytes == 0) {
    const bool never_had_data =
        std::all_of(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(used),
                    [](const auto& one) { return one && one->bytes == 0; });
    return used > 0 && never_had_data ? any : none;
  }
  // Ranks that can choose take what is next if all are repeated in turn.
  for (std::size_t i = 0; i < slots; ++i) {
    const std::size_t slot = (next_ + i) % slots;
    if (!kept_[slot] || !kept_[slot]->is_like(request)) continue;
    const std::int64_t distance = request.begin() - kept_[slot]->position;
    if (std::abs(distance) > distance_max) continue;
    const std::int64_t wish =
        distance * static_cast<std::int64_t>(slots) + static_cast<std::int64_t>(slot);
    return {wish, -wish};
  }
  return none;
}

std::optional<Repetition> KeptPlans::agreed(std::array<std::int64_t, 2> maxima, std::int64_t begin,
                                            std::int64_t end, std::int64_t unit_bytes) const {
  const std::int64_t wish = maxima[0];
  if (maxima == any || maxima == none || maxima[1] != -wish) return std::nullopt;
  constexpr auto count = static_cast<std::int64_t>(slots);
  const std::int64_t slot = ((wish % count) + count) % count;
  const std::int64_t distance = (wish - slot) / count;
  const auto& kept = kept_[static_cast<std::size_t>(slot)];
  const bool fits = kept && begin == kept->begin + distance && end == kept->end + distance &&
                    distance % unit_bytes == 0;
  return fits ? std::optional(Repetition{slot, distance}) : std::nullopt;
}

ExchangePlan& KeptPlans::again(const Repetition& repetition, const RankRequest& request) {
  const auto slot = static_cast<std::size_t>(repetition.slot);
  next_ = slot + 1;
  Kept& kept = *kept_[slot];
  const std::int64_t distance = repetition.distance_bytes;
  kept.plan->shift(request.stream - kept.stream, distance);
  kept.stream = request.stream;
  kept.position += distance;
  kept.begin += distance;
  kept.end += distance;
  return *kept.plan;
}

void KeptPlans::keep(const RankRequest& request, std::int64_t begin, std::int64_t end,
                     const TransferShape& shape, std::unique_ptr<ExchangePlan> plan) noexcept {
  auto& slot = kept_[exchanges_++ % slots];
  next_ = exchanges_;
  slot.reset();
  if (plan->size() > parts_max || request.view.map.extents().size() > extents_max) return;
  try {
    slot.emplace(Kept{request.view.map, request.view.swapped_bytes, request.stream, request.bytes,
                      request.bytes > 0 ? request.begin() : 0, begin, end, shape, std::move(plan)});
  } catch (const std::bad_alloc&) {
    slot.reset();  // the other ranks wait for the end of the call
  }
}

}  // namespace ferry::collective
