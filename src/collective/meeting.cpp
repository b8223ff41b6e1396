// The beginning of a collective call: one agreement of all ranks on whether they make the same call
// and whether one has an error.
#include <algorithm>
#include <array>
#include <cerrno>

#include "collective/impl.hpp"

namespace ferry::collective {

const char* name_of(Call call) {
  constexpr std::array names{"open",   "set_view",   "read_all",   "write_all", "sync",
                             "resize", "size_bytes", "statistics", "close"};
  return names.at(static_cast<std::size_t>(call));
}

void File::Impl::require_in_step() const {
  if (!mismatch_.empty()) throw Mismatch(mismatch_);
}

// The ranks cannot agree on anything later, so nothing that needs them is done any more.
void File::Impl::fall_out_of_step(const std::string& calls) {
  mismatch_ = calls;
  mpiio_.abandon();
  throw Mismatch(mismatch_);
}

File::Impl::Values File::Impl::begin(Call call, const char* what, Values values, int error,
                                     const std::string& why) {
  require_in_step();
  Team::MeetingValues all{team_->fault(error)};
  std::copy(values.begin(), values.end(), all.begin() + 1);
  const bool in_step = team_->meet(call, ++calls_, all);
  Orders::end_of_beginning();
  has_begun_ = true;
  if (!in_step) {
    fall_out_of_step(doing("calls on") + " do not match (" + team_->calls_of_ranks(call) + ")");
  }
  std::copy(all.begin() + 1, all.end(), values.begin());
  if (all[0] == 0) return values;
  const int failed = team_->rank_of(all[0]);
  std::string text = team_->rank_name(failed);
  if (const std::string said = team_->text_of(failed, why); !said.empty()) text += ": " + said;
  throw Error(Team::error_of(all[0]), doing(what) + " (" + text + ")");
}

void File::Impl::agree_of_all(Call call, int error, bool in_step, const std::string& text) {
  Team::MeetingValues all{all_.fault(error), in_step ? 0 : all_.fault(EPROTO)};
  if (!all_.meet(call, calls_, all)) {
    fall_out_of_step(doing("calls on") + " do not match (" + all_.calls_of_ranks(call) + ")");
  }
  const std::int64_t fault = all[1] != 0 ? all[1] : all[0];
  if (fault == 0) return;
  const std::string said = all_.text_of(all_.rank_of(fault), text);
  if (all[1] != 0) fall_out_of_step(said);
  throw Error(Team::error_of(fault), said);
}

void File::Impl::refuse(Call call, const std::string& why, int error) {
  meet(call, [&] { begin(call, name_of(call), {}, error, why); });
}

std::shared_ptr<Order> File::Impl::irefuse(Call call, const std::string& why, int error) {
  auto order = start(call, [&] {
    return [this, call, why, error]() -> std::int64_t {
      on_all(call, [&] { begin(call, name_of(call), {}, error, why); });
      return 0;
    };
  });
  order->told = true;  // by the caller
  return order;
}

}  // namespace ferry::collective
