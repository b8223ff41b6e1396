#include "harness/mpi/cell_run.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/cpus.hpp"
#include "harness/contents.hpp"
#include "harness/pattern.hpp"
#include "harness/storage_counters.hpp"

namespace ferry::bench::mpi {
namespace {

using collective::Team;

// The ranks that share this rank's file, for interfaces that know of one only.
std::unique_ptr<Team> split_by_file(const Team& team, const Part& part) {
  if (!part.cell.file_per_writer) return nullptr;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_split(team.communicator(), static_cast<int>(part.file), team.rank(), &communicator);
  auto made = std::make_unique<Team>(communicator);
  MPI_Comm_free(&communicator);
  return made;
}

bool is_oversubscribed(const Team& team) {
  for (const int node : team.node_of()) {
    const auto ranks = std::count(team.node_of().begin(), team.node_of().end(), node);
    if (ranks > static_cast<std::ptrdiff_t>(usable_cpus())) return true;
  }
  return false;
}

class Repeat {
 public:
  Repeat(const Team& team, const Cell& cell, std::uint64_t pattern_seed,
         std::vector<std::byte>& memory, Files& files)
      : team_(team),
        cell_(cell),
        pattern_seed_(pattern_seed),
        memory_(memory),
        part_(cell, static_cast<unsigned>(team.rank())),
        file_team_(split_by_file(team, part_)),
        access_(make_access({team_, file_team()}, part_, files.storage())) {}

  Sample run() {
    fill_memory();
    team_.agree(0, "");
    const SystemCounters system = system_counters();
    const StorageCounters storage = read_storage_counters("");
    const CallCounters before = call_counters();
    const CallCounters calls = call_counters();
    const CallCounters own = calls - before;  // what the asking costs
    const Usage usage = process_usage();
    time_phases();
    sample_.counted = access_->counted();
    phase("closing", sample_.close_ns, [&] { access_->close(); });
    sample_.usage = process_usage() - usage;
    sample_.calls = call_counters() - calls - own;
    sample_.process_read_bytes =
        (read_storage_counters("") - storage).process_read_bytes.value_or(0);
    sample_.system = system_counters() - system;
    add_up();
    sample_.oversubscribed = is_oversubscribed(team_);
    sample_.pattern_seed = pattern_seed_;
    if (cell_.operation == Operation::read) compare_memory();
    return sample_;
  }

 private:
  const Team& file_team() const { return file_team_ ? *file_team_ : team_; }
  std::uint64_t seed() const { return part_.seed(pattern_seed_); }

  void fill_memory() {
    if (cell_.operation == Operation::read) {
      std::memset(memory_.data(), 0xa5, part_.bytes());
      return;
    }
    part_.for_each_piece(0, part_.bytes(), [&](auto offset, auto stream, auto bytes) {
      fill_pattern(memory_.data() + stream, bytes, offset, seed());
    });
  }

  // Begins on all ranks together; what fails on one is thrown on all.
  template <class Step>
  void phase(const char* what, std::uint64_t& time_ns, Step step) {
    team_.agree(0, "");
    int error = 0;
    const std::uint64_t begin_ns = now_ns();
    try {
      step();
    } catch (const Error& failed) {
      error = failed.code().value();
    }
    time_ns = now_ns() - begin_ns;
    team_.agree(error,
                std::string(what) + " " + part_.path() + ", by way of " + name_of(cell_.interface));
  }

  void time_phases() {
    phase("opening", sample_.open_ns, [&] { access_->open(); });
    const char* const moving = cell_.operation == Operation::write ? "writing" : "reading";
    phase(moving, sample_.io_ns, [&] {
      for (std::uint64_t at = 0; at < part_.bytes(); at += cell_.transfer_bytes)
        access_->transfer(memory_.data() + at, at, cell_.transfer_bytes);
    });
    if (cell_.sync) phase("syncing", sample_.sync_ns, [&] { access_->sync(); });
  }

  // Times: the slowest rank's. Everything else: of all ranks together.
  void add_up() {
    std::array<std::int64_t, 4> times = {
        static_cast<std::int64_t>(sample_.open_ns), static_cast<std::int64_t>(sample_.io_ns),
        static_cast<std::int64_t>(sample_.sync_ns), static_cast<std::int64_t>(sample_.close_ns)};
    team_.maximum(times);
    sample_.open_ns = static_cast<std::uint64_t>(times[0]);
    sample_.io_ns = static_cast<std::uint64_t>(times[1]);
    sample_.sync_ns = static_cast<std::uint64_t>(times[2]);
    sample_.close_ns = static_cast<std::uint64_t>(times[3]);
    std::uint64_t* const sums[] = {&sample_.usage.user_cpu_ns,
                                   &sample_.usage.system_cpu_ns,
                                   &sample_.usage.voluntary_switches,
                                   &sample_.usage.involuntary_switches,
                                   &sample_.calls.reads,
                                   &sample_.calls.writes,
                                   &sample_.process_read_bytes};
    std::array<double, std::size(sums)> values{};
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(*sums[i]);
    team_.sum(values);
    for (std::size_t i = 0; i < values.size(); ++i)
      *sums[i] = static_cast<std::uint64_t>(values[i]);
    sample_.bytes = cell_.total_bytes;
    sample_.operations = cell_.total_bytes / cell_.transfer_bytes;
  }

  void compare_memory() {
    PatternChecker checker(seed());
    int error = 0;
    part_.for_each_piece(0, part_.bytes(), [&](auto offset, auto stream, auto bytes) {
      if (checker.first_difference(memory_.data() + stream, bytes, offset) != bytes)
        error = EBADMSG;
    });
    team_.agree(error, "the contents of " + part_.path() + " are wrong, by way of " +
                           name_of(cell_.interface));
  }

  const Team& team_;
  const Cell& cell_;
  const std::uint64_t pattern_seed_;
  std::vector<std::byte>& memory_;
  const Part part_;
  const std::unique_ptr<Team> file_team_;
  std::unique_ptr<Access> access_;
  Sample sample_;
};

}  // namespace

Sample run_cell(const Team& team, const Cell& cell, std::uint64_t pattern_seed,
                std::vector<std::byte>& memory, Files& files) {
  return Repeat(team, cell, pattern_seed, memory, files).run();
}

}  // namespace ferry::bench::mpi
