#include "storage/posix/write_turns.hpp"

namespace ferry::storage {

bool WriteTurns::try_begin_direct() {
  std::uint64_t counts = counts_.load();
  do {
    if (counts >= one_buffered) return false;
  } while (!counts_.compare_exchange_weak(counts, counts + 1));
  return true;
}

void WriteTurns::end_direct() {
  if (!has_direct(--counts_)) counts_.notify_all();
}

void WriteTurns::begin_buffered() {
  std::uint64_t counts = counts_ += one_buffered;
  while (has_direct(counts)) {
    counts_.wait(counts);
    counts = counts_.load();
  }
}

bool WriteTurns::try_begin_buffered() {
  std::uint64_t counts = counts_.load();
  do {
    if (has_direct(counts)) return false;
  } while (!counts_.compare_exchange_weak(counts, counts + one_buffered));
  return true;
}

void WriteTurns::end_buffered() {
  counts_ -= one_buffered;
}

}  // namespace ferry::storage
