#include "mpiio/shared_numbers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace ferry::mpiio {

SharedNumbers::SharedNumbers(MPI_Comm communicator)
    : team_(communicator), steps_(static_cast<std::size_t>(team_.size())) {
  const MPI_Aint bytes = team_.rank() == 0 ? static_cast<MPI_Aint>(Number::count) * 8 : 0;
  void* numbers = nullptr;
  PMPI_Win_allocate(bytes, sizeof(std::int64_t), MPI_INFO_NULL, team_.communicator(), &numbers,
                    &window_);
  if (bytes > 0) std::memset(numbers, 0, static_cast<std::size_t>(bytes));
  PMPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  PMPI_Win_sync(window_);
  meet();
}

SharedNumbers::~SharedNumbers() {
  PMPI_Win_unlock_all(window_);
  PMPI_Win_free(&window_);
}

void SharedNumbers::meet() const {
  std::int64_t nothing = 0;
  team_.maximum(std::span(&nothing, 1));
}

std::int64_t SharedNumbers::add(Number number, std::int64_t value) {
  std::int64_t before = 0;
  PMPI_Fetch_and_op(&value, &before, MPI_INT64_T, 0, static_cast<MPI_Aint>(number), MPI_SUM,
                    window_);
  PMPI_Win_flush(0, window_);
  return before;
}

MPI_Offset SharedNumbers::advance_in_order(MPI_Offset etypes) {
  team_.gather(&etypes, sizeof etypes, steps_.data());
  MPI_Offset first = 0;
  if (team_.rank() == 0) {
    first = advance(std::accumulate(steps_.begin(), steps_.end(), MPI_Offset{0}));
  }
  team_.broadcast(&first, sizeof first);
  return std::accumulate(steps_.begin(), steps_.begin() + team_.rank(), first);
}

SharedNumbers::Turn::Turn(SharedNumbers& numbers) : numbers_(numbers) {
  const std::int64_t own = numbers.add(Number::asked, 1);
  auto nap = std::chrono::microseconds(10);
  constexpr auto nap_max = std::chrono::microseconds(1000);
  for (; numbers.add(Number::served, 0) != own; nap = std::min(2 * nap, nap_max))
    std::this_thread::sleep_for(nap);
}

}  // namespace ferry::mpiio
