#include "tools/session.hpp"

#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "tools/cell_run.hpp"
#include "tools/verification.hpp"

namespace ferry::bench {
namespace {

// The state that the cell asks for, brought about outside the timed region.
CacheState prepare_cache(const Cell& cell) {
  const PlainFile file(cell.path);
  if (cell.cold) return make_cold(file, cell.total_bytes);
  // Direct reads go past the page cache: it is left as it is.
  if (cell.direct) return cache_state(file, cell.total_bytes);
  return make_hot(file, cell.total_bytes);
}

// Makes the kernel hand out, and take back, the kind of memory that the timed write will get: pages
// of one file, by transfers of the same size. A virtual machine may have given free memory back to
// its host, and the first touch then fetches it page by page: writing 16 MiB took 3 or 39 ms, by
// where the pages came from.
void warm_memory(const Cell& cell) {
  constexpr std::uint64_t bytes_max = std::uint64_t{256} << 20;
  if (cell.total_bytes > bytes_max) return;
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

bool computes(const Cell& cell) {
  return cell.program != Program::stream;
}

}  // namespace

void Session::run() {
  verify_cells();
  const std::size_t count = plan_.cells.size();
  for (unsigned repeat = 0; repeat < plan_.repeats; ++repeat) {
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
  for (const Cell& cell : plan_.cells) {
    sums_.push_back(0);
    if (cell.operation != Operation::read) continue;
    on_cell(cell, [&] {
      check_readable(cell);
      verify_reads(runtimes_.of(cell), cell, interruption_.stopped());
      if (computes(cell)) sums_.back() = sum_file(cell);
    });
    report_.verified(cell);
  }
}

void Session::repeat_cell(std::size_t index, unsigned repeat) {
  const Cell& cell = plan_.cells[index];
  on_cell(cell, [&] {
    if (cell.operation == Operation::read) {
      read_once(index, repeat);
    } else {
      write_once(cell, repeat);
    }
  });
}

void Session::read_once(std::size_t index, unsigned repeat) {
  const Cell& cell = plan_.cells[index];
  const CacheState state = prepare_cache(cell);
  const Sample sample = run_cell(runtimes_.of(cell), CellRun{cell}, interruption_.stopped());
  if (computes(cell) && sample.sum != sums_[index]) {
    throw ContentsError("the sum over " + cell.path + " is wrong, by way of " +
                        name_of(cell.interface));
  }
  report_.sample(cell, repeat, sample, state, std::nullopt);
}

void Session::write_once(const Cell& cell, unsigned repeat) {
  CellRun run{cell, cell.seed + repeat, O_CREAT | O_EXCL};
  std::unique_ptr<ScratchFile> made;
  if (::access(cell.path.c_str(), F_OK) == 0) {
    if (!cell.overwrite) throw Error(EEXIST, cell.path);
    run.create_flags = O_CREAT | O_TRUNC;
  } else {
    warm_memory(cell);
    made = std::make_unique<ScratchFile>(cell.path);
  }
  Sample sample;
  try {
    sample = run_cell(runtimes_.of(cell), run, interruption_.stopped());
  } catch (const std::system_error& error) {
    if (made && error.code().value() == EEXIST) made->keep();  // somebody else made it just now
    throw;
  }
  verify_written(cell, run.pattern_seed);
  if (made && cell.keep && repeat + 1 == plan_.repeats) made->keep();
  report_.sample(cell, repeat, sample, std::nullopt, run.pattern_seed);
}

}  // namespace ferry::bench
