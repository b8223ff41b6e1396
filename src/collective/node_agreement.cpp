#include "collective/node_agreement.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>

#include <unistd.h>

#include "base/futex.hpp"
#include "collective/node_segment.hpp"
#include "collective/team.hpp"

namespace ferry::collective {
namespace {

// How long a rank that has a CPU looks before it sleeps.
constexpr std::chrono::microseconds agreement_spin{200};

}  // namespace

NodeAgreement::NodeAgreement(const Team& team, std::size_t bytes)
    : team_(team), bytes_(bytes), ranks_(static_cast<std::size_t>(team.size())) {
  static_assert(sizeof(Header) == segment_token_offset);
}

NodeAgreement::~NodeAgreement() {
  unmap_segment(memory_, bytes_);
}

std::unique_ptr<NodeAgreement> NodeAgreement::make(const Team& team) {
  if (!team.is_one_node() || team.size() == 1) return nullptr;
  const std::size_t bytes = bytes_for(static_cast<std::size_t>(team.size()));
  int descriptor = -1;
  std::byte* memory = nullptr;
  SegmentTicket ticket;
  std::unique_ptr<NodeAgreement> made(new (std::nothrow) NodeAgreement(team, bytes));
  if (team.rank() == 0) memory = make_segment(bytes, true, descriptor);
  if (team.rank() == 0 && memory != nullptr) ticket = ticket_of(memory, descriptor);
  team.broadcast(&ticket, sizeof ticket);
  if (team.rank() != 0) memory = map_segment(ticket, bytes);
  const bool usable = made != nullptr && memory != nullptr && ticket.descriptor >= 0;
  const bool is_refused = team.maximum_sent(usable ? 0 : 1) != 0;
  if (descriptor >= 0) ::close(descriptor);  // all have mapped it
  if (is_refused) {
    unmap_segment(memory, bytes);
    return nullptr;
  }
  made->memory_ = memory;
  return made;
}

void NodeAgreement::publish(const void* values, std::size_t count) {
  ++round_;
  Header& shared = header();
  std::memcpy(slot(static_cast<std::size_t>(team_.rank())).values.data(), values,
              count * sizeof(std::uint64_t));
  const std::atomic_ref arrived(shared.arrived);
  // acq_rel: the last one sees the numbers of all before it.
  const std::atomic_ref round(shared.round);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < ranks_) {
    if (looks_for(round)) return;
    const std::atomic_ref sleepers(shared.sleepers);
    // seq_cst, like `round`: either the last one sees the sleeper or the sleeper sees the round.
    sleepers.fetch_add(1);
    team_.wait_for(shared.round, round_, std::chrono::microseconds(0));
    sleepers.fetch_sub(1);
    return;
  }
  arrived.store(0, std::memory_order_relaxed);  // before `round`: nobody arrives again until then
  round.store(round_);
  if (std::atomic_ref(shared.sleepers).load() > 0) futex_wake_all_shared(&shared.round);
}

// Whether the others arrive while this rank looks, if it has a CPU to do so.
bool NodeAgreement::looks_for(const std::atomic_ref<std::uint32_t>& round) const {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  do {
    for (int looks = 0; looks < 100; ++looks)
      if (round.load() == round_) return true;
  } while (team_.has_cpu() && Clock::now() - begin < agreement_spin);
  return false;
}

void NodeAgreement::read(std::size_t rank, void* values, std::size_t count) const {
  std::memcpy(values, slot(rank).values.data(), count * sizeof(std::uint64_t));
}

}  // namespace ferry::collective
