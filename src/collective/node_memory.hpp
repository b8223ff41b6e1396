// Windows that the ranks of a node share: what crosses between them is copied once, by the rank
// whose data it is, and no message is sent.
//
// Each writer owns a segment with two windows, which the other ranks of its node map. On a node
// with several ranks that a writer is not on, one of them, its relay, owns such a segment in its
// place: what the node's ranks have for the writer comes together there and crosses the wire once.
// For each round a window changes hands as its board says:
//
//   1. the owner prepares the window and opens it to `sharers` ranks (open());
//   2. each of them waits for that (await_turn()), copies into it or out of it, and leaves
//   (leave());
//   3. the owner waits until all have left (await_all()).
//
// The words of a board are futexes. A process that is lost does not leave them waiting: MPI ends
// the job then.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/team.hpp"

namespace ferry::collective {

class NodeMemory {
 public:
  static constexpr std::size_t slots = 2;

  // Collective: makes the windows that this rank owns, and maps the others of its node. Where that
  // is refused there is nothing to share, and messages do. Throws on all ranks (ENOMEM) if an owner
  // has no memory for its windows. `relays`: whether there are any; nor are there on a node where
  // they would take more than relay_bytes_max.
  NodeMemory(const Team& team, const std::vector<int>& writers, std::int64_t window_bytes,
             bool relays);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  static constexpr std::int64_t relay_bytes_max = 1 << 30;  // of a node

  // Whether this rank can use its node's windows of a writer (an index).
  bool reaches(int writer) const { return segments_[index(writer)] != nullptr; }
  // The rank that owns those windows; without windows in reach, the writer itself.
  int owner(int writer) const {
    return reaches(writer) ? owners_[index(writer)] : writers_[index(writer)];
  }
  // Whether any node has relays.
  bool relays() const { return relays_; }
  // A writer's window of a round. Only where it can be reached.
  std::byte* window(int writer, int round) const {
    return segments_[index(writer)] + board_bytes + slot(round) * window_bytes_;
  }

  // By the owner. All that the sharers did before they left happened before await_all() returns.
  void open(int writer, int round, int sharers);
  void await_all(int writer, int round, std::chrono::microseconds spin) const;
  // By the others.
  void await_turn(int writer, int round, std::chrono::microseconds spin) const;
  void leave(int writer, int round);

  // By every rank, after a transfer of so many rounds: no round is ever mistaken for another one's.
  void end_transfer(int rounds) { rounds_before_ += static_cast<std::uint32_t>(rounds); }

 private:
  // One for each slot, in a line of its own.
  struct Board {
    std::uint32_t turn = 0;  // the round, counted since the segment was made, that it is open for
    std::uint32_t sharers = 0;  // that have not left yet
    std::array<std::uint32_t, 14> unused{};
  };
  // What the others need in order to map a segment.
  struct Ticket {
    std::int64_t process = 0;
    std::int64_t descriptor = -1;
    std::uint64_t token = 0;  // tells this segment from any other file
  };
  static constexpr std::size_t board_bytes = 4096;
  static constexpr std::size_t token_offset = slots * sizeof(Board);

  static std::size_t index(int writer) { return static_cast<std::size_t>(writer); }
  static std::size_t slot(int round) { return static_cast<std::size_t>(round) % slots; }
  std::uint32_t turn(int round) const {
    return rounds_before_ + static_cast<std::uint32_t>(round) + 1;
  }
  Board& board(int writer, int round) const {
    return reinterpret_cast<Board*>(segments_[index(writer)])[slot(round)];
  }
  void choose_owners(bool relays);
  int make_segment(std::byte*& memory) const;
  static Ticket ticket_of(std::byte* memory, int descriptor);
  std::byte* map_segment(const Ticket& ticket) const;
  std::byte* map(int flags, int descriptor) const;

  const Team& team_;
  const std::vector<int>& writers_;
  const std::size_t window_bytes_;
  const std::size_t segment_bytes_;
  std::vector<int> owners_;           // by writer, on this node; -1: nobody
  std::vector<std::byte*> segments_;  // by writer; null where they cannot be reached
  bool relays_ = false;
  std::uint32_t rounds_before_ = 0;
};

}  // namespace ferry::collective
