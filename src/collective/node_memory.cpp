#include "collective/node_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
  std::vector<Ticket> own(writers.size());
  std::vector<int> descriptors;
  int error = 0;
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (owners_[i] != team.rank()) continue;
    descriptors.push_back(make_segment(segments_[i]));
    own[i] = ticket_of(segments_[i], descriptors.back());
    if (segments_[i] == nullptr) error = ENOMEM;
  }
  std::vector<Ticket> tickets(writers.size() * static_cast<std::size_t>(team.size()));
  team.gather(own.data(), static_cast<int>(own.size() * sizeof(Ticket)), tickets.data());
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (owners_[i] < 0 || owners_[i] == team.rank()) continue;
    segments_[i] = map_segment(tickets[static_cast<std::size_t>(owners_[i]) * writers.size() + i]);
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

NodeMemory::~NodeMemory() {
  for (std::byte* memory : segments_)
    if (memory != nullptr) munmap(memory, segment_bytes_);
}

// An unnamed file, so that nothing remains however the processes end. Without sharing ranks, or if
// that fails: this process's memory, and -1.
int NodeMemory::make_segment(std::byte*& memory) const {
  int descriptor = -1;
  const auto& nodes = team_.node_of();
  const int own_node = nodes[static_cast<std::size_t>(team_.rank())];
  if (std::count(nodes.begin(), nodes.end(), own_node) > 1) {
    descriptor = memfd_create("ferry-collective", MFD_CLOEXEC);
  }
  if (descriptor >= 0) {
    if (ftruncate(descriptor, static_cast<off_t>(segment_bytes_)) == 0)
      memory = map(MAP_SHARED, descriptor);
    if (memory != nullptr) return descriptor;
    ::close(descriptor);
  }
  memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  return -1;
}

NodeMemory::Ticket NodeMemory::ticket_of(std::byte* memory, int descriptor) {
  if (descriptor < 0) return {};
  std::random_device random;
  const Ticket ticket{getpid(), descriptor, (std::uint64_t{random()} << 32) | random()};
  std::memcpy(memory + token_offset, &ticket.token, sizeof ticket.token);
  return ticket;
}

// Null if the process is invisible (another container), or the number belongs to another one.
std::byte* NodeMemory::map_segment(const Ticket& ticket) const {
  if (ticket.descriptor < 0) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(ticket.process) + "/fd/" + std::to_string(ticket.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  struct stat status {};
  std::byte* memory = nullptr;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<std::size_t>(status.st_size) == segment_bytes_) {
    memory = map(MAP_SHARED, descriptor);
  }
  ::close(descriptor);
  if (memory == nullptr) return nullptr;
  if (std::memcmp(memory + token_offset, &ticket.token, sizeof ticket.token) == 0) return memory;
  munmap(memory, segment_bytes_);
  return nullptr;
}

std::byte* NodeMemory::map(int flags, int descriptor) const {
  void* memory = mmap(nullptr, segment_bytes_, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, segment_bytes_, MADV_HUGEPAGE);  // if the kernel has none, small ones do
  return static_cast<std::byte*>(memory);
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
