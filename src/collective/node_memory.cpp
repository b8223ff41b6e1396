#include "collective/node_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
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

NodeMemory::NodeMemory(const Team& team, const std::vector<int>& writers, std::int64_t window_bytes)
    : team_(team),
      window_bytes_(static_cast<std::size_t>(window_bytes)),
      segment_bytes_(rounded_up(board_bytes + slots * window_bytes_)),
      segments_(writers.size()) {
  Ticket ticket;
  int descriptor = -1;
  int error = 0;
  const auto own = std::find(writers.begin(), writers.end(), team.rank());
  if (own != writers.end()) {
    std::byte*& memory = segments_[static_cast<std::size_t>(own - writers.begin())];
    descriptor = make_segment(memory);
    ticket = ticket_of(memory, descriptor);
    if (memory == nullptr) error = ENOMEM;
  }
  std::vector<Ticket> tickets(static_cast<std::size_t>(team.size()));
  team.gather(&ticket, sizeof ticket, tickets.data());
  const auto node_of = [&](int rank) { return team.node_of()[static_cast<std::size_t>(rank)]; };
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (writers[i] == team.rank() || node_of(writers[i]) != node_of(team.rank())) continue;
    segments_[i] = map_segment(tickets[static_cast<std::size_t>(writers[i])]);
  }
  // The descriptor has to stay until all have mapped what it names.
  std::int64_t fault = team.fault(error);
  team.maximum(std::span(&fault, 1));
  if (descriptor >= 0) ::close(descriptor);
  team.throw_if(fault, "making the windows of a collective transfer");
}

NodeMemory::~NodeMemory() {
  for (std::byte* memory : segments_)
    if (memory != nullptr) munmap(memory, segment_bytes_);
}

// A file without a name, so that nothing of it stays behind whatever becomes of the processes.
// Where there is nobody to share it with, or none can be made, memory of this process: -1 then.
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

// Null where the process cannot be seen (another container), or is another one of that number.
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
  madvise(memory, segment_bytes_, MADV_HUGEPAGE);  // where the kernel has none, small ones do
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
