// The ranks of one open file: a communicator of their own, waiting, and agreeing.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

#include <ferry/collective.hpp>

namespace ferry::collective {

// Adds the time of its life to a phase.
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
  // Collective, as are all that end in "agree" or move data. first_rank: what texts add to the
  // numbers of ranks.
  explicit Team(MPI_Comm communicator, int first_rank = 0);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // A number that the ranks of one node share, for each rank.
  const std::vector<int>& node_of() const { return node_of_; }

  // Whether there is a CPU, or two, for each of the ranks that run on the CPUs of this one.
  bool has_cpu() const { return has_cpu_; }
  bool has_two_cpus() const { return has_two_cpus_; }
  bool is_one_node() const {
    return std::count(node_of_.begin(), node_of_.end(), node_of_[0]) == size_;
  }
  bool is_near(int rank) const {
    return node_of_[static_cast<std::size_t>(rank)] == node_of_[static_cast<std::size_t>(rank_)];
  }

  // MPI libraries wait by polling, which takes the CPU from the very ranks that are waited for when
  // there are more ranks than CPUs. These poll for a short while and then sleep between polls.
  void wait(MPI_Request& request) const { wait_all(std::span(&request, 1)); }
  void wait_all(std::span<MPI_Request> requests) const;

  // Waits until a word that others change, and wake whoever sleeps on it, has a value. Messages go
  // on meanwhile: others may need them in order to change it. Spins for so long before it sleeps,
  // where each rank may have a CPU.
  void wait_for(std::uint32_t& word, std::uint32_t value, std::chrono::microseconds spin) const;

  // Each value is replaced by the largest, or by the sum, over the ranks.
  void maximum(std::span<std::int64_t> values) const;
  void sum(std::span<double> values) const;
  void maximum(std::span<double> values) const;
  void broadcast(void* data, int bytes, int root = 0) const;
  // `bytes` of each rank, by rank.
  void gather(const void* own, int bytes, void* all) const;

  // An errno and the rank where it happened in one number. That of the lowest rank is the largest.
  std::int64_t fault(int error) const {
    return error == 0 ? 0 : (std::int64_t{size_ - rank_} << 32) | error;
  }
  // The rank where it happened.
  int rank_of(std::int64_t fault) const { return size_ - static_cast<int>(fault >> 32); }
  static int error_of(std::int64_t fault) { return static_cast<int>(fault & 0x7fffffff); }
  // As texts name it.
  std::string rank_name(int rank) const { return "rank " + std::to_string(first_rank_ + rank); }

  // The agreement that each collective call of a file begins with. It is the same in all of them,
  // so that ranks meet in it whatever they have called. `number` counts the calls. Replaces the
  // values as maximum() does; returns whether all ranks are in the same call.
  static constexpr std::size_t meeting_values = 6;
  using MeetingValues = std::array<std::int64_t, meeting_values>;
  bool meet(Call call, std::int64_t number, MeetingValues& values) const;
  // After a meeting where they were not: two of the calls, by rank.
  std::string calls_of_ranks(Call call) const;
  // What rank `root` says, on every rank; cut where it is long.
  std::string text_of(int root, const std::string& own) const;

  // Throws on every rank if there is a fault. `what` says what was tried.
  void throw_if(std::int64_t fault, const std::string& what) const;
  // Collective: throws on every rank if `error` is not 0 on any.
  void agree(int error, const std::string& what) const;

 private:
  void find_neighbours();

  MPI_Comm communicator_ = MPI_COMM_NULL;
  const int first_rank_;
  int rank_ = 0;
  int size_ = 0;
  bool has_cpu_ = false;  // a guess, until it is known who shares the CPUs
  bool has_two_cpus_ = false;
  std::vector<int> node_of_;
};

}  // namespace ferry::collective
