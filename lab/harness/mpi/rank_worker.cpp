#include "harness/mpi/rank_worker.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/file_access.hpp"
#include "harness/mpi/access.hpp"
#include "harness/mpi/rank_part.hpp"
#include "harness/pattern.hpp"
#include "harness/programs.hpp"
#include "harness/report.hpp"
#include "harness/usage.hpp"
#include "harness/verification.hpp"
#include "programs/layout_facts.hpp"
#include "programs/stored_file.hpp"
#include "storage/router.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// The kernel's counters for the whole machine, all processes included.
struct SystemCounters {
  std::uint64_t context_switches = 0;
  std::uint64_t user_cpu_ns = 0;    // in steps of a clock tick
  std::uint64_t system_cpu_ns = 0;  // likewise
  std::uint64_t network_bytes = 0;  // sent, over all interfaces, the loopback one among them
  std::uint64_t network_packets = 0;

  SystemCounters operator-(const SystemCounters& earlier) const {
    return {context_switches - earlier.context_switches, user_cpu_ns - earlier.user_cpu_ns,
            system_cpu_ns - earlier.system_cpu_ns, network_bytes - earlier.network_bytes,
            network_packets - earlier.network_packets};
  }
};

SystemCounters system_counters() {
  SystemCounters counters;
  const std::uint64_t tick_ns = 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "cpu") {
      std::uint64_t user = 0;
      std::uint64_t nice = 0;
      std::uint64_t system = 0;
      words >> user >> nice >> system;
      counters.user_cpu_ns = (user + nice) * tick_ns;
      counters.system_cpu_ns = system * tick_ns;
    } else if (key == "ctxt") {
      words >> counters.context_switches;
    }
  }
  std::ifstream network("/proc/net/dev");
  for (std::string line; std::getline(network, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    // Eight numbers of what was received, then bytes and packets that were sent.
    std::istringstream words(line.substr(colon + 1));
    std::uint64_t skip = 0;
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    for (int i = 0; i < 8; ++i)
      words >> skip;
    words >> bytes >> packets;
    counters.network_bytes += bytes;
    counters.network_packets += packets;
  }
  return counters;
}

// Absent where nothing is striped. Throws ferry::Error.
std::optional<storage::Layout> layout_of(const std::string& path) {
  const std::shared_ptr<storage::Storage> clients = side_storage();
  storage::SyncCalls calls(*clients);
  storage::Layout layout;
  const std::int64_t result =
      calls.run({.kind = storage::Kind::path_layout, .path = path.c_str(), .layout = &layout});
  if (result == -EOPNOTSUPP) return std::nullopt;
  storage::checked(result, "the layout of " + path);
  return layout;
}

// A rank's file as the measured loops see it. What they do not call stays with RankAccess.
class StreamedFile final : public FileAccess {
 public:
  StreamedFile(RankAccess& access, const RankPart& part)
      : FileAccess(part.path()), access_(access) {}

  void open(int /*flags*/) override { access_.open(); }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return transfer(MeasuredOperation::read, data, bytes, offset);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return transfer(MeasuredOperation::write, const_cast<void*>(data), bytes, offset);
  }
  void sync() override { access_.sync(); }
  void close() override { access_.close(); }

 private:
  std::int64_t transfer(MeasuredOperation operation, void* data, std::uint64_t bytes,
                        std::uint64_t offset) {
    access_.transfer(operation, static_cast<std::byte*>(data), offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }

  RankAccess& access_;
};

class RankRepeat {
 public:
  RankRepeat(const Ranks& team, const Cell& cell, const RankRun& run, std::byte* memory,
             storage::Storage& storage)
      : team_(team),
        cell_(cell),
        pattern_seed_(run.pattern_seed),
        memory_(memory),
        thread_part_(part_of(cell, parts_by_thread(cell, run.repeat)[team.rank()])),
        part_(cell, parts_by_thread(cell, run.repeat)[team.rank()]),
        file_team_(cell.file_per_writer || cell.file_per_thread
                       ? team.split(static_cast<int>(part_.file))
                       : nullptr),
        access_(make_access({team_, file_team_ ? *file_team_ : team_}, part_, storage)) {}

  Sample run(const std::atomic<bool>& stopped) {
    make_input(stopped);
    fill_memory();
    team_.agree(stopped ? EINTR : 0, "interrupted");
    const SystemCounters system = system_counters();
    const StorageCounters before = read_storage_counters("");
    const StorageCounters storage = read_storage_counters("");
    const StorageCounters asking = storage - before;
    const Usage usage = process_usage();
    time_phases();
    const auto counted = access_->counted();
    phase("closing", sample_.close_ns, [&] { access_->close(); });
    sample_.callers = process_usage() - usage;
    sample_.storage = read_storage_counters("") - storage - asking;
    const SystemCounters machine = system_counters() - system;
    add_up();
    compare_memory();
    if (team_.rank() == 0) sample_.of_ranks = std::make_shared<const Json>(facts(machine, counted));
    return sample_;
  }

  // One pass that is not timed.
  void verify() {
    const std::string tried = "reading " + cell_.path + ", by way of " + name_of(cell_.interface);
    std::optional<Expected> contents;
    team_.agree_on(tried, [&] { contents.emplace(cell_, part_.file); });
    team_.agree_on(tried, [&] { access_->open(); });
    team_.agree_on(tried, [&] {
      std::vector<std::byte> expected(cell_.transfer_bytes);
      std::optional<Error> failed;  // the others wait for this rank's transfers all the same
      for (std::uint64_t at = 0; at < part_.bytes(); at += expected.size()) {
        try {
          contents->get(expected.data(), expected.size(), part_.offset_of(at));
        } catch (const Error& error) {
          if (!failed) failed = error;
        }
        std::memset(memory_, static_cast<int>(~expected[0]), expected.size());
        access_->transfer(MeasuredOperation::read, memory_, part_.offset_of(at), expected.size());
        wrong_ = wrong_ || std::memcmp(memory_, expected.data(), expected.size()) != 0;
      }
      access_->end_transfers();
      if (failed) throw Error(*failed);
    });
    team_.agree_on(tried, [&] { access_->close(); });
    agree_on_contents();
  }

  // What this rank did in run(), of a cell that streams.
  const ProgramOutput& output() const { return output_; }

 private:
  bool reads() const { return cell_.operation == MeasuredOperation::read; }
  std::uint64_t seed() const { return file_seed(pattern_seed_.value_or(0), part_.file); }

  // Of ranks that stream, what threads have. A rank whose calls are collective does not end before
  // the others do.
  void make_input(const std::atomic<bool>& stopped) {
    if (!cell_.streams) return;
    order_ = make_order(cell_, team_.rank());
    files_.push_back(std::make_unique<StreamedFile>(*access_, part_));
    input_.emplace(ProgramInput{cell_, files_, 0, reinterpret_cast<unsigned char*>(memory_),
                                thread_part_, seed(), order_,
                                cell_.collective ? never_stopped_ : stopped, team_.rank()});
    input_->notes_wrong = true;
    if (!cell_.collective) return;
    input_->agree_on_time = [this, &stopped](std::uint64_t elapsed_ns) {
      // Positive also where MPICH takes unsigned numbers for signed ones.
      constexpr std::uint64_t interrupted = std::uint64_t{1} << 62;
      constexpr std::uint64_t failed = std::uint64_t{1} << 61;
      std::uint64_t agreed = team_.rank() == 0 ? elapsed_ns : 0;
      if (stopped) agreed = interrupted;
      if (access_->has_failed()) agreed = std::max(agreed, failed);
      team_.maximum({&agreed});
      if (agreed == interrupted) throw Error(EINTR, "interrupted");
      return agreed;
    };
  }

  void fill_memory() {
    if (input_) return prepare_buffer(*input_);
    if (reads()) {
      std::memset(memory_, 0xa5, part_.bytes());
      return;
    }
    part_.for_each_piece(0, part_.bytes(), [&](auto offset, auto stream, auto bytes) {
      fill_pattern(memory_ + stream, bytes, offset, seed());
    });
  }

  // Begins on all ranks together; what fails on one is thrown on all.
  template <class Step>
  void phase(const char* what, std::uint64_t& time_ns, Step step) {
    team_.agree(0, "");
    const std::string tried =
        std::string(what) + " " + part_.path() + ", by way of " + name_of(cell_.interface);
    team_.agree_on(tried, [&] {
      const std::uint64_t begin_ns = now_ns();
      step();
      time_ns = now_ns() - begin_ns;
    });
  }

  void time_phases() {
    phase("opening", sample_.open_ns, [&] { access_->open(); });
    phase(reads() ? "reading" : "writing", sample_.io_ns, [&] {
      input_ ? run_program(*input_, output_) : move_memory();
      access_->end_transfers();
    });
    if (cell_.syncs()) phase("syncing", sample_.sync_ns, [&] { access_->sync(); });
  }

  void move_memory() {
    const std::uint64_t bytes = cell_.transfer_bytes;
    for (std::uint64_t at = 0; at < part_.bytes(); at += bytes)
      access_->transfer(cell_.operation, memory_ + at, part_.offset_of(at), bytes);
  }

  // Times: the slowest rank's. Everything else: of all ranks together.
  void add_up() {
    team_.maximum({&sample_.open_ns, &sample_.io_ns, &sample_.sync_ns, &sample_.close_ns});
    sample_.bytes = sample_.distinct_bytes = cell_.total_bytes;
    sample_.operations = cell_.total_bytes / cell_.transfer_bytes;
    if (input_) add_up_calls();
    sample_.elapsed_ns = sample_.open_ns + sample_.io_ns + sample_.sync_ns + sample_.close_ns;
    Usage& usage = sample_.callers;
    StorageCounters& storage = sample_.storage;
    const auto or_zero = [](auto& count) { return &count.emplace(count.value_or(0)); };
    team_.sum({&usage.user_cpu_ns, &usage.system_cpu_ns, &usage.voluntary_switches,
               &usage.involuntary_switches, or_zero(storage.read_calls),
               or_zero(storage.write_calls), or_zero(storage.process_read_bytes)});
  }

  // Without those of the ramp, which is as long as the shortest one of any rank.
  void add_up_calls() {
    std::uint64_t reached = output_.deadline_reached ? 1 : 0;
    std::uint64_t after_ramp_ns = UINT64_MAX - output_.ramp_ns;
    sample_.latencies = output_.latencies;
    sample_.read_latencies = output_.read_latencies;
    team_.maximum({&reached, &after_ramp_ns, &sample_.latencies.longest_ns,
                   &sample_.read_latencies.longest_ns});
    sample_.deadline_reached = reached != 0;
    sample_.io_ns -= UINT64_MAX - after_ramp_ns;
    sample_.operations = output_.operations - output_.ramp_operations;
    sample_.read_operations = output_.read_operations;
    std::uint64_t places = sample_.operations;
    if (cell_.may_leave_places()) {
      const std::vector<bool> found = places_of(cell_, team_.rank(), output_.operations);
      places = static_cast<std::uint64_t>(std::count(found.begin(), found.end(), true));
    }
    team_.sum({&sample_.operations, &sample_.read_operations, &places});
    team_.sum(std::span(sample_.latencies.calls));
    if (cell_.mixes()) team_.sum(std::span(sample_.read_latencies.calls));
    sample_.bytes = sample_.operations * cell_.transfer_bytes;
    sample_.distinct_bytes = places * cell_.transfer_bytes;
  }

  // What was read, as far as it was not compared before.
  void compare_memory() {
    if (!reads() && !cell_.mixes()) return;
    if (input_) {
      team_.agree_on("reading " + cell_.path, [&] { compare_last(); });
    } else {
      PatternChecker checker(seed());
      part_.for_each_piece(0, part_.bytes(), [&](auto offset, auto stream, auto bytes) {
        if (checker.first_difference(memory_ + stream, bytes, offset) != bytes) wrong_ = true;
      });
    }
    agree_on_contents();
  }

  void compare_last() {
    wrong_ = wrong_ || output_.wrong;
    try {
      if (reads()) verify_buffer(*input_, output_.operations);
      verify_last_reads(*input_, output_);
    } catch (const ContentsError&) {
      wrong_ = true;
    }
  }

  void agree_on_contents() {
    team_.agree(wrong_ ? EBADMSG : 0, "the contents of " + cell_.path + " are wrong, by way of " +
                                          name_of(cell_.interface));
  }

  // `machine` is rank 0's; `counted` is over all files.
  Json facts(const SystemCounters& machine,
             const std::optional<collective::Statistics>& counted) const {
    // As the library tells it.
    const Json told = counted ? Json::parse(collective::to_json(*counted)) : Json();
    const auto of = [&](const char* key) { return counted ? told[key] : Json(nullptr); };
    const bool by_views = counted && cell_.interface == Interface::ferry;
    const auto of_views = [&](const char* key) { return by_views ? told[key] : Json(nullptr); };
    Json usage = usage_json(sample_.callers);
    usage["read_calls"] = *sample_.storage.read_calls;
    usage["write_calls"] = *sample_.storage.write_calls;
    const auto layout = layout_of(file_path(cell_, 0));
    return {{"writers", of("writers")},
            {"method", of_views("method")},
            {"reason", of_views("reason")},
            {"oversubscribed", team_.is_oversubscribed()},
            {"ranks_usage", std::move(usage)},
            {"machine_usage",
             {{"user_cpu_ns", machine.user_cpu_ns},
              {"system_cpu_ns", machine.system_cpu_ns},
              {"context_switches", machine.context_switches},
              {"network_bytes", machine.network_bytes},
              {"network_packets", machine.network_packets}}},
            {"counts", of("counts")},
            {"time_split",
             counted ? Json{{"mean", told["mean"]}, {"maximum", told["maximum"]}} : Json(nullptr)},
            {"stripes", of_views("stripes")},
            {"layout", layout ? layout_facts(*layout) : Json(nullptr)},
            {"pattern_seed", pattern_seed_ ? Json(*pattern_seed_) : Json(nullptr)}};
  }

  const Ranks& team_;
  const Cell& cell_;
  const std::optional<std::uint64_t> pattern_seed_;
  std::byte* const memory_;
  const ThreadPart thread_part_;  // of the cell that streams
  const RankPart part_;
  const std::unique_ptr<Ranks> file_team_;  // for interfaces that know of one file only
  std::unique_ptr<RankAccess> access_;
  bool wrong_ = false;  // what was read
  Sample sample_;
  // Where the cell streams.
  Accesses files_;
  std::vector<std::uint32_t> order_;
  const std::atomic<bool> never_stopped_{false};
  std::optional<ProgramInput> input_;
  ProgramOutput output_;
};

}  // namespace

RankWorker::RankWorker(const Ranks& world, const Plan& plan)
    : plan_(plan), storage_(storage::make_router()) {
  std::uint64_t bytes = 0;
  for (const Cell& cell : plan.cells) {
    bytes = std::max(bytes, cell.streams ? cell.buffer_bytes() : cell.part_bytes());
    if (teams_.count(cell.threads) == 0)
      teams_[cell.threads] = world.split(world.rank() < cell.threads ? 0 : MPI_UNDEFINED);
  }
  constexpr std::size_t alignment = 4096;
  std::size_t space = bytes + alignment;
  memory_.resize(space);
  void* begin = memory_.data();
  data_ = static_cast<std::byte*>(std::align(alignment, bytes, begin, space));
}

std::pair<Cell, const Ranks*> RankWorker::find(const RankRun& run) const {
  Cell cell = plan_.cells[run.cell];
  const Ranks* const team = teams_.at(cell.threads).get();
  if (cell.operation == MeasuredOperation::read) cell.expect_pattern_seed = run.pattern_seed;
  return {std::move(cell), team};
}

Sample RankWorker::run(const RankRun& run, const std::atomic<bool>& stopped) {
  const auto [cell, team] = find(run);
  if (team == nullptr) return {};
  RankRepeat repeat(*team, cell, run, data_, *storage_);
  Sample sample = repeat.run(stopped);
  calls_ = repeat.output().operations;
  is_partial_ = sample.deadline_reached || cell.may_leave_places() || cell.mixes();
  return sample;
}

void RankWorker::verify_reads(const RankRun& run) {
  auto [cell, team] = find(run);
  if (team == nullptr) return;
  cell.operation = MeasuredOperation::read;
  cell.read_percent = 0;
  cell.expect_pattern_seed = run.pattern_seed;
  RankRepeat(*team, cell, run, data_, *storage_).verify();
}

// This rank's share of what the last repeat has written. With `whole`, of all that the cell was to
// write.
void RankWorker::verify_share(const Cell& cell, std::uint64_t seed, unsigned rank,
                              bool whole) const {
  if (!whole) return verify_part_written(cell, seed, rank, calls_);
  const RankPart part(cell, rank);
  const std::uint64_t begin = part.index * part.bytes();
  verify_written(cell, seed, part.file, begin, begin + part.bytes());
}

void RankWorker::verify(const RankRun& run) {
  const auto [cell, team] = find(run);
  if (team == nullptr) return;
  const std::uint64_t seed = run.pattern_seed.value_or(0);
  const auto agree_on = [&, &cell = cell, &team = team](const auto& step) {
    int error = 0;
    std::string what = "verifying " + cell.path;
    try {
      step();
    } catch (const ContentsError& failed) {
      error = EBADMSG;
      what = failed.what();
    } catch (const Error& failed) {
      error = failed.code().value();
      what = failed.reason();
    }
    team->agree(error, what);
  };
  const unsigned rank = team->rank();
  if (is_partial_) {
    agree_on([&, &cell = cell] { verify_share(cell, seed, rank, false); });
    if (cell.mixes() || (!cell.keep && !cell.check)) return;
    agree_on([&, &cell = cell] { complete_part(cell, seed, rank, calls_); });
  }
  agree_on([&, &cell = cell] { verify_share(cell, seed, rank, true); });
}

}  // namespace ferry::bench
