// On one rank each operation of the storage fails, each system call of the library or each
// allocation, for every one that a program of collective calls makes: all ranks are told the same,
// no call hangs, what was acknowledged is there, the next call works, and nothing is left behind.
#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <new>

#include "collective/world.hpp"
#include "faults/allocations.hpp"
#include "faults/nth_storage.hpp"
#include "faults/resources.hpp"
#include "faults/system_calls.hpp"

namespace ferry::collective {
namespace {

using namespace test;

// What fails on one rank.
struct RankFault {
  NthPoint& point;
  std::function<int()> error;  // that it struck with
  std::function<bool(int error)> is_expected = [](int /*error*/) { return false; };  // others
  bool is_late = false;  // what failed may happen later, and makes other calls fail
  // Whether what struck is no question that a call can do without.
  std::function<bool()> must_fail = [] { return false; };
  bool may_fail_open = true;  // else it counts only what threads of the library do there
};

template <class Call>
ThrownError outcome(const Call& call) {
  const PointsHere counts(true);
  try {
    return failure_of(call);
  } catch (const std::bad_alloc&) {
    return {ENOMEM, "no memory"};
  }
}

// Each range of the file is written by one call: it holds the old bytes or new ones, and certainly
// new ones after a call that succeeded.
class CollectiveProgram {
 public:
  // `storage`: null, or the one to use.
  CollectiveProgram(const std::string& path, const Options& options, const RankFault& fault,
                    std::shared_ptr<storage::Storage> storage = nullptr)
      : path_(path), options_(options), fault_(fault), storage_(std::move(storage)) {}

  void run() {
    if (rank() == 0) write_file(path_, old_bytes());
    barrier();
    std::unique_ptr<File> file;
    const auto open = [&] {
      const PointsHere counts(fault_.may_fail_open);
      file = std::make_unique<File>(MPI_COMM_WORLD, path_, O_RDWR, options_, storage_);
    };
    if (attempt("open", open)) {
      write(*file);
      read(*file);
      change(*file);
      attempt("close", [&] { file->close(); });
    }
    look_at_file("after the close");
  }

 private:
  static constexpr std::int64_t part_bytes = 3000;  // of a rank in a range
  static constexpr std::int64_t piece_bytes = 300;
  static constexpr std::size_t ranges = 4;

  static std::int64_t range_bytes() { return part_bytes * ranks(); }
  static std::size_t file_bytes() { return ranges * static_cast<std::size_t>(range_bytes()); }
  static std::string old_bytes() { return pattern(file_bytes(), 1); }
  static std::string new_bytes() { return pattern(file_bytes(), 2); }

  // Collective.
  static std::int64_t largest(std::int64_t of_this_rank) {
    world().maximum(std::span(&of_this_rank, 1));
    return of_this_rank;
  }
  void look_at_error(const char* what, const ThrownError& failed, int struck_with) {
    if (failed.error == 0) return;
    EXPECT_TRUE(failed.error == struck_with || fault_.is_expected(failed.error))
        << what << ": " << failed.text;
    EXPECT_NE(struck_with, 0) << what << " without a fault: " << failed.text;
    EXPECT_TRUE(++failed_ == 1 || fault_.is_late) << what << " failed after another call had";
  }
  int struck_here() const { return fault_.point.struck() ? fault_.error() : 0; }

  // Collective. Returns whether the call succeeded.
  template <class Call>
  bool attempt(const char* what, const Call& call) {
    const bool struck_before = fault_.point.struck();
    const ThrownError failed = outcome(call);
    EXPECT_EQ(largest(failed.error), failed.error) << what << ": the same on all ranks";
    look_at_error(what, failed, static_cast<int>(largest(struck_here())));
    EXPECT_TRUE(failed.error != 0 || struck_before || !fault_.must_fail())
        << what << " kept a failure to itself";
    return failed.error == 0;
  }
  // Of a call of each rank by itself: whether all succeeded.
  template <class Call>
  bool attempt_alone(const char* what, const Call& call) {
    const ThrownError failed = outcome(call);
    look_at_error(what, failed, struck_here());
    return largest(failed.error) == 0;
  }

  void write_range(std::size_t range, bool succeeded) {
    written_[range] = true;
    certain_[range] = succeeded;
    look_at_file("after a write");
  }

  // Collective.
  void write(File& file) {
    const std::string bytes = new_bytes();
    const auto part = [&](std::size_t range) {
      return bytes_of(bytes).subspan(range * static_cast<std::size_t>(range_bytes()) +
                                         static_cast<std::size_t>(rank() * part_bytes),
                                     static_cast<std::size_t>(part_bytes));
    };
    const std::int64_t own = rank() * part_bytes;
    write_range(0, attempt("write_at_all", [&] { file.write_at_all(own, part(0)); }));
    // Interleaved pieces; the view begins at the range.
    std::string pieces;
    for (std::int64_t at = rank() * piece_bytes; at < range_bytes(); at += piece_bytes * ranks())
      pieces += bytes.substr(static_cast<std::size_t>(range_bytes() + at), piece_bytes);
    set_view(file, range_bytes() + rank() * piece_bytes,
             TypeMap::strided(1, piece_bytes, piece_bytes * ranks()));
    write_range(1, attempt("write_all", [&] { file.write_all(bytes_of(pieces)); }));
    set_view(file, 0, TypeMap());
    write_range(2, attempt("iwrite_at_all",
                           [&] { file.iwrite_at_all(2 * range_bytes() + own, part(2)).wait(); }));
    write_range(
        3, attempt_alone("write_at", [&] { file.write_at(3 * range_bytes() + own, part(3)); }));
  }

  // Collective.
  void set_view(File& file, std::int64_t displacement, const TypeMap& view) {
    const auto set = [&] { file.set_view(displacement, view); };
    if (!attempt("set_view", set)) attempt("set_view again", set);
  }

  void read(File& file) {
    std::string got(file_bytes(), '?');
    if (attempt("read_at_all", [&] { file.read_at_all(0, bytes_of(got)); }))
      expect_legal("read_at_all", got);
    got.assign(got.size(), '?');
    if (attempt("iread_at_all", [&] { file.iread_at_all(0, bytes_of(got)).wait(); }))
      expect_legal("iread_at_all", got);
    got.assign(got.size(), '?');
    if (attempt_alone("read_at", [&] { file.read_at(0, bytes_of(got)); }))
      expect_legal("read_at", got);
  }

  void change(File& file) {
    const auto bytes = static_cast<std::int64_t>(file_bytes());
    attempt("sync", [&] { file.sync(); });
    attempt("size", [&] { EXPECT_EQ(file.size_bytes(), bytes); });
    const bool grows = attempt("resize", [&] { file.resize(bytes + 4096); });
    attempt("size", [&] {
      const std::int64_t size = file.size_bytes();
      EXPECT_TRUE(size == bytes + 4096 || (!grows && size == bytes)) << size;
    });
    // Until it is done: a change that failed may come later.
    for (int i = 0; i < 20; ++i)
      if (attempt("resize", [&] { file.resize(bytes); })) break;
    attempt("statistics", [&] { file.statistics(); });
  }

  // Collective.
  void look_at_file(const char* what) const {
    barrier();
    if (rank() == 0) {
      const std::string got = read_file(path_);
      EXPECT_EQ(got.size(), file_bytes()) << what;
      if (got.size() == file_bytes()) expect_legal(what, got);
    }
    barrier();
  }
  void expect_legal(const char* what, const std::string& got) const {
    const std::string old = old_bytes();
    const std::string fresh = new_bytes();
    for (std::size_t at = 0; at < got.size(); ++at) {
      const std::size_t range = at / static_cast<std::size_t>(range_bytes());
      if ((!certain_[range] && got[at] == old[at]) || (written_[range] && got[at] == fresh[at]))
        continue;
      ADD_FAILURE() << what << ": byte " << at << " is foreign, or older than it may be";
      return;
    }
  }

  const std::string path_;
  const Options options_;
  const RankFault& fault_;
  const std::shared_ptr<storage::Storage> storage_;
  int failed_ = 0;  // calls
  std::array<bool, ranges> written_{};
  std::array<bool, ranges> certain_{};
};

// Where ranks that share CPUs take long, some points fail: others each time.
std::uint64_t usual_step() {
  return ranks() == 1 || is_deep() ? 1 : ranks() == 2 ? 4 : 12;
}

// Collective. `run(n)` for every step-th point of one rank. Returns how many failed.
template <class Run>
std::uint64_t fail_each_once(const NthPoint& point, Random& random, const Run& run,
                             std::uint64_t step = usual_step()) {
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1 + random.below(step); n < never; n += step) {
    SCOPED_TRACE("the point that fails: " + std::to_string(n));
    run(n);
    std::array<std::int64_t, 2> seen{point.struck() ? 1 : 0, testing::Test::HasFailure() ? 1 : 0};
    world().maximum(seen);
    if (seen[0] == 0 || seen[1] != 0) break;
    ++failed;
  }
  return failed;
}

// Collective: calls `work(rank)` for the first and the last rank, until a test fails.
template <class Work>
void on_first_and_last_rank(Method method, const char* mode, const Work& work) {
  for (const int striking : {0, ranks() - 1}) {
    SCOPED_TRACE(std::string(name_of(method)) + ", " + mode + ", on rank " +
                 std::to_string(striking));
    if (testing::Test::HasFailure()) return;
    work(striking);
    if (ranks() == 1) return;
  }
}

TEST(EveryFault, OfOneRanksStorageIsToldToAllRanks) {
  const SharedDirectory directory("/dev/shm");  // each run syncs
  Random random;
  std::uint64_t points = 0;
  for (const Method method : own_methods) {
    for (const FaultMode mode : fault_modes) {
      on_first_and_last_rank(method, name_of(mode), [&](int striking) {
        const auto storage = std::make_shared<NthStorage>(StorageEngine::automatic);
        storage->mode = mode;
        const RankFault fault{
            .point = storage->point,
            .error = [&] { return storage->error.load(); },
            .is_expected = [&](int error) { return mode == FaultMode::late && error == ETIMEDOUT; },
            .is_late = mode == FaultMode::late,
            .must_fail =
                [&] {
                  const storage::Kind kind = storage->struck_kind;
                  return storage->point.struck() && mode != FaultMode::shortened &&
                         (kind == storage::Kind::read || kind == storage::Kind::write ||
                          kind == storage::Kind::sync || kind == storage::Kind::truncate);
                }};
        points += fail_each_once(storage->point, random, [&](std::uint64_t n) {
          storage->error = fault_errors[n % std::size(fault_errors)];
          storage->point.arm(rank() == striking ? n : never);
          CollectiveProgram(directory / "file", options_of(method, 2, 4000), fault, storage).run();
          storage->point.disarm();
        });
      });
    }
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

// Collective. All faults of the library's own kind on the first and on the last rank.
std::uint64_t fail_each_of(const RankFault& fault, const Options& options, const char* name) {
  const SharedDirectory directory("/dev/shm");
  Random random;
  const auto run = [&](std::uint64_t n) {
    fault.point.arm(n);
    CollectiveProgram(directory / "file", options, fault).run();
    fault.point.disarm();
  };
  const Resources before = resources_after([&] { run(never); });
  const std::int64_t mapped_before = mapped_bytes();
  std::uint64_t points = 0;
  on_first_and_last_rank(options.write_method, name, [&](int striking) {
    points += fail_each_once(fault.point, random, [&](std::uint64_t n) {
      choose_system_error(n);
      run(rank() == striking ? n : never);
      SCOPED_TRACE(struck_call());
      EXPECT_EQ(mapped_bytes(), mapped_before) << "memory stays mapped";
      expect_resources(before);
    });
  });
  return points;
}

TEST(EveryFault, OfOneRanksSystemCallsIsToldToAllRanks) {
  std::uint64_t points = 0;
  for (const Method method : own_methods) {
    const RankFault fault{.point = system_calls(),
                          .error = struck_error,
                          .is_expected = [](int error) { return error == EIO; }};
    points += fail_each_of(fault, options_of(method, 2, 4000), "a system call");
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

// In the middle of an exchange, a rank without memory ends the job.
TEST(EveryFault, OfOneRanksAllocationsIsToldToAllRanks) {
  if (sanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  const PointsHere not_here(false);
  const RankFault fault{.point = allocations(),
                        .error = [] { return ENOMEM; },
                        .is_expected = [](int error) { return error == EAGAIN; },
                        .may_fail_open = false};
  Options options = options_of(Method::independent);
  std::uint64_t points = fail_each_of(fault, options, "an allocation");
  // A rank holds ranges that others want.
  options.write_sieving = options.read_sieving = Sieving::enabled;
  points += fail_each_of(fault, options, "an allocation, sieving");
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

// A rank with two CPUs converts much data by two threads.
TEST(EveryFault, OfAConversionByTwoThreads) {
  if (world().maximum_sent(world().has_two_cpus() ? 0 : 1) != 0)
    GTEST_SKIP() << "a rank has one CPU";
  const PointsHere not_here(false);
  const SharedDirectory directory("/dev/shm");
  constexpr std::size_t bytes = 9 << 20;
  File file(MPI_COMM_WORLD, directory / "file", O_RDWR | O_CREAT, options_of(Method::independent));
  file.set_view(static_cast<std::int64_t>(bytes) * rank(), TypeMap(), {ByteOrder::big, 8});
  const std::string data = pattern(bytes, 1);
  std::string got(bytes, '?');
  const auto errors_of_both = [&] {
    return std::array{outcome([&] { file.write_at_all(0, bytes_of(data)); }).error,
                      outcome([&] { file.read_at_all(0, bytes_of(got)); }).error};
  };
  constexpr std::array<int, 2> none{};
  count_only("pthread_create");
  for (const int n : {1, 2}) {
    system_calls().arm(static_cast<std::uint64_t>(n));
    EXPECT_EQ(errors_of_both(), none) << "one thread suffices";
    EXPECT_TRUE(system_calls().struck());
  }
  system_calls().disarm();
  count_only(nullptr);
  EXPECT_TRUE(same_bytes(got, data));
  Random random;
  const std::uint64_t points = fail_each_once(allocations(), random, [&](std::uint64_t n) {
    got.assign(bytes, '?');
    allocations().arm(n);
    const std::array errors = errors_of_both();
    const int worst = std::max(errors[0], errors[1]);
    EXPECT_TRUE(worst == 0 || (worst == ENOMEM && allocations().struck())) << worst;
    allocations().disarm();
    EXPECT_TRUE(worst != 0 || same_bytes(got, data));
    EXPECT_EQ(errors_of_both(), none);
    EXPECT_TRUE(same_bytes(got, data));
  });
  EXPECT_TRUE(points > 100 || sanitized) << points;
  std::cout << "[  POINTS  ] " << points << '\n';
}

// Two allocations in a row, the second of which may be the error's own.
TEST(EveryFault, OfOneFilesErrorsIsToldToAllFiles) {
  if (sanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  const PointsHere not_here(false);
  const SharedDirectory directory("/dev/shm");
  Options options = options_of(Method::independent);
  options.files = 2;
  File file(MPI_COMM_WORLD, directory / "file", O_RDWR | O_CREAT, options);
  const TypeMap view = TypeMap::strided(1, 8, 16);
  const auto error = [&] { return outcome([&] { file.set_view(0, view); }).error; };
  Random random;
  const auto run = [&](std::uint64_t n) {
    const bool strikes = rank() == ranks() - 1;
    allocations().arm(strikes ? n : never, strikes ? n + 1 : 0);
    std::array<std::int64_t, 2> failed{error(), 0};
    allocations().disarm();
    failed[1] = -failed[0];
    world().maximum(failed);
    EXPECT_EQ(failed[0], -failed[1]) << "the same on all ranks";
    EXPECT_EQ(error(), 0);
  };
  const std::uint64_t points = fail_each_once(allocations(), random, run, 1);
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

}  // namespace
}  // namespace ferry::collective
