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
#include "harness/report.hpp"
#include "harness/usage.hpp"
#include "harness/verification.hpp"
#include "programs/file_system.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

CacheState prepare_file(const Cell& cell, unsigned number) {
  const PlainFile file(file_path(cell, number));
  const std::uint64_t bytes = file_bytes(cell, number);
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
  if (is_block_device(cell.path)) return block_device_folder(cell.path);
  const std::string folder = std::filesystem::path(cell.path).parent_path();
  return block_device_folder(folder.empty() ? "." : folder);
}

// What the bytes that came over the network say of a URI's file, read once more: whether its client
// on this machine had it. Nothing where the device's own cache was to answer.
std::optional<CacheState> state_of_remote_read(const Cell& cell, const Sample& sample) {
  if (cell.warm) return std::nullopt;
  const CacheState state =
      state_by_network(sample.distinct_bytes, sample.storage.network_read_bytes);
  return cell.cold && state != CacheState::cold ? CacheState::unverified : state;
}

std::vector<std::string> paths_of(const Cell& cell) {
  std::vector<std::string> paths;
  for (unsigned i = 0; i < file_count(cell); ++i)
    paths.push_back(file_path(cell, i));
  return paths;
}

}  // namespace

template <class Work>
void Session::on_cell(const Cell& cell, Work work) {
  try {
    work();
    interruption_.check();
  } catch (const ContentsError& error) {
    throw CellFailure(cell.id, 0, error.what());
  } catch (const std::system_error& error) {
    // Interrupted calls end with several errors; the reason is one. Ranks agree on ECANCELED where
    // a signal reached another than the first.
    const int number = error.code().value();
    if (interruption_.stopped() || number == ECANCELED)
      throw CellFailure(cell.id, EINTR, "interrupted");
    throw CellFailure(cell.id, number, error.what());
  }
}

void Session::run() {
  const std::uint64_t begin_ns = now_ns();
  const std::size_t count = cells_.size();
  const unsigned rounds = plan_.repeats + uncounted_rounds_;
  for (std::size_t i = 0; i < count; ++i) {
    prepare(cells_[i]);
    for (unsigned round = 0; plan_.in_order && round < rounds; ++round)
      run_once(i, round);
  }
  if (plan_.in_order) return;
  for (unsigned round = 0; round < rounds; ++round) {
    const std::uint64_t elapsed_ms = (now_ns() - begin_ns) / 1'000'000;
    const bool late = plan_.time_limit_ms != 0 && elapsed_ms >= plan_.time_limit_ms;
    if (late && round > uncounted_rounds_) break;
    const bool forward = (round + uncounted_rounds_) % 2 == 0;
    for (std::size_t i = 0; i < count; ++i)
      run_once(forward ? i : count - 1 - i, round);
  }
}

void Session::run_once(std::size_t index, unsigned round) {
  const bool reads = cells_[index].operation == MeasuredOperation::read;
  interruption_.check();
  on_cell(cells_[index], [&] { reads ? read_once(index, round) : write_once(index, round); });
}

void Session::prepare(Cell& cell) {
  block_devices_.push_back(block_device_of(cell));
  sums_.push_back(0);
  if (cell.operation != MeasuredOperation::read) return;
  on_cell(cell, [&] {
    if (plan_.device == Device::ranks && !cell.streams) make_files(cell);
    check_readable(cell);
    if (cell.check && !cell.expect_pattern_seed) {
      cell.expect_pattern_seed = find_pattern_seed(cell);
    }
    runtimes_.of(cell).verify_reads(cell, interruption_.stopped());
    if (cell.computes()) sums_.back() = sum_files(cell);
  });
  report_verified(cell);
}

// Those that the cell reads, unless another one has made them.
void Session::make_files(Cell& cell) {
  cell.expect_pattern_seed = cell.seed;
  const std::vector<std::string> paths = paths_of(cell);
  for (unsigned i = 0; i < paths.size(); ++i) {
    if (!made_paths_.insert(paths[i]).second) continue;
    // Looked for here: a storage may refuse the cell's stripes before it looks for the file.
    if (file_exists(paths[i])) throw Error(EEXIST, paths[i]);
    made_.push_back(std::make_unique<ScratchFiles>(std::vector{paths[i]}));
    try {
      make_file(cell, cell.seed, i);
    } catch (const Error& error) {
      if (error.code().value() == EEXIST) made_.back()->keep();
      throw;
    }
  }
}

void Session::report(const Cell& cell, unsigned round, const Sample& sample,
                     std::optional<CacheState> state, std::optional<std::uint64_t> pattern_seed) {
  if (round < uncounted_rounds_) return;
  report_sample(cell, round - uncounted_rounds_, sample, state, pattern_seed);
}

// A hot read is as fast as what the cell before it left in the processor's caches: 16 MiB from the
// device's cache took 0.6 ms after a cell that read the same pages, and 1.2 ms after another. The
// order A B B A gives every other repeat another predecessor. So such a cell follows itself. One
// pass is not enough: a last level that takes lines only when they come again and again had what
// host reads of 16 MiB want after three to ten. What is larger than that finds no room there.
std::uint64_t Session::settling_passes(const Cell& cell) const {
  constexpr std::uint64_t bytes = std::uint64_t{128} << 20;
  constexpr std::uint64_t passes_max = 8;
  if (cells_.size() == 1 || plan_.in_order || cell.cold || cell.direct || uncounted_rounds_ != 0)
    return 0;
  if (is_uri(cell.path)) return 1;  // for what its client keeps; the network hides the rest
  return std::clamp(bytes / cell.total_bytes, std::uint64_t{1}, passes_max);
}

void Session::read_once(std::size_t index, unsigned round) {
  const Cell& cell = cells_[index];
  const bool remote = is_uri(cell.path);
  std::optional<CacheState> state;
  // Of places far apart, which the device's cache is to answer, nothing is said: looking at all
  // that lies between would take longer than reading them.
  const bool apart = cell.warm && cell.stride_bytes != 0;
  if (!remote && !apart) state = prepare_cache(cell);
  const CellRun run{cell, round, 0, 0, block_devices_[index]};
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
  } else if (state && (cell.cold || !cell.direct)) {
    state = confirm(*state, sample.distinct_bytes, sample.storage.process_read_bytes);
  }
  report(cell, round, sample, state, std::nullopt);
}

void Session::metadata_once(const Cell& cell, unsigned round) {
  for (const std::string& path : paths_of(cell))
    if (file_exists(path)) throw Error(EEXIST, path);
  const CellRun run{cell, round, cell.seed + round, 0, ""};
  report_metadata(cell, round, runtimes_.of(cell).run_metadata(run, interruption_.stopped()));
}

void Session::write_once(std::size_t index, unsigned round) {
  const Cell& cell = cells_[index];
  if (cell.program == Program::metadata) return metadata_once(cell, round);
  CellRun run{cell, round, cell.seed + round, O_CREAT | O_EXCL, block_devices_[index]};
  std::vector<std::string> fresh;
  for (const std::string& path : paths_of(cell)) {
    if (!file_exists(path)) {
      if (raw_paths_.contains(path)) throw Error(ENODEV, path + " has gone");
      fresh.push_back(path);
      continue;
    }
    if (!cell.overwrite) throw Error(EEXIST, path);
    // A block device is there, and keeps its size.
    const bool raw = is_block_device(path);
    run.create_flags = raw ? 0 : O_CREAT | O_TRUNC;
    if (raw) raw_paths_.insert(path);
    // Ranks open it at several times, none of which may empty it.
    if (!raw && plan_.device == Device::ranks) StoredFile(path, O_WRONLY | O_TRUNC);
  }
  if (!fresh.empty() && !cell.rewrite && !cell.is_striped()) warm_memory(cell);
  ScratchFiles made(std::move(fresh));
  Sample sample;
  try {
    if (cell.rewrite) {
      for (unsigned i = 0; i < file_count(cell); ++i)
        make_file(cell, made_seed_of(run.pattern_seed), i);
      run.create_flags = 0;
    }
    if (cell.mixes() && round == 0) {
      Cell made_by_it = cell;
      made_by_it.operation = MeasuredOperation::read;
      made_by_it.read_percent = 0;
      made_by_it.expect_pattern_seed = made_seed_of(run.pattern_seed);
      runtimes_.of(cell).verify_reads(made_by_it, interruption_.stopped());
    }
    // Ferry's own views make it with its stripes themselves.
    if (cell.is_striped() && cell.interface != Interface::ferry) {
      for (const std::string& path : paths_of(cell))
        make_striped(cell, path);
    }
    sample = runtimes_.of(cell).run_cell(run, interruption_.stopped());
  } catch (const std::system_error& error) {
    if (error.code().value() == EEXIST) made.keep();  // another process has just made it
    throw;
  }
  runtimes_.of(cell).verify_write(run, sample, interruption_.stopped());
  if (cell.keep && round + 1 == plan_.repeats + uncounted_rounds_) made.keep();
  report(cell, round, sample, std::nullopt, run.pattern_seed);
}

}  // namespace ferry::bench
