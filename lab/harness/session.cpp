#include "harness/session.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "harness/cell_run.hpp"
#include "harness/layout.hpp"
#include "harness/usage.hpp"
#include "harness/verification.hpp"
#include "programs/file_system.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

CacheState prepare_file(const Cell& cell, unsigned number) {
  const PlainFile file(file_path(cell, number));
  const std::uint64_t bytes = file_bytes(cell);
  if (cell.cold) return make_cold(file, bytes);
  // Direct reads go past the page cache: it is left as it is.
  if (cell.direct) return cache_state(file, bytes);
  return make_hot(file, bytes);
}

// The state that the cell asks for, brought about outside the timed region.
CacheState prepare_cache(const Cell& cell) {
  const CacheState state = prepare_file(cell, 0);
  bool same = true;
  for (unsigned i = 1; i < file_count(cell); ++i)
    same = prepare_file(cell, i) == state && same;
  return same ? state : CacheState::unverified;
}

// Makes the kernel hand out, and take back, the kind of memory that the timed write will get: pages
// of one file, by transfers of the same size. A virtual machine may have given free memory back to
// its host, and the first touch then fetches it page by page: writing 16 MiB took 3 or 39 ms, by
// where the pages came from.
void warm_memory(const Cell& cell) {
  constexpr std::uint64_t bytes_max = std::uint64_t{256} << 20;
  // What a URI names is written by way of memory that its client has already.
  if (cell.total_bytes > bytes_max || is_uri(cell.path)) return;
  const int fd = ::open(cell.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  ::unlink(cell.path.c_str());
  const std::vector<char> zeros(cell.transfer_bytes);
  // Twice as much, so that what comes from elsewhere next time is touched too.
  for (std::uint64_t written = 0; written < 2 * cell.total_bytes; written += zeros.size()) {
    if (::write(fd, zeros.data(), zeros.size()) < 0) break;
  }
  ::close(fd);
}

// Of the folder where the file does not exist yet. Empty where it is none of this machine's.
std::string block_device_of(const Cell& cell) {
  if (is_uri(cell.path)) return "";
  const std::string folder = std::filesystem::path(cell.path).parent_path();
  return block_device_folder(folder.empty() ? "." : folder);
}

// What the bytes that came over the network say of a URI's file, read once more: whether its client
// on this machine had it. Nothing where the device's own cache was to answer.
std::optional<CacheState> state_of_remote_read(const Cell& cell, const Sample& sample) {
  if (cell.warm) return std::nullopt;
  const CacheState state = state_by_network(sample.bytes, sample.storage.network_read_bytes);
  return cell.cold && state != CacheState::cold ? CacheState::unverified : state;
}

std::vector<std::string> paths_of(const Cell& cell) {
  std::vector<std::string> paths;
  for (unsigned i = 0; i < file_count(cell); ++i)
    paths.push_back(file_path(cell, i));
  return paths;
}

// What is written over: other contents than those that the timed writes bring.
// Durable where those will be, so that they do not pay for it.
void make_existing(const Cell& cell, std::uint64_t pattern_seed) {
  for (const std::string& path : paths_of(cell))
    const StoredFile made(path, O_WRONLY | O_CREAT | O_EXCL);
  complete_written(cell, pattern_seed, std::vector<std::uint64_t>(cell.threads));
  if (!cell.direct && !cell.syncs()) return;
  for (const std::string& path : paths_of(cell))
    StoredFile(path, O_WRONLY).sync();
}

}  // namespace

void Session::run() {
  const std::uint64_t begin_ns = now_ns();
  verify_cells();
  const std::size_t count = cells_.size();
  for (unsigned repeat = 0; repeat < repeats_; ++repeat) {
    const std::uint64_t elapsed_ms = (now_ns() - begin_ns) / 1'000'000;
    if (time_limit_ms_ != 0 && repeat > 0 && elapsed_ms >= time_limit_ms_) break;
    for (std::size_t i = 0; i < count; ++i) {
      interruption_.check();
      repeat_cell(repeat % 2 == 0 ? i : count - 1 - i, repeat);
    }
  }
}

template <class Work>
void Session::on_cell(const Cell& cell, Work work) {
  try {
    work();
    interruption_.check();
  } catch (const ContentsError& error) {
    throw CellFailure(cell.id, 0, error.what());
  } catch (const std::system_error& error) {
    // Interrupted calls end with several errors; the reason is one.
    if (interruption_.stopped()) throw CellFailure(cell.id, EINTR, "interrupted");
    throw CellFailure(cell.id, error.code().value(), error.what());
  }
}

void Session::verify_cells() {
  for (Cell& cell : cells_) {
    block_devices_.push_back(block_device_of(cell));
    sums_.push_back(0);
    if (cell.operation != Operation::read) continue;
    on_cell(cell, [&] {
      check_readable(cell);
      if (cell.check && !cell.expect_pattern_seed) {
        cell.expect_pattern_seed = find_pattern_seed(cell);
      }
      runtimes_.of(cell).verify_reads(cell, interruption_.stopped());
      if (cell.computes()) sums_.back() = sum_files(cell);
    });
    report_.verified(cell);
  }
}

void Session::repeat_cell(std::size_t index, unsigned repeat) {
  const Cell& cell = cells_[index];
  on_cell(cell, [&] {
    if (cell.operation == Operation::read) {
      read_once(index, repeat);
    } else {
      write_once(index, repeat);
    }
  });
}

// A hot read is as fast as what the cell before it left in the processor's caches: 16 MiB from the
// device's cache took 0.6 ms after a cell that read the same pages, and 1.2 ms after another. The
// order A B B A gives every other repeat another predecessor. So such a cell follows itself. One
// pass is not enough: a last level that takes lines only when they come again and again had what
// host reads of 16 MiB want after three to ten. What is larger than that finds no room there.
std::uint64_t Session::settling_passes(const Cell& cell) const {
  constexpr std::uint64_t bytes = std::uint64_t{128} << 20;
  constexpr std::uint64_t passes_max = 8;
  if (cells_.size() == 1 || cell.cold || cell.direct) return 0;
  if (is_uri(cell.path)) return 1;  // for what its client keeps; the network hides the rest
  return std::clamp(bytes / cell.total_bytes, std::uint64_t{1}, passes_max);
}

void Session::read_once(std::size_t index, unsigned repeat) {
  const Cell& cell = cells_[index];
  const bool remote = is_uri(cell.path);
  std::optional<CacheState> state;
  if (!remote) state = prepare_cache(cell);
  const CellRun run{cell, repeat, 0, 0, block_devices_[index]};
  for (std::uint64_t pass = 0; pass < settling_passes(cell); ++pass)
    runtimes_.of(cell).run_cell(run, interruption_.stopped());
  const Sample sample = runtimes_.of(cell).run_cell(run, interruption_.stopped());
  if (cell.computes() && sample.sum != sums_[index]) {
    throw ContentsError("the sum over " + cell.path + " is wrong, by way of " +
                        name_of(cell.interface));
  }
  // What a direct read brings from the storage says nothing about the page cache.
  if (remote) {
    state = state_of_remote_read(cell, sample);
  } else if (cell.cold || !cell.direct) {
    state = confirm(*state, sample.bytes, sample.storage.process_read_bytes);
  }
  report_.sample(cell, repeat, sample, state, std::nullopt);
}

void Session::write_once(std::size_t index, unsigned repeat) {
  const Cell& cell = cells_[index];
  CellRun run{cell, repeat, cell.seed + repeat, O_CREAT | O_EXCL, block_devices_[index]};
  std::vector<std::string> fresh;
  for (const std::string& path : paths_of(cell)) {
    if (!file_exists(path)) {
      fresh.push_back(path);
      continue;
    }
    if (!cell.overwrite) throw Error(EEXIST, path);
    run.create_flags = O_CREAT | O_TRUNC;
  }
  if (!fresh.empty() && !cell.rewrite) warm_memory(cell);
  ScratchFiles made(std::move(fresh));
  Sample sample;
  try {
    if (cell.rewrite) {
      make_existing(cell, run.pattern_seed + 1);
      run.create_flags = 0;
    }
    sample = runtimes_.of(cell).run_cell(run, interruption_.stopped());
  } catch (const std::system_error& error) {
    if (error.code().value() == EEXIST) made.keep();  // somebody else made it just now
    throw;
  }
  verify_write(run, sample);
  if (cell.keep && repeat + 1 == repeats_) made.keep();
  report_.sample(cell, repeat, sample, std::nullopt, run.pattern_seed);
}

// Files that are read afterwards are whole, whatever the deadline was.
void Session::verify_write(const CellRun& run, const Sample& sample) {
  const Cell& cell = run.cell;
  if (sample.deadline_reached) {
    verify_written(cell, run.pattern_seed, sample.calls_of_part);
    if (!cell.keep && !cell.check) return;
    complete_written(cell, run.pattern_seed, sample.calls_of_part);
  }
  verify_written(cell, run.pattern_seed);
  if (!cell.check) return;
  Cell back = cell;
  back.operation = Operation::read;
  back.expect_pattern_seed = run.pattern_seed;
  runtimes_.of(cell).verify_reads(back, interruption_.stopped());
}

}  // namespace ferry::bench
