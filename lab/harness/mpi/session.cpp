#include "harness/mpi/session.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

#include "harness/contents.hpp"
#include "storage/uri.hpp"

namespace ferry::bench::mpi {
namespace {

using collective::Team;

std::uint64_t file_bytes(const Cell& cell, unsigned file) {
  if (!cell.file_per_writer) return cell.total_bytes;
  return (Part::first_rank(cell, file + 1) - Part::first_rank(cell, file)) * cell.part_bytes();
}

}  // namespace

Session::Session(MPI_Comm world, const Plan& plan, Files& files, MadeFiles& made,
                 const std::atomic<bool>& stopped)
    : plan_(plan), files_(files), made_(made), stopped_(stopped), world_(world) {
  std::set<unsigned> counts;
  std::uint64_t bytes = 0;
  for (const Cell& cell : plan.cells) {
    counts.insert(cell.ranks);
    bytes = std::max(bytes, cell.part_bytes());
  }
  for (const unsigned count : counts) {
    const bool inside = world_.rank() < static_cast<int>(count);
    MPI_Comm communicator = MPI_COMM_NULL;
    MPI_Comm_split(world, inside ? 0 : MPI_UNDEFINED, world_.rank(), &communicator);
    if (!inside) continue;
    teams_[count] = std::make_unique<Team>(communicator);
    MPI_Comm_free(&communicator);
  }
  memory_.resize(bytes);
}

const Team* Session::team_of(const Cell& cell) const {
  const auto found = teams_.find(cell.ranks);
  return found == teams_.end() ? nullptr : found->second.get();
}

void Session::run() {
  for (const Cell& cell : plan_.cells) {
    on_cell(cell, [&] {
      for (unsigned file = 0; file < cell.files() && world_.rank() == 0; ++file) {
        const std::string path = Part::path_of(cell, file);
        if (files_.exists(path)) throw Error(EEXIST, path);
      }
    });
  }
  for (int repeat = -1; repeat < static_cast<int>(plan_.repeats); ++repeat) {
    for (std::size_t i = 0; i < plan_.cells.size(); ++i) {
      const Cell& cell = plan_.cells[repeat % 2 == 0 ? i : plan_.cells.size() - 1 - i];
      check_stopped(cell);
      on_cell(cell, [&] { measure(cell, repeat); });
    }
  }
}

void Session::check_stopped(const Cell& cell) const {
  std::int64_t stopped = stopped_.load() ? 1 : 0;
  world_.maximum(std::span(&stopped, 1));
  if (stopped != 0) throw CellFailure(cell.id, EINTR, "interrupted");
}

// What fails on any rank ends the session on all, those that wait included.
template <class Work>
void Session::on_cell(const Cell& cell, Work work) {
  int error = 0;
  std::string message;
  try {
    work();
  } catch (const ContentsError& failed) {
    error = EBADMSG;
    message = failed.what();
  } catch (const Error& failed) {
    error = failed.code().value();
    message = failed.what();
  }
  try {
    world_.agree(error, "another rank failed");
  } catch (const Error& failed) {
    const int number = failed.code().value();
    throw CellFailure(cell.id, number == EBADMSG ? 0 : number,
                      message.empty() ? failed.what() : message);
  }
}

void Session::measure(const Cell& cell, int repeat) {
  const Team* const team = team_of(cell);
  if (team == nullptr) return;
  const bool leads = team->rank() == 0;
  const bool writes = cell.operation == Operation::write;
  const std::uint64_t pattern_seed =
      writes ? cell.seed + static_cast<std::uint64_t>(repeat + 1) * cell.ranks : cell.seed;
  std::optional<CacheState> state;
  int error = 0;
  std::string what;
  try {
    if (leads) state = prepare(cell);
  } catch (const Error& failed) {
    error = failed.code().value();
    what = failed.what();
  }
  team->agree(error, what);
  const Sample sample = run_cell(*team, cell, pattern_seed, memory_, files_);
  if (state) state = confirm(*state, sample.bytes, sample.process_read_bytes);
  if (!leads) {
    if (writes) finish(cell, *team, pattern_seed);
    return;
  }
  const auto layout = files_.layout_of(Part::path_of(cell, 0));
  if (writes) finish(cell, *team, pattern_seed);
  if (repeat >= 0) print_sample(cell, repeat, sample, state, layout);
}

// Rank 0 makes what is read, and what must be there before it is written. The state is absent for
// writes.
std::optional<CacheState> Session::prepare(const Cell& cell) {
  for (unsigned file = 0; file < cell.files(); ++file) {
    const std::string path = Part::path_of(cell, file);
    if (cell.operation == Operation::write) {
      made_.add(path);
      // Ferry's own views make it with its stripes themselves.
      if (cell.is_striped() && cell.interface != Interface::ferry) files_.make_striped(cell, path);
    } else if (!made_.has(path)) {
      made_.add(path);
      files_.make(cell, path, file_bytes(cell, file), cell.seed + file);
    }
  }
  if (cell.operation == Operation::write) return std::nullopt;
  return prepare_cache(cell);
}

// What a client library or a server has in its memory nobody tells.
CacheState Session::prepare_cache(const Cell& cell) {
  if (storage::scheme_of(cell.path) != storage::Scheme::posix) return CacheState::unverified;
  const CacheState wanted = cell.cold ? CacheState::cold : CacheState::hot;
  bool same = true;
  for (unsigned file = 0; file < cell.files(); ++file) {
    const PlainFile plain(Part::path_of(cell, file));
    const std::uint64_t bytes = file_bytes(cell, file);
    same = (cell.cold ? make_cold(plain, bytes) : make_hot(plain, bytes)) == wanted && same;
  }
  return same ? wanted : CacheState::unverified;
}

// Verifies what was written, each rank a part of its file, and removes it.
void Session::finish(const Cell& cell, const Team& team, std::uint64_t pattern_seed) {
  const Part part(cell, static_cast<unsigned>(team.rank()));
  int error = 0;
  std::string what;
  try {
    const std::uint64_t begin = part.index * part.bytes();
    files_.check_size(part.path(), part.file_bytes());
    files_.verify(cell, part.path(), begin, begin + part.bytes(), part.seed(pattern_seed));
  } catch (const ContentsError& failed) {
    error = EBADMSG;
    what = failed.what();
  } catch (const Error& failed) {
    error = failed.code().value();
    what = failed.what();
  }
  team.agree(error, what.empty() ? "verifying " + cell.path : what);
  if (team.rank() != 0) return;
  for (unsigned file = 0; file < cell.files(); ++file)
    made_.remove(Part::path_of(cell, file));
}

}  // namespace ferry::bench::mpi
