// Close-to-open consistency without lock-step: device threads open, read and close files while a
// second process and another device thread change them. Each word of a file names the change that
// wrote it. An open must see, of every block, the last change that had ended before, or a later one
// that had begun.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/within.hpp"

namespace ferry::racing_opens_test {
namespace {

using device::Placement;
using test::Random;

constexpr std::size_t files_count = 4;
constexpr std::size_t blocks_max = 48;
constexpr std::size_t words = 64;  // of a block
constexpr std::size_t block_bytes = words * sizeof(std::uint64_t);

using Block = std::array<std::uint64_t, words>;
using Contents = std::vector<Block>;

constexpr unsigned place_bits = 24;
constexpr std::uint64_t word_of(std::uint64_t change, std::size_t file, std::size_t block,
                                std::size_t word) {
  return change << place_bits | file << 16 | block << 8 | word;
}

// What is known of each block: numbers of changes, which grow.
struct BlockHistory {
  std::atomic<std::uint64_t> begun;
  std::atomic<std::uint64_t> ended;
  std::atomic<std::uint64_t> absent;  // the last one that removed its bytes
};
struct FileHistory {
  std::atomic<std::uint32_t> lock;  // of who changes it
  std::uint64_t last;               // change; by its holder
  BlockHistory blocks[blocks_max];
};
// In memory of both processes.
struct History {
  std::atomic<bool> goes;
  std::atomic<bool> ends;
  std::atomic<bool> is_calm;  // nobody changes anything for a while
  std::atomic<std::uint64_t> changes;
  std::atomic<std::uint64_t> same_inode;  // new files with the number of the former
  FileHistory files[files_count];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A change of some blocks of a locked file, from its begin to its end.
class Change {
 public:
  // It removes the bytes of `[first, end)`.
  static void remove(FileHistory& file, std::size_t first) {
    const std::uint64_t number = ++file.last;
    for (std::size_t i = first; i < blocks_max; ++i) {
      file.blocks[i].absent = number;
      file.blocks[i].begun = number;
    }
  }
  // It writes these.
  static Contents write(FileHistory& file, std::size_t name, std::size_t first, std::size_t count) {
    const std::uint64_t number = ++file.last;
    Contents contents(count);
    for (std::size_t i = 0; i < count; ++i) {
      file.blocks[first + i].begun = number;
      for (std::size_t word = 0; word < words; ++word)
        contents[i][word] = word_of(number, name, first + i, word);
    }
    return contents;
  }
  // All that have begun.
  static void end(FileHistory& file) {
    for (BlockHistory& block : file.blocks)
      block.ended = block.begun.load();
  }
};

std::size_t bytes_of(const Contents& contents) {
  return contents.size() * block_bytes;
}

// Locks one of the files that nobody changes now.
std::size_t lock_one(History& history, Random& random) {
  for (;;) {
    const std::size_t name = random.below(files_count);
    if (history.files[name].lock.exchange(1) == 0) return name;
    std::this_thread::yield();
  }
}

// ---- the other process -------------------------------------------------------------------------

bool write_whole(int fd, const Contents& contents, std::size_t first) {
  return ::pwrite(fd, contents.data(), bytes_of(contents),
                  static_cast<off_t>(first * block_bytes)) ==
         static_cast<ssize_t>(bytes_of(contents));
}

// Returns false on an error.
bool change_plainly(History& history, Random& random, const std::string& path, std::size_t name) {
  FileHistory& file = history.files[name];
  const std::size_t first = random.below(blocks_max);
  const std::size_t count = random.between(1, blocks_max - first);
  switch (random.below(5)) {
    case 0: {  // cut
      Change::remove(file, first);
      return ::truncate(path.c_str(), static_cast<off_t>(first * block_bytes)) == 0;
    }
    case 1: {  // another file takes the name
      const std::string other = path + ".new";
      Change::remove(file, count);
      const Contents contents = Change::write(file, name, 0, count);
      const test::Descriptor fd(
          ::open(other.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
      return write_whole(fd, contents, 0) && ::rename(other.c_str(), path.c_str()) == 0;
    }
    case 2: {  // a new one, often with the number of the former
      struct stat former {};
      struct stat now {};
      if (::stat(path.c_str(), &former) != 0) return false;
      Change::remove(file, 0);
      if (::unlink(path.c_str()) != 0) return false;
      const test::Descriptor fd(
          ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
      if (!write_whole(fd, Change::write(file, name, 0, count), 0) || ::fstat(fd, &now) != 0)
        return false;
      if (now.st_ino == former.st_ino) ++history.same_inode;
      return true;
    }
    default: {
      const test::Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      return write_whole(fd, Change::write(file, name, first, count), first);
    }
  }
}

// Changes come in bursts; between them the times of change get old enough to be proofs.
int other_process(History& history, const std::vector<std::string>& paths, Random random,
                  std::uint64_t bursts) {
  while (!history.goes)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (std::uint64_t burst = 0; burst < bursts; ++burst) {
    for (std::uint64_t i = random.between(1, 12); i > 0; --i) {
      const std::size_t name = lock_one(history, random);
      FileHistory& file = history.files[name];
      const bool good = change_plainly(history, random, paths[name], name);
      Change::end(file);
      file.lock = 0;
      if (!good) return 1;
      ++history.changes;
      if (random.one_in(2))
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
    }
    history.is_calm = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(random.between(120, 160)));
    history.is_calm = false;
  }
  return 0;
}

// ---- device threads ----------------------------------------------------------------------------

using Files = device::FileCalls<device::ThreadGroup>;

// What an open may see, taken before it.
struct Earliest {
  std::array<std::uint64_t, blocks_max> ended;
  explicit Earliest(const FileHistory& file) : ended() {
    for (std::size_t i = 0; i < blocks_max; ++i)
      ended[i] = file.blocks[i].ended;
  }
};

class Reader {
 public:
  Reader(Files& files, History& history, const std::vector<std::string>& paths, Random random)
      : files_(files), history_(history), paths_(paths), random_(std::move(random)) {}

  void look() {
    const std::size_t name = random_.below(files_count);
    Opened opened{name, Earliest(history_.files[name]), 0};
    opened.handle = files_.open(paths_[name].c_str(), O_RDONLY);
    if (opened.handle == -ENOENT) return;  // its name is given to another now
    ASSERT_GT(opened.handle, 0) << paths_[name];
    read(opened);
    // Some stay open beside later opens, and see what was there, or more.
    held_.push_back(opened);
    while (held_.size() > (random_.one_in(8) ? 2 : 0))
      close_one();
  }
  void end() {
    while (!held_.empty())
      close_one();
  }

 private:
  struct Opened {
    std::size_t name;
    Earliest earliest;
    int handle;
  };

  void close_one() {
    const std::size_t which = random_.below(held_.size());
    if (random_.one_in(4)) read(held_[which]);
    EXPECT_EQ(files_.close(held_[which].handle), 0);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void read(const Opened& opened) {
    const std::size_t first = random_.one_in(2) ? 0 : random_.below(blocks_max);
    Contents got(random_.between(1, blocks_max - first));
    for (Block& block : got)
      block.fill(0);
    const std::int64_t bytes = files_.pread(opened.handle, got.data(), bytes_of(got),
                                            static_cast<std::int64_t>(first * block_bytes));
    ASSERT_GE(bytes, 0);
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::size_t word = 0; word < words; ++word)
        if (!is_right(opened, first + i, word, got[i][word])) {
          const BlockHistory& block = history_.files[opened.name].blocks[first + i];
          ADD_FAILURE() << paths_[opened.name] << ", block " << first + i << ", word " << word
                        << ": of change " << (got[i][word] >> place_bits) << ", not from "
                        << opened.earliest.ended[first + i] << " to " << block.begun
                        << "; removed by " << block.absent;
          return;
        }
  }
  bool is_right(const Opened& opened, std::size_t number, std::size_t word,
                std::uint64_t got) const {
    const BlockHistory& block = history_.files[opened.name].blocks[number];
    const std::uint64_t from = opened.earliest.ended[number];
    if (got == 0) return block.absent >= from;
    const std::uint64_t change = got >> place_bits;
    return got == word_of(change, opened.name, number, word) && change >= from &&
           change <= block.begun;
  }

  Files& files_;
  History& history_;
  const std::vector<std::string>& paths_;
  Random random_;
  std::deque<Opened> held_;
};

void change_here(Files& files, History& history, Random& random,
                 const std::vector<std::string>& paths) {
  const std::size_t name = lock_one(history, random);
  FileHistory& file = history.files[name];
  files.use(random.pick(std::array{Placement::host, Placement::compute, Placement::automatic}));
  const int handle = files.open(paths[name].c_str(), O_RDWR);
  EXPECT_GT(handle, 0);
  const std::size_t first = random.below(blocks_max);
  if (random.one_in(4)) {
    Change::remove(file, first);
    EXPECT_EQ(files.ftruncate(handle, static_cast<std::int64_t>(first * block_bytes)), 0);
  } else {
    const Contents contents =
        Change::write(file, name, first, random.between(1, blocks_max - first));
    EXPECT_EQ(files.pwrite(handle, contents.data(), bytes_of(contents),
                           static_cast<std::int64_t>(first * block_bytes)),
              static_cast<std::int64_t>(bytes_of(contents)));
  }
  EXPECT_EQ(files.close(handle), 0);
  Change::end(file);
  file.lock = 0;
}

class RacingOpens : public testing::TestWithParam<Placement>, protected test::WithRuntime {
 protected:
  void SetUp() override {
    void* shared =
        mmap(nullptr, sizeof(History), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    history = new (shared) History();
    for (std::size_t i = 0; i < files_count; ++i) {
      paths.push_back(directory / std::to_string(i));
      test::write_file(paths.back(), "");
    }
    // While this process has no threads.
    const pid_t parent = getpid();
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      _exit(other_process(*history, paths, random.fork(), bursts));
    }
  }
  void TearDown() override {
    end_runtime();
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    munmap(history, sizeof(History));
  }

  const std::uint64_t bursts = test::scaled(10);
  Random random;
  const test::ScratchDirectory directory{test::build_folder()};  // where times of change prove it
  std::vector<std::string> paths;
  History* history = nullptr;
  pid_t child = -1;
};

TEST_P(RacingOpens, SeeEveryChangeThatHadEnded) {
  RuntimeOptions options = test::cached_options(48, GetParam());
  options.device_threads = 4;
  options.files_max = 16;  // three of each thread
  runtime = std::make_unique<Runtime>(options);
  history->goes = true;
  int status = -1;
  std::thread watch([&] {
    test::within_patience("the other process", [&] { waitpid(child, &status, 0); });
    child = -1;
    history->ends = true;
  });
  std::vector<Random> randoms;
  for (unsigned i = 0; i < options.device_threads; ++i)
    randoms.push_back(random.fork());
  on_all([&](DeviceThread& self) {
    Random& own = randoms[self.index];
    Reader reader(self.files, *history, paths, own.fork());
    while (!history->ends && !HasFailure()) {
      if (self.index == 0 && !history->is_calm && own.one_in(4))
        change_here(self.files, *history, own, paths);
      self.files.use(GetParam());
      reader.look();
      std::this_thread::sleep_for(std::chrono::microseconds(own.below(400)));
    }
    reader.end();
  });
  watch.join();
  EXPECT_EQ(status, 0) << "the other process";
  RecordProperty("changes", std::to_string(history->changes));
  RecordProperty("same_inode", std::to_string(history->same_inode));
}

INSTANTIATE_TEST_SUITE_P(Placements, RacingOpens,
                         testing::Values(Placement::compute, Placement::automatic),
                         [](const auto& one) {
                           return one.param == Placement::compute ? "compute" : "automatic";
                         });

}  // namespace
}  // namespace ferry::racing_opens_test
