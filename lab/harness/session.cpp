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
std::optional<CacheState> state_of_remote_read(const Cell& cell, std::uint64_t distinct_bytes,
                                               const StorageCounters& storage) {
  if (cell.warm) return std::nullopt;
  const CacheState state = state_by_network(distinct_bytes, storage.network_read_bytes);
  return cell.cold && state != CacheState::cold ? CacheState::unverified : state;
}

std::vector<std::string> paths_of(const Cell& cell) {
  std::vector<std::string> paths;
  for (unsigned i = 0; i < file_count(cell); ++i)
    paths.push_back(file_path(cell, i));
  return paths;
}

// Another process has just made a file of that name: it is not to be removed.
template <class Work>
void keeping_anothers(ScratchFiles& made, Work work) {
  try {
    work();
  } catch (const std::system_error& error) {
    if (error.code().value() == EEXIST) made.keep();
    throw;
  }
}

}  // namespace

template <class Work>
void Session::on_cell(const Cell& cell, Work work) {
  const std::string job = cell.group.empty() ? "" : "[" + cell.id + "] ";
  try {
    work();
    interruption_.check();
  } catch (const ContentsError& error) {
    throw CellFailure(cell.id, 0, job + error.what());
  } catch (const std::system_error& error) {
    // Interrupted calls end with several errors; the reason is one. Ranks agree on EINTR where a
    // signal reached another than the first.
    const int number = error.code().value();
    if (interruption_.stopped() || number == EINTR)
      throw CellFailure(cell.id, EINTR, "interrupted");
    throw CellFailure(cell.id, number, job + error.what());
  }
}

void Session::run() {
  const std::uint64_t begin_ns = now_ns();
  const std::size_t count = groups_.size();
  const unsigned rounds = plan_.repeats + uncounted_rounds_;
  for (const std::vector<std::size_t>& group : groups_) {
    for (const std::size_t i : group)
      prepare(cells_[i], group);
    for (unsigned round = 0; plan_.in_order && round < rounds; ++round)
      run_once(group, round);
  }
  if (plan_.in_order) return;
  for (unsigned round = 0; round < rounds; ++round) {
    const std::uint64_t elapsed_ms = (now_ns() - begin_ns) / 1'000'000;
    const bool late = plan_.time_limit_ms != 0 && elapsed_ms >= plan_.time_limit_ms;
    if (late && round > uncounted_rounds_) break;
    const bool forward = (round + uncounted_rounds_) % 2 == 0;
    for (std::size_t i = 0; i < count; ++i)
      run_once(groups_[forward ? i : count - 1 - i], round);
  }
}

void Session::run_once(const std::vector<std::size_t>& group, unsigned round) {
  interruption_.check();
  const std::size_t first = group.front();
  if (!cells_[first].group.empty()) return group_once(group, round);
  const bool reads = cells_[first].operation == MeasuredOperation::read;
  on_cell(cells_[first], [&] { reads ? read_once(first, round) : write_once(first, round); });
}

// The job that writes the file of a reader of its group; null where none does.
const Cell* Session::writer_of(const std::vector<std::size_t>& group, const Cell& reader) const {
  for (const std::size_t i : group)
    if (reads_from(reader, cells_[i])) return &cells_[i];
  return nullptr;
}

void Session::prepare(Cell& cell, const std::vector<std::size_t>& group) {
  block_devices_.push_back(block_device_of(cell));
  sums_.push_back(0);
  if (cell.operation != MeasuredOperation::read || writer_of(group, cell) != nullptr) return;
  on_cell(cell, [&] {
    if (cell.make || (plan_.device == Device::ranks && !cell.streams)) make_files(cell);
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
      make_file(cell, cell.seed, i, interruption_.stopped());
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

// Of the file in the kernel's page cache, where the cell asks for one; nothing where that does not
// say how it is read. Of places far apart, which the device's cache is to answer, nothing is said:
// looking at all that lies between would take longer than reading them.
std::optional<CacheState> Session::state_before(const Cell& cell) const {
  const bool apart = cell.warm && cell.stride_bytes != 0;
  return is_uri(cell.path) || apart ? std::nullopt : std::optional(prepare_cache(cell));
}

// What the storage gave meanwhile confirms that, or denies it.
std::optional<CacheState> Session::state_after(const Cell& cell, std::optional<CacheState> before,
                                               std::uint64_t distinct_bytes,
                                               const StorageCounters& storage) {
  if (is_uri(cell.path)) return state_of_remote_read(cell, distinct_bytes, storage);
  // What a direct read brings from the storage says nothing about the page cache.
  if (!before || (cell.direct && !cell.cold)) return before;
  return confirm(*before, distinct_bytes, storage.process_read_bytes);
}

void Session::read_once(std::size_t index, unsigned round) {
  const Cell& cell = cells_[index];
  const std::optional<CacheState> state = state_before(cell);
  const CellRun run{cell, round, 0, 0, block_devices_[index]};
  for (std::uint64_t pass = 0; pass < settling_passes(cell); ++pass)
    runtimes_.of(cell).run_cell(run, interruption_.stopped());
  const Sample sample = runtimes_.of(cell).run_cell(run, interruption_.stopped());
  if (cell.computes() && sample.sum != sums_[index]) {
    throw ContentsError("the sum over " + cell.path + " is wrong, by way of " +
                        name_of(cell.interface));
  }
  report(cell, round, sample, state_after(cell, state, sample.distinct_bytes, sample.storage),
         std::nullopt);
}

// What the storage gave is counted for all jobs together. So a cold one is proven where all reads
// of the group have come from it, a hot one where none has.
void Session::group_once(const std::vector<std::size_t>& group, unsigned round) {
  std::vector<Cell> cells;  // with what is there in this repeat
  for (const std::size_t i : group) {
    Cell& cell = cells.emplace_back(cells_[i]);
    if (const Cell* const writer = writer_of(group, cell)) {
      cell.meanwhile_pattern_seed = writer->seed + round;
      cell.expect_pattern_seed = made_seed_of(*cell.meanwhile_pattern_seed);
    }
  }
  std::vector<CellRun> runs;
  std::vector<std::optional<CacheState>> states(group.size());
  std::vector<std::unique_ptr<ScratchFiles>> made(group.size());
  const auto on_job = [&](std::size_t job, const auto& work) {
    on_cell(cells[job], [&] { work(cells[job]); });
  };
  for (std::size_t job = 0; job < group.size(); ++job) {
    on_job(job, [&](const Cell& cell) {
      if (cell.operation == MeasuredOperation::read) {
        runs.push_back({cell, round, 0, 0, block_devices_[group[job]]});
        return;
      }
      std::vector<std::string> fresh;
      runs.push_back(begin_write(group[job], round, fresh));
      made[job] = std::make_unique<ScratchFiles>(std::move(fresh));
      keeping_anothers(*made[job], [&] { make_written(runs.back()); });
    });
  }
  for (std::size_t job = 0; job < group.size(); ++job) {
    on_job(job, [&](const Cell& cell) {
      if (cell.operation != MeasuredOperation::read) return;
      if (cell.meanwhile_pattern_seed && round == 0)
        runtimes_.of(cell).verify_reads(cell, interruption_.stopped());
      states[job] = state_before(cell);
    });
  }
  GroupSample sample;
  try {
    sample = runtimes_.of(cells_[group.front()]).run_group(runs, interruption_.stopped());
  } catch (const JobFailure& failure) {
    on_job(failure.job, [&](const Cell&) {
      const auto rethrow = [&] { std::rethrow_exception(failure.error); };
      if (made[failure.job]) keeping_anothers(*made[failure.job], rethrow);
      rethrow();
    });
  }
  std::uint64_t read_bytes = 0;
  for (std::size_t job = 0; job < group.size(); ++job)
    if (runs[job].cell.operation == MeasuredOperation::read)
      read_bytes += sample.jobs[job].distinct_bytes;
  for (std::size_t job = 0; job < group.size(); ++job) {
    on_job(job, [&](const Cell& cell) {
      const bool reads = cell.operation == MeasuredOperation::read;
      if (reads) {
        states[job] = state_after(cell, states[job], read_bytes, sample.all.storage);
      } else {
        end_write(runs[job], sample.jobs[job], *made[job]);
      }
      report_job(cell, round, sample.jobs[job], sample.begin_ns, states[job],
                 reads ? std::nullopt : std::optional(runs[job].pattern_seed));
    });
  }
  on_job(0, [&](const Cell& cell) { report_group(cell, round, sample.all, sample.begin_ns); });
}

void Session::metadata_once(const Cell& cell, unsigned round) {
  for (const std::string& path : paths_of(cell))
    if (file_exists(path)) throw Error(EEXIST, path);
  const CellRun run{cell, round, cell.seed + round, 0, ""};
  report_metadata(cell, round, runtimes_.of(cell).run_metadata(run, interruption_.stopped()));
}

// Looks for the files; `fresh` are those that are not there.
CellRun Session::begin_write(std::size_t index, unsigned round, std::vector<std::string>& fresh) {
  const Cell& cell = cells_[index];
  CellRun run{cell, round, cell.seed + round, O_CREAT | O_EXCL, block_devices_[index]};
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
  return run;
}

// Makes the files where that is not the cell's own to do.
void Session::make_written(CellRun& run) {
  const Cell& cell = run.cell;
  if (cell.rewrite) {
    for (unsigned i = 0; i < file_count(cell); ++i)
      make_file(cell, made_seed_of(run.pattern_seed), i, interruption_.stopped());
    run.create_flags = 0;
  }
  if (cell.mixes() && run.repeat == 0) {
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
}

void Session::end_write(const CellRun& run, const Sample& sample, ScratchFiles& made) {
  runtimes_.of(run.cell).verify_write(run, sample, interruption_.stopped());
  if (run.cell.keep && run.repeat + 1 == plan_.repeats + uncounted_rounds_) made.keep();
}

void Session::write_once(std::size_t index, unsigned round) {
  const Cell& cell = cells_[index];
  if (cell.program == Program::metadata) return metadata_once(cell, round);
  std::vector<std::string> fresh;
  CellRun run = begin_write(index, round, fresh);
  ScratchFiles made(std::move(fresh));
  Sample sample;
  keeping_anothers(made, [&] {
    make_written(run);
    sample = runtimes_.of(cell).run_cell(run, interruption_.stopped());
  });
  end_write(run, sample, made);
  report(cell, round, sample, std::nullopt, run.pattern_seed);
}

}  // namespace ferry::bench
