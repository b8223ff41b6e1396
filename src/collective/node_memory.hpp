// Windows shared by the ranks of a node: the owner of data copies it once, without a message.
//
// Each writer owns a segment with two windows, which the other ranks of its node map. On other
// nodes with several ranks, one of them, the writer's relay, owns such a segment in its place: it
// collects the node's data for the writer, which crosses the network once. In each round, the
// window's board orders its use:
//
//   1. the owner prepares the window and opens it to `sharers` ranks (open());
//   2. each waits for that (await_turn()), copies into or out of it, and leaves (leave());
//   3. the owner waits until all have left (await_all()).
//
// The words of a board are futexes. If a process is lost, MPI ends the job and all waits.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/node_segment.hpp"
#include "collective/team.hpp"

namespace ferry::collective {

class NodeMemory {
 public:
  static constexpr std::size_t slots = 2;

  // Collective: makes this rank's windows, and maps the others of its node; where that is refused,
  // messages replace them. Throws on all ranks (ENOMEM) if an owner lacks memory. `relays`: whether
  // there are any; nodes where they would need more than relay_bytes_max have none.
  NodeMemory(const Team& team, const std::vector<int>& writers, std::int64_t window_bytes,
             bool relays);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  static constexpr std::int64_t relay_bytes_max = 1 << 30;  // per node

  // Whether this rank can use its node's windows of a writer (an index).
  bool reaches(int writer) const { return segments_[index(writer)] != nullptr; }
  // The rank that owns those windows; the writer itself if none is reachable.
  int owner(int writer) const {
    return reaches(writer) ? owners_[index(writer)] : writers_[index(writer)];
  }
  // Whether any node has relays.
  bool relays() const { return relays_; }
  // A writer's window in a round. Only if reachable.
  std::byte* window(int writer, int round) const {
    return segments_[index(writer)].get() + board_bytes + slot(round) * window_bytes_;
  }

  // For the owner. await_all() synchronises with everything the sharers did before leaving.
  void open(int writer, int round, int sharers);
  void await_all(int writer, int round, std::chrono::microseconds spin) const;
  // For the others.
  void await_turn(int writer, int round, std::chrono::microseconds spin) const;
  void leave(int writer, int round);

  // For every rank, after a transfer of this many rounds: keeps rounds distinct.
  void end_transfer(int rounds) { rounds_before_ += static_cast<std::uint32_t>(rounds); }

 private:
  // One per slot, in its own cache line.
  struct Board {
    std::uint32_t turn = 0;     // the round it is open for, counted since the segment was made
    std::uint32_t sharers = 0;  // ranks that have not left yet
    std::array<std::uint32_t, 14> unused{};
  };
  static constexpr std::size_t board_bytes = 4096;
  static_assert(slots * sizeof(Board) <= segment_token_offset);

  static std::size_t index(int writer) { return static_cast<std::size_t>(writer); }
  static std::size_t slot(int round) { return static_cast<std::size_t>(round) % slots; }
  std::uint32_t turn(int round) const {
    return rounds_before_ + static_cast<std::uint32_t>(round) + 1;
  }
  Board& board(int writer, int round) const {
    return reinterpret_cast<Board*>(segments_[index(writer)].get())[slot(round)];
  }
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const { unmap_segment(memory, bytes); }
  };
  using Segment = std::unique_ptr<std::byte, Unmap>;
  void choose_owners(bool relays);

  const Team& team_;
  const std::vector<int>& writers_;
  const std::size_t window_bytes_;
  const std::size_t segment_bytes_;
  std::vector<int> owners_;        // by writer, on this node; -1: none
  std::vector<Segment> segments_;  // by writer; null if unreachable
  bool relays_ = false;
  std::uint32_t rounds_before_ = 0;
};

}  // namespace ferry::collective
