// Each operation on one rank's storage fails, for every one that a program of collective calls
// makes: all ranks are told the same, no call hangs, and what was acknowledged is there.
#include <algorithm>
#include <array>
#include <iostream>

#include "collective/world.hpp"
#include "faults/nth_storage.hpp"

namespace ferry::collective {
namespace {

using namespace test;

struct Setup {
  Method method;
  FaultMode mode;
  int striking;  // the rank whose storage fails
};

// Each range of the file is written by one call: it holds the old bytes or new ones, and certainly
// new ones after a call that succeeded.
class CollectiveProgram {
 public:
  CollectiveProgram(const std::string& path, const Setup& setup,
                    std::shared_ptr<NthStorage> storage)
      : path_(path), setup_(setup), storage_(std::move(storage)) {}

  void run() {
    if (rank() == 0) write_file(path_, old_bytes());
    barrier();
    std::unique_ptr<File> file;
    const auto open = [&] {
      file = std::make_unique<File>(MPI_COMM_WORLD, path_, O_RDWR,
                                    options_of(setup_.method, 2, 4000), storage_);
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
  bool is_expected(int error) const {
    return error == storage_->error || (setup_.mode == FaultMode::late && error == ETIMEDOUT);
  }

  // Whether what struck on this rank is no question that a call can do without.
  bool must_fail() const {
    const storage::Kind kind = storage_->struck_kind;
    return storage_->point.struck() && setup_.mode != FaultMode::shortened &&
           (kind == storage::Kind::read || kind == storage::Kind::write ||
            kind == storage::Kind::sync || kind == storage::Kind::truncate);
  }

  // Collective. Returns whether the call succeeded.
  template <class Call>
  bool attempt(const char* what, const Call& call) const {
    const bool struck_before = storage_->point.struck();
    const auto [error, text] = failure_of(call);
    EXPECT_EQ(largest(error), error) << what << ": the same on all ranks";
    const bool struck = largest(storage_->point.struck() ? 1 : 0) != 0;
    EXPECT_TRUE(error == 0 || (struck && is_expected(error))) << what << ": " << text;
    EXPECT_TRUE(error != 0 || struck_before || !must_fail()) << what << " kept a failure to itself";
    return error == 0;
  }
  // Of a call of each rank by itself: whether all succeeded.
  template <class Call>
  bool attempt_alone(const char* what, const Call& call) const {
    const auto [error, text] = failure_of(call);
    EXPECT_TRUE(error == 0 || (storage_->point.struck() && is_expected(error)))
        << what << ": " << text;
    return largest(error) == 0;
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
    file.set_view(range_bytes() + rank() * piece_bytes,
                  TypeMap::strided(1, piece_bytes, piece_bytes * ranks()));
    write_range(1, attempt("write_all", [&] { file.write_all(bytes_of(pieces)); }));
    file.set_view(0, TypeMap());
    write_range(2, attempt("iwrite_at_all",
                           [&] { file.iwrite_at_all(2 * range_bytes() + own, part(2)).wait(); }));
    write_range(
        3, attempt_alone("write_at", [&] { file.write_at(3 * range_bytes() + own, part(3)); }));
  }

  void read(File& file) {
    std::string got(file_bytes(), '?');
    if (attempt("read_at_all", [&] { file.read_at_all(0, bytes_of(got)); }))
      expect_legal("read_at_all", got);
    got.assign(got.size(), '?');
    if (attempt("iread_at_all", [&] { file.iread_at_all(0, bytes_of(got)).wait(); }))
      expect_legal("iread_at_all", got);
    got.assign(got.size(), '?');
    const int error = error_of([&] { file.read_at(0, bytes_of(got)); });
    EXPECT_TRUE(error == 0 || (storage_->point.struck() && is_expected(error))) << error;
    if (error == 0) expect_legal("read_at", got);
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
  const Setup setup_;
  const std::shared_ptr<NthStorage> storage_;
  std::array<bool, ranges> written_{};
  std::array<bool, ranges> certain_{};
};

// Collective. Returns how many points failed.
std::uint64_t fail_each_once(const std::string& path, const Setup& setup, Random& random) {
  const auto storage = std::make_shared<NthStorage>(StorageEngine::automatic);
  storage->mode = setup.mode;
  // Ranks that share CPUs take long: some of the points, others each time.
  const std::uint64_t step = ranks() == 1 || is_deep() ? 1 : ranks() == 2 ? 4 : 12;
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1 + random.below(step); n < never; n += step) {
    SCOPED_TRACE("the point that fails: " + std::to_string(n));
    storage->error = fault_errors[n % std::size(fault_errors)];
    storage->point.arm(rank() == setup.striking ? n : never);
    CollectiveProgram(path, setup, storage).run();
    std::array<std::int64_t, 2> seen{storage->point.struck() ? 1 : 0,
                                     testing::Test::HasFailure() ? 1 : 0};
    world().maximum(seen);
    storage->point.disarm();
    if (seen[0] == 0 || seen[1] != 0) break;
    ++failed;
  }
  return failed;
}

TEST(EveryFault, OfOneRanksStorageIsToldToAllRanks) {
  const SharedDirectory directory("/dev/shm");  // each run syncs
  Random random;
  std::uint64_t points = 0;
  for (const Method method : own_methods) {
    for (const FaultMode mode : fault_modes) {
      for (const int striking : {0, ranks() - 1}) {
        SCOPED_TRACE(std::string(name_of(method)) + ", " + name_of(mode) + ", on rank " +
                     std::to_string(striking));
        points += fail_each_once(directory / "file", {method, mode, striking}, random);
        if (HasFailure()) return;
        if (ranks() == 1) break;
      }
    }
  }
  std::cout << "[  POINTS  ] " << points << '\n';
}

}  // namespace
}  // namespace ferry::collective
