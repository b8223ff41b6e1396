// Numbers that the ranks of a file share: its shared file pointer, and whose turn it is in atomic
// mode.
//
// They lie in a window of the first rank (MPI 4.0, chapter 12). A rank may wait for the first one
// until that calls the MPI library, whatever it calls.
#pragma once

#include <cstdint>
#include <vector>

#include <mpi.h>

#include "collective/team.hpp"

namespace ferry::mpiio {

// As thread-safe as the MPI library, but for what is collective.
class SharedNumbers {
 public:
  // Both collective.
  explicit SharedNumbers(MPI_Comm communicator);
  ~SharedNumbers();
  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;

  const collective::Team& team() const { return team_; }
  // A barrier.
  void meet() const;

  // The shared file pointer, in etypes. Those that advance it return what it was.
  MPI_Offset pointer() { return add(Number::pointer, 0); }
  MPI_Offset advance(MPI_Offset etypes) { return add(Number::pointer, etypes); }
  // Collective: for each rank, behind the ranks before it.
  MPI_Offset advance_in_order(MPI_Offset etypes);
  // To be called only while no rank advances it.
  void set_pointer(MPI_Offset to) { add(Number::pointer, to - pointer()); }

  // One rank at a time, in the order in which they ask. A rank waits for the transfers of those
  // before it; their storage bounds each of them.
  class Turn {
   public:
    explicit Turn(SharedNumbers& numbers);
    ~Turn() { numbers_.add(Number::served, 1); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    SharedNumbers& numbers_;
  };

 private:
  enum class Number : MPI_Aint { pointer, asked, served, count };

  // Returns what it was.
  std::int64_t add(Number number, std::int64_t value);

  const collective::Team team_;
  std::vector<MPI_Offset> steps_;  // of all ranks, in advance_in_order(): no memory is needed there
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace ferry::mpiio
