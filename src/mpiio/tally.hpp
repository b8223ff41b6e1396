// What this process counts of a file, or of all its files: the numbers behind the performance
// variables of MPI_T (tool_variables.hpp).
//
// They only grow, but for the levels. Each number is right by itself; several that are read one
// after another may be of different calls.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <ferry/collective.hpp>

namespace ferry::mpiio {

enum class Number : std::uint8_t {
  transfers,
  transfers_independent,
  transfers_aggregate,
  transfers_serial,
  transfers_mpiio,
  transfers_empty,
  transfers_left,
  transfers_single,
  read_bytes,
  written_bytes,
  messages,
  message_bytes,
  remote_messages,
  remote_bytes,
  shared_bytes,
  storage_opens,
  storage_requests,
  storage_bytes,
  gpu_bytes,
  // In nanoseconds.
  plan_time,
  exchange_time,
  pack_time,
  file_io_time,
  sync_time,
  wait_time,
  // Levels.
  open_files,
  writers,
  as_writer,
  count
};

// Thread-safe.
class Tally {
 public:
  // Of all files of this process, for as long as it runs.
  static Tally& whole();
  // Of one file; what is added to it is added to the whole as well.
  static std::shared_ptr<Tally> of_a_file();

  void add(Number number, std::uint64_t more);
  // One call; its transfer is counted elsewhere, as it may be a part of one.
  void add(const collective::CallCounts& counts);
  // A collective transfer that was carried out by this method; automatic: no rank had data.
  void add_transfer_by(collective::Method method);
  // With the number of ranks that write for others, and whether this is one of them.
  void open(int writers, bool as_writer);
  // Again is nothing.
  void close();

  std::uint64_t get(Number number) const { return values_[index(number)]; }

 private:
  explicit Tally(Tally* whole) : whole_(whole) {}
  static std::size_t index(Number number) { return static_cast<std::size_t>(number); }

  Tally* const whole_;  // null: it is this
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Number::count)> values_{};
};

}  // namespace ferry::mpiio
