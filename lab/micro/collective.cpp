// Many ranks, one shared file: Ferry's methods compared with the MPI library's MPI-IO and with one
// rank that writes or reads everything. lab/micro/collective.py starts it under mpiexec.
//
// The folder may be a URI, such as ceph:/folder?conf=FILE. Patterns are interleaved (pieces of 4
// KiB in turn), subarray (a block of a 4-D array of doubles, cut along its last dimensions first)
// and blocks (one piece per rank). Ways are measured in turn, A B C C B A, with one line of JSON
// per sample; no repeat begins after --seconds. Times go from before open to after close; writes
// include a sync, into a new file. Reads find the file in the page cache, or with WAY:cold not; for
// a URI each sample is a new client. WAY:unsieved disables data sieving; calls makes each rank call
// for each of its pieces. All data is verified, outside the time.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <ferry/collective.hpp>

#include "harness/usage.hpp"
#include "micro/memory.hpp"
#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"
#include "storage/uri.hpp"

namespace {

using namespace ferry::benchmarks;
using ferry::collective::Extent;
using ferry::collective::File;
using ferry::collective::Method;
using ferry::collective::Options;
using ferry::collective::Sieving;
using ferry::collective::Statistics;
using ferry::collective::TypeMap;
using nlohmann::json;
using Word = std::uint64_t;

constexpr std::int64_t word_bytes = sizeof(Word);
constexpr std::int64_t piece_bytes = 4096;
constexpr std::int64_t one_rank_bytes = 4 << 20;

int rank_here = 0;
int rank_count = 1;

[[noreturn]] void give_up(const std::string& what) {
  std::cerr << "ferry-micro: rank " << rank_here << ": " << what << std::endl;
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void require(int mpi_result, const char* what) {
  if (mpi_result != MPI_SUCCESS) give_up(std::string(what) + " fails");
}

// What word number `index` of the file holds.
Word word_at(std::int64_t index) {
  return (static_cast<Word>(index) + 1) * 0x9e3779b97f4a7c15U;
}

// The file by itself, without ranks: plain calls, one after the other. For one rank.
class PlainFile {
 public:
  PlainFile(const std::string& path, int flags) : path_(path) {
    done(file_.open(path, flags, 0644), 0);
  }

  // All of the bytes.
  void move(bool writes, Word* data, std::int64_t bytes, std::int64_t at) {
    const auto count = static_cast<std::uint64_t>(bytes);
    const auto offset = static_cast<std::uint64_t>(at);
    done(writes ? file_.write(data, count, offset) : file_.read(data, count, offset), bytes);
  }
  void sync() { done(file_.sync(), 0); }

 private:
  void done(std::int64_t result, std::int64_t wanted) const {
    if (result < 0) give_up(path_ + ": " + std::strerror(static_cast<int>(-result)));
    if (result != wanted) give_up("a transfer of " + path_ + " is short");
  }

  const std::string path_;
  const std::unique_ptr<ferry::storage::Storage> storage_ = ferry::storage::make_router();
  ferry::storage::SyncFile file_{*storage_};
};

bool is_uri(const std::string& path) {
  return ferry::storage::scheme_of(path) != ferry::storage::Scheme::posix;
}

// Removes it, if it is there.
void remove_file(const std::string& path) {
  const auto storage = ferry::storage::make_router();
  const std::int64_t result = ferry::storage::SyncCalls(*storage).run(
      {.kind = ferry::storage::Kind::unlink, .path = path.c_str()});
  if (result != 0 && result != -ENOENT) give_up("cannot remove " + path);
}

// The part of the file that this rank has.
struct Pattern {
  MPI_Datatype type = MPI_BYTE;  // of the view
  std::int64_t begin = 0;        // displacement of the view
  std::int64_t bytes = 0;        // of this rank

  Pattern(std::string_view name, std::int64_t file_bytes) : bytes(file_bytes / rank_count) {
    if (name == "interleaved") {
      begin = rank_here * piece_bytes;
      MPI_Datatype pieces = MPI_DATATYPE_NULL;
      MPI_Type_contiguous(static_cast<int>(piece_bytes), MPI_BYTE, &pieces);
      MPI_Type_create_resized(pieces, 0, rank_count * piece_bytes, &type);
      MPI_Type_free(&pieces);
    } else if (name == "subarray") {
      make_subarray(file_bytes);
    } else if (name == "blocks") {
      begin = rank_here * bytes;
    } else {
      give_up("no such pattern: " + std::string(name));
    }
    if (type != MPI_BYTE) MPI_Type_commit(&type);
  }
  ~Pattern() {
    if (type != MPI_BYTE) MPI_Type_free(&type);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // Calls use(offset, bytes) for each extent of this rank's part, at most 4 MiB each, in the order
  // of its data.
  template <class Use>
  void for_each_extent(Use&& use) const {
    const TypeMap map = ferry::collective::typemap_of(type);
    if (map.is_dense()) {
      for (std::int64_t at = 0; at < bytes; at += one_rank_bytes)
        use(begin + at, std::min(one_rank_bytes, bytes - at));
      return;
    }
    for (std::int64_t period = 0; period * map.data_bytes() < bytes; ++period)
      for (const Extent& extent : map.extents())
        use(begin + period * map.period_bytes() + extent.offset, extent.bytes);
  }
  // Calls use(index of a word in the file) for each word of this rank, in the order of its data.
  template <class Use>
  void for_each_word(Use&& use) const {
    for_each_extent([&](std::int64_t offset, std::int64_t extent_bytes) {
      for (std::int64_t i = 0; i < extent_bytes / word_bytes; ++i)
        use(offset / word_bytes + i);
    });
  }

 private:
  void make_subarray(std::int64_t file_bytes) {
    std::array<int, 4> grid{};
    MPI_Dims_create(rank_count, 4, grid.data());
    std::reverse(grid.begin(), grid.end());
    std::array<int, 4> sizes{0, 64, 64, 128};
    sizes[0] = static_cast<int>(file_bytes / (sizes[1] * sizes[2] * sizes[3]) / 8);
    std::array<int, 4> subsizes{};
    std::array<int, 4> starts{};
    int left = rank_here;
    for (std::size_t i = 4; i-- > 0; left /= grid[i]) {
      subsizes[i] = sizes[i] / grid[i];
      starts[i] = left % grid[i] * subsizes[i];
    }
    const auto elements =
        std::accumulate(subsizes.begin(), subsizes.end(), std::int64_t{1}, std::multiplies<>());
    if (elements * 8 != bytes) give_up("that many ranks do not divide the array");
    MPI_Type_create_subarray(4, sizes.data(), subsizes.data(), starts.data(), MPI_ORDER_C,
                             MPI_DOUBLE, &type);
  }
};

// A sample: one way, once.
class Sample {
 public:
  Sample(std::string path, const Pattern& pattern, bool writes, std::int64_t file_bytes)
      : path_(std::move(path)), pattern_(pattern), writes_(writes), file_bytes_(file_bytes) {}

  // `name`: WAY, or WAY and what is special about it, such as WAY:cold.
  void run(const std::string& name, std::vector<Word>& data, json& line) const {
    const std::string way = name.substr(0, name.find(':'));
    if (way == "mpi") {
      by_mpi(data);
    } else if (way == "one-rank") {
      by_one_rank(data);
    } else if (way == "calls") {
      by_calls(data);
    } else {
      by_ferry(way, name.find(":unsieved") != std::string::npos, data, line);
    }
  }

 private:
  std::span<std::byte> bytes_of(std::vector<Word>& data) const {
    return std::as_writable_bytes(std::span(data)).first(static_cast<std::size_t>(pattern_.bytes));
  }

  // METHOD, METHOD/WRITERS or METHOD/WRITERS/BUFFER_KIB.
  void by_ferry(std::string_view way, bool unsieved, std::vector<Word>& data, json& line) const {
    Options options;
    if (unsieved) options.read_sieving = options.write_sieving = Sieving::disabled;
    const std::string_view name = way.substr(0, way.find('/'));
    if (name.size() < way.size()) {
      const std::string numbers(way.substr(name.size() + 1));
      options.writers = std::atoi(numbers.c_str());
      const std::size_t slash = numbers.find('/');
      if (slash != std::string::npos)
        options.buffer_bytes = std::int64_t{1024} * std::atoi(numbers.c_str() + slash + 1);
    }
    bool known = false;
    for (const Method method : {Method::automatic, Method::independent, Method::serial,
                                Method::aggregate, Method::mpiio}) {
      if (name != name_of(method)) continue;
      options.write_method = options.read_method = method;
      known = true;
    }
    if (!known) give_up("no such way: " + std::string(way));
    File file(MPI_COMM_WORLD, path_, writes_ ? O_CREAT | O_RDWR : O_RDONLY, options);
    file.set_view(pattern_.begin, ferry::collective::typemap_of(pattern_.type));
    if (writes_) {
      file.write_all(bytes_of(data));
      file.sync();
    } else {
      file.read_all(bytes_of(data));
    }
    const Statistics statistics = file.statistics();
    file.close();
    line["method"] = name_of(statistics.method);
    line["writers"] = statistics.writers;
    line["messages"] = statistics.counts.messages;
    line["message_bytes"] = statistics.counts.message_bytes;
    line["shared_bytes"] = statistics.counts.shared_bytes;
    line["storage_requests"] = statistics.counts.storage_requests;
    const auto& mean = statistics.mean;
    line["phases_ms"] = {{"plan", mean.plan_ns / 1e6}, {"exchange", mean.exchange_ns / 1e6},
                         {"pack", mean.pack_ns / 1e6}, {"file", mean.file_io_ns / 1e6},
                         {"sync", mean.sync_ns / 1e6}, {"wait", mean.wait_ns / 1e6}};
  }

  void by_mpi(std::vector<Word>& data) const {
    MPI_File file = MPI_FILE_NULL;
    require(MPI_File_open(MPI_COMM_WORLD, path_.c_str(),
                          writes_ ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY,
                          MPI_INFO_NULL, &file),
            "MPI_File_open");
    require(
        MPI_File_set_view(file, pattern_.begin, MPI_BYTE, pattern_.type, "native", MPI_INFO_NULL),
        "MPI_File_set_view");
    const auto count = static_cast<int>(pattern_.bytes);
    if (writes_) {
      require(MPI_File_write_at_all(file, 0, data.data(), count, MPI_BYTE, MPI_STATUS_IGNORE),
              "MPI_File_write_at_all");
      require(MPI_File_sync(file), "MPI_File_sync");
    } else {
      require(MPI_File_read_at_all(file, 0, data.data(), count, MPI_BYTE, MPI_STATUS_IGNORE),
              "MPI_File_read_at_all");
    }
    require(MPI_File_close(&file), "MPI_File_close");
  }

  // Each rank by itself, a call for each piece, one after the other.
  void by_calls(std::vector<Word>& data) const {
    PlainFile file(path_, writes_ ? O_CREAT | O_RDWR : O_RDONLY);
    Word* memory = data.data();
    pattern_.for_each_extent([&](std::int64_t offset, std::int64_t bytes) {
      file.move(writes_, memory, bytes, offset);
      memory += bytes / word_bytes;
    });
    if (writes_) file.sync();
  }

  // Rank 0 moves as many bytes, one piece after the other; the others wait. What it writes is what
  // the file must hold.
  void by_one_rank(std::vector<Word>& data) const {
    if (rank_here != 0) return;
    PlainFile file(path_, writes_ ? O_CREAT | O_RDWR : O_RDONLY);
    for (std::int64_t at = 0; at < file_bytes_; at += one_rank_bytes)
      file.move(writes_, data.data() + at / word_bytes, std::min(one_rank_bytes, file_bytes_ - at),
                at);
    if (writes_) file.sync();
  }

  std::string path_;
  const Pattern& pattern_;
  bool writes_;
  std::int64_t file_bytes_;
};

// Words of the file, as they must be.
std::vector<Word> words_of(std::int64_t first, std::int64_t count) {
  std::vector<Word> words;
  for (std::int64_t i = first; i < first + count; ++i)
    words.push_back(word_at(i));
  return words;
}

// Writes the whole file as it must be, or compares it. Only rank 0.
void whole_file(bool writes, const std::string& path, std::int64_t file_bytes) {
  PlainFile file(path, writes ? O_CREAT | O_TRUNC | O_WRONLY : O_RDONLY);
  for (std::int64_t at = 0; at < file_bytes; at += one_rank_bytes) {
    const std::vector<Word> wanted = words_of(at / word_bytes, one_rank_bytes / word_bytes);
    std::vector<Word> words = wanted;
    if (!writes) std::fill(words.begin(), words.end(), 0);
    file.move(writes, words.data(), one_rank_bytes, at);
    if (words != wanted) give_up("wrong data in " + path);
  }
  if (writes) file.sync();
}

void drop(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

// The first use of memory that the host of a virtual machine has not given it yet, or has taken
// back, costs a fault there, which can take longer than writing the page. Whom that meets is
// chance: a file written in large pieces takes large blocks of memory, which one written in small
// ones has not used before. So every way finds as many large blocks as a new file takes just given
// back by this program.
void warm_memory(std::int64_t bytes) {
  const HugeMemory touched(static_cast<std::uint64_t>(bytes));
}

class Samples {
 public:
  Samples(const std::string& folder, std::string_view pattern, bool writes, std::int64_t bytes)
      : path_(path_in(folder)),
        writes_(writes),
        file_bytes_(bytes),
        pattern_(pattern, bytes),
        sample_(path_, pattern_, writes, bytes) {
    pattern_.for_each_word([&](std::int64_t index) { mine_.push_back(word_at(index)); });
    // Rank 0 has the whole file for the way of one rank.
    if (rank_here == 0) {
      whole_ = words_of(0, bytes / word_bytes);
      if (!writes) whole_file(true, path_, bytes);
    }
    got_ = mine_;
  }
  ~Samples() {
    if (rank_here == 0) remove_file(path_);
  }
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;

  // Whether all ranks may go on, by rank 0's clock.
  static bool is_before(Clock::time_point end) {
    int before = Clock::now() < end ? 1 : 0;
    MPI_Bcast(&before, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return before != 0;
  }

  void measure(const std::string& name, int repeat) {
    const std::string way = name.substr(0, name.find(':'));
    prepare(name.find(":cold") != std::string::npos);
    std::vector<Word>& mine = writes_ ? mine_ : got_;
    std::vector<Word>& data = way == "one-rank" ? whole_ : mine;
    if (!writes_) std::fill(data.begin(), data.end(), 0);
    json line{{"way", name}, {"repeat", repeat}};
    MPI_Barrier(MPI_COMM_WORLD);
    const ferry::bench::Usage before = ferry::bench::process_usage();
    const auto begin = Clock::now();
    sample_.run(name, data, line);
    // Ranks that have nothing to do must not take the CPU from the one that does.
    if (way == "one-rank") rest();
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = seconds_since(begin);
    const ferry::bench::Usage usage = ferry::bench::process_usage() - before;
    std::array<std::uint64_t, 2> used{usage.voluntary_switches + usage.involuntary_switches,
                                      usage.user_cpu_ns + usage.system_cpu_ns};
    MPI_Allreduce(MPI_IN_PLACE, used.data(), 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    line["seconds"] = took;
    line["context_switches"] = used[0];
    line["cpu_seconds"] = static_cast<double>(used[1]) / 1e9;
    check(way);
    if (rank_here == 0 && repeat >= 0) print(line);
  }

 private:
  // In a URI before the question mark.
  static std::string path_in(std::string folder) {
    const std::size_t end =
        is_uri(folder) ? std::min(folder.find('?'), folder.size()) : folder.size();
    const bool has_slash = end > 0 && folder[end - 1] == '/';
    return folder.insert(end, has_slash ? "ferry-micro.tmp" : "/ferry-micro.tmp");
  }

  void prepare(bool cold) const {
    if (rank_here == 0 && writes_) {
      remove_file(path_);
      if (!is_uri(path_)) warm_memory(file_bytes_ + file_bytes_ / 2);
    }
    if (rank_here == 0 && !writes_ && !is_uri(path_)) {
      if (cold) {
        drop(path_);
      } else {
        whole_file(false, path_, file_bytes_);
      }
    }
    rest();
  }

  // A barrier that sleeps.
  static void rest() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; done == 0; usleep(200))
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }

  void check(std::string_view way) const {
    if (writes_) {
      if (rank_here == 0) whole_file(false, path_, file_bytes_);
    } else if (way == "one-rank") {
      if (rank_here == 0 && whole_ != words_of(0, file_bytes_ / word_bytes))
        give_up("has read something else");
    } else if (got_ != mine_) {
      give_up("has read something else");
    }
    rest();
  }

  std::string path_;
  bool writes_;
  std::int64_t file_bytes_;
  Pattern pattern_;
  Sample sample_;
  std::vector<Word> mine_;
  std::vector<Word> got_;
  std::vector<Word> whole_;
};

void collective(const BenchmarkOptions& options) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_here);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  try {
    Samples samples(options.path, options.other, options.kind == "write",
                    static_cast<std::int64_t>(options.bytes));
    std::vector<std::string> ways = options.words;
    const auto end = Clock::now() + std::chrono::seconds(static_cast<long>(options.seconds));
    for (const std::string& way : ways)
      samples.measure(way, -1);
    for (int repeat = 0; repeat < static_cast<int>(options.repeats); ++repeat) {
      if (repeat > 0 && !Samples::is_before(end)) break;
      for (const std::string& way : ways)
        samples.measure(way, repeat);
      std::reverse(ways.begin(), ways.end());
    }
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  MPI_Finalize();
}

const Subcommand registered("collective",
                            "FOLDER PATTERN write|read WAY... --bytes --repeats --seconds",
                            "ranks that share a file, under mpiexec", collective);

}  // namespace
