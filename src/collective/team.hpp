// The ranks of one open file: their communicator, waiting, and agreeing.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include <ferry/collective.hpp>

#include "collective/node_agreement.hpp"

namespace ferry::collective {

// Adds its lifetime to a phase.
class Stopwatch {
 public:
  explicit Stopwatch(double& phase_ns) : phase_ns_(phase_ns) {}
  ~Stopwatch() {
    phase_ns_ += std::chrono::duration<double, std::nano>(Clock::now() - begin_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& phase_ns_;
  const Clock::time_point begin_ = Clock::now();
};

class Team {
 public:
  // Collective, like everything that agrees or moves data. Texts add first_rank to rank numbers.
  explicit Team(MPI_Comm communicator, int first_rank = 0);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // For each rank, a number that the ranks of a node share.
  const std::vector<int>& node_of() const { return node_of_; }

  // Whether each rank that runs on this rank's CPUs can have a CPU, or two.
  bool has_cpu() const { return has_cpu_; }
  bool has_two_cpus() const { return has_two_cpus_; }
  bool is_one_node() const {
    return std::count(node_of_.begin(), node_of_.end(), node_of_[0]) == size_;
  }
  bool is_near(int rank) const {
    return node_of_[static_cast<std::size_t>(rank)] == node_of_[static_cast<std::size_t>(rank_)];
  }

  // MPI libraries wait by polling, which takes CPUs from the ranks they wait for if there are more
  // ranks than CPUs. These functions poll briefly and then sleep between polls.
  void wait(MPI_Request& request) const { wait_all(std::span(&request, 1)); }
  void wait_all(std::span<MPI_Request> requests) const;

  // Waits until a word has a value; the rank that changes it wakes the sleepers. Progresses
  // messages meanwhile, which others may need first. Spins this long before sleeping, if each rank
  // may have a CPU.
  void wait_for(std::uint32_t& word, std::uint32_t value, std::chrono::microseconds spin) const;

  // Replaces each value by the maximum, or by the sum, over the ranks. From the agreement
  // `shared_from` on through shared memory, if the ranks share a node. One rank calls no MPI, here
  // and in the next two.
  static constexpr int shared_from = 8;
  void maximum(std::span<std::int64_t> values) const;
  void maximum(std::span<double> values) const;
  void sum(std::span<double> values) const;
  void broadcast(void* data, int bytes, int root = 0) const;
  // `bytes` of each rank, by rank.
  void gather(const void* own, int bytes, void* all) const;

  // An errno and its rank in one number. The lowest rank gives the maximum.
  std::int64_t fault(int error) const {
    return error == 0 ? 0 : (std::int64_t{size_ - rank_} << 32) | error;
  }
  // The rank of the error.
  int rank_of(std::int64_t fault) const { return size_ - static_cast<int>(fault >> 32); }
  static int error_of(std::int64_t fault) { return static_cast<int>(fault & 0x7fffffff); }
  // As texts name it.
  std::string rank_name(int rank) const { return "rank " + std::to_string(first_rank_ + rank); }

  // The agreement at the beginning of each collective call, the same in all of them, so that ranks
  // meet in it whatever they call. `number` counts the calls. Replaces the values like maximum();
  // returns whether all ranks make the same call.
  static constexpr std::size_t meeting_values = 10;
  using MeetingValues = std::array<std::int64_t, meeting_values>;
  bool meet(Call call, std::int64_t number, MeetingValues& values) const;
  // After a failed meeting: two of the calls, by rank.
  std::string calls_of_ranks(Call call) const;
  // Broadcasts the text of rank `root`, cut to a maximum length.
  std::string text_of(int root, const std::string& own) const;

  // Throws on every rank if there is a fault. `what` and `path` name the attempt: two, so that a
  // rank without memory can take part in an agreement.
  void throw_if(std::int64_t fault, const char* what, std::string_view path = {}) const;
  // Collective: throws on every rank if `error` is not 0 on any.
  void agree(int error, const char* what, std::string_view path = {}) const;
  // Collective, by messages: the maximum of one number.
  std::int64_t maximum_sent(std::int64_t value) const;

  // Ends the job, because this rank has no memory to go on, and the others wait for it.
  [[noreturn]] void end_job(const char* what, std::string_view path = {}) const;

 private:
  void find_neighbours();
  void reduce(void* values, std::size_t count, MPI_Datatype type, MPI_Op operation) const;
  NodeAgreement* node_agreement(std::size_t count) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  const int first_rank_;
  int rank_ = 0;
  int size_ = 0;
  bool has_cpu_ = false;  // a guess, until the sharing of CPUs is known
  bool has_two_cpus_ = false;
  std::vector<int> node_of_;
  // Made by an agreement, which changes nothing that a caller sees.
  mutable int agreements_ = 0;
  mutable std::unique_ptr<NodeAgreement> node_agreement_;
};

// Ranks are divided into groups of neighbours.
int group_of(int rank, int groups, int ranks);
// Collective: a communicator of this rank's group, in the order of `communicator`. Cached there as
// an MPI attribute, because making one polls, which is slow where ranks share CPUs. So callers do
// not free the result: `communicator` does, or the next call with another number of groups.
MPI_Comm group_communicator(MPI_Comm communicator, int groups);

}  // namespace ferry::collective
