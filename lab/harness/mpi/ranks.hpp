// The ranks of a communicator: waiting, adding up, and agreeing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include <mpi.h>

#include <ferry/error.hpp>

namespace ferry::bench {

// Everything that is not const or a plain number is collective. MPI libraries wait by polling,
// which takes the CPU from the very ranks that are waited for when there are more ranks than CPUs.
// These poll for a short while and then sleep between polls.
class Ranks {
 public:
  // Of a duplicate of the communicator.
  explicit Ranks(MPI_Comm communicator);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  MPI_Comm communicator() const { return communicator_; }
  unsigned rank() const { return static_cast<unsigned>(rank_); }
  unsigned size() const { return static_cast<unsigned>(size_); }
  // Whether a node has more of them than CPUs.
  bool is_oversubscribed() const { return is_oversubscribed_; }

  // Those that give the same number; null for this one with MPI_UNDEFINED.
  std::unique_ptr<Ranks> split(int group) const;

  // Each value is replaced by the largest, or by the sum, over the ranks.
  using Values = std::initializer_list<std::uint64_t*>;
  void maximum(Values values) const { reduce(values, MPI_MAX); }
  void sum(Values values) const { reduce(values, MPI_SUM); }
  void sum(std::span<std::uint64_t> values) const { reduce(values, MPI_SUM); }
  // What rank 0 has.
  void broadcast(void* data, std::size_t bytes) const;

  // Throws ferry::Error on every rank if `error` is not 0 on any: that of the lowest such rank,
  // which the text names.
  void agree(int error, const std::string& what) const;
  // Does a step on this rank, and agrees on the ferry::Error that it throws.
  template <class Step>
  void agree_on(const std::string& what, Step step) const {
    int error = 0;
    try {
      step();
    } catch (const Error& failed) {
      error = failed.code().value();
    }
    agree(error, what);
  }

 private:
  void find_neighbours();
  void wait(MPI_Request& request) const;
  void reduce(Values values, MPI_Op operation) const;
  void reduce(std::span<std::uint64_t> values, MPI_Op operation) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  bool has_cpu_ = false;  // for each of those that run on the CPUs of this one
  bool is_oversubscribed_ = false;
};

}  // namespace ferry::bench
