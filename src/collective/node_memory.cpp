#include "collective/node_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <span>

#include <unistd.h>

#include "base/futex.hpp"

namespace ferry::collective {
namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

}  // namespace

NodeMemory::NodeMemory(const Team& team, const std::vector<int>& writers, std::int64_t window_bytes,
                       bool relays)
    : team_(team),
      writers_(writers),
      window_bytes_(static_cast<std::size_t>(window_bytes)),
      segment_bytes_(rounded_up(board_bytes + slots * window_bytes_)),
      owners_(writers.size(), -1),
      segments_(writers.size()) {
  choose_owners(relays);
  const auto& nodes = team.node_of();
  const bool shares =
      std::count(nodes.begin(), nodes.end(), nodes[static_cast<std::size_t>(team.rank())]) > 1;
  std::vector<SegmentTicket> own(writers.size());
  std::vector<int> descriptors;
  int error = 0;
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (owners_[i] != team.rank()) continue;
    descriptors.push_back(-1);
    segments_[i] = {make_segment(segment_bytes_, shares, descriptors.back()),
                    Unmap{segment_bytes_}};
    own[i] = ticket_of(segments_[i].get(), descriptors.back());
    if (segments_[i] == nullptr) error = ENOMEM;
  }
  std::vector<SegmentTicket> tickets(writers.size() * static_cast<std::size_t>(team.size()));
  team.gather(own.data(), static_cast<int>(own.size() * sizeof(SegmentTicket)), tickets.data());
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (owners_[i] < 0 || owners_[i] == team.rank()) continue;
    const SegmentTicket& ticket =
        tickets[static_cast<std::size_t>(owners_[i]) * writers.size() + i];
    segments_[i] = {map_segment(ticket, segment_bytes_), Unmap{segment_bytes_}};
  }
  // The descriptors must stay open until all have mapped them.
  std::int64_t fault = team.fault(error);
  team.maximum(std::span(&fault, 1));
  for (const int descriptor : descriptors)
    if (descriptor >= 0) ::close(descriptor);
  team.throw_if(fault, "making the windows of a collective transfer");
}

// Relays take turns on a node, so that its ranks share the work.
void NodeMemory::choose_owners(bool relays) {
  std::map<int, std::vector<int>> ranks_of;
  for (int rank = 0; rank < team_.size(); ++rank)
    ranks_of[team_.node_of()[index(rank)]].push_back(rank);
  const int own_node = team_.node_of()[index(team_.rank())];
  for (const auto& [node, ranks] : ranks_of) {
    const auto is_here = [&, here = node](int writer) {
      return team_.node_of()[index(writer)] == here;
    };
    const auto away = static_cast<std::int64_t>(writers_.size()) -
                      std::count_if(writers_.begin(), writers_.end(), is_here);
    const bool has_relays = relays && ranks.size() > 1 && away > 0 &&
                            away * static_cast<std::int64_t>(segment_bytes_) <= relay_bytes_max;
    relays_ = relays_ || has_relays;
    if (node != own_node) continue;
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      if (is_here(writers_[i])) {
        owners_[i] = writers_[i];
      } else if (has_relays) {
        owners_[i] = ranks[i % ranks.size()];
      }
    }
  }
}

void NodeMemory::open(int writer, int round, int sharers) {
  if (sharers == 0) return;
  Board& its = board(writer, round);
  std::atomic_ref(its.sharers).store(static_cast<std::uint32_t>(sharers));
  std::atomic_ref(its.turn).store(turn(round));
  futex_wake_all_shared(&its.turn);
}

void NodeMemory::await_all(int writer, int round, std::chrono::microseconds spin) const {
  team_.wait_for(board(writer, round).sharers, 0, spin);
}

void NodeMemory::await_turn(int writer, int round, std::chrono::microseconds spin) const {
  team_.wait_for(board(writer, round).turn, turn(round), spin);
}

void NodeMemory::leave(int writer, int round) {
  std::uint32_t& sharers = board(writer, round).sharers;
  if (std::atomic_ref(sharers).fetch_sub(1) == 1) futex_wake_all_shared(&sharers);
}

}  // namespace ferry::collective
