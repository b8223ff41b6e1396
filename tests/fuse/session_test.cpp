// Programs on a mounted tree: what they do there has the results, bytes and errors of the same done
// to a folder.
#include "fuse/session.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"
#include "support/within.hpp"

namespace {

using ferry::test::pattern;
using ferry::test::plain;
using ferry::test::Random;
using ferry::test::ScratchDirectory;

// One call on a file of a tree: its result, and what it found.
struct Outcome {
  std::int64_t result = 0;
  std::string found;

  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(std::int64_t result, std::string found = {}) {
  return {plain(result), result < 0 ? std::string() : std::move(found)};
}

// A tree below a folder, used with system calls. Two of these that get the same calls in turn must
// be alike all the time.
class Tree {
 public:
  // `closes_first`: without names that go while a file is open, as these leave another name.
  Tree(std::string root, bool closes_first) : root_(std::move(root)), closes_first_(closes_first) {}
  ~Tree() { close_all(); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::string& last() const { return last_; }
  // The same random numbers make the same call.
  Outcome step(Random random) {
    const std::string path = name(random);
    const std::uint64_t slot = random.below(slots);
    const std::int64_t offset = static_cast<std::int64_t>(random.below(300'000));
    std::string data =
        pattern(random.one_in(20) ? random.below(200'000) : random.below(5000), random.bits());
    const std::uint64_t kind = random.below(21);
    last_ = "call " + std::to_string(kind) + " of " + path + ", slot " + std::to_string(slot);
    switch (kind) {
      case 0:
      case 1:
        return open(slot, path, random);
      case 2:
        return close(slot);
      case 3:
      case 4:
        return outcome_of(::pwrite(at(slot), data.data(), data.size(), offset));
      case 5:
        return write_on(slot, data, random);
      case 6:
      case 7:
      case 8: {
        const ssize_t got = ::pread(at(slot), data.data(), data.size(), offset);
        return outcome_of(got, data.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
      }
      case 9:
        return outcome_of(::ftruncate(at(slot), offset / 2));
      case 10:
        return status(path, slot, random.one_in(2));
      case 11:
        if (closes_first_) close_all();
        return outcome_of(::unlink(path.c_str()));
      case 12:
        if (closes_first_) close_all();
        return outcome_of(::rename(path.c_str(), name(random).c_str()));
      case 13:
        return outcome_of(::mkdir(path.c_str(), 0750));
      case 14:
        return outcome_of(::rmdir(path.c_str()));
      case 15:
        return entries(path);
      case 16:
        return outcome_of(::chmod(path.c_str(), random.one_in(2) ? 0640 : 0755));
      case 17: {
        const timespec times[2] = {{12345, 0}, {static_cast<time_t>(random.below(1 << 30)), 0}};
        return outcome_of(::utimensat(AT_FDCWD, path.c_str(), times, 0));
      }
      case 18: {
        static const std::vector<const char*> texts{"a", "none", "d", "e/../a", "e/f", "./d/a"};
        return outcome_of(::symlink(random.pick(texts), path.c_str()));
      }
      case 19: {
        char text[200];
        const ssize_t bytes = ::readlink(path.c_str(), text, sizeof text);
        return outcome_of(bytes, {text, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))});
      }
      default:
        return mapped(slot);
    }
  }

 private:
  static constexpr std::uint64_t slots = 6;

  std::string name(Random& random) const {
    static const std::vector<std::string> names{"a", "b",     "c % ?x=1#", "d/a", "d/b",
                                                "d", "e/f/g", "e",         "e/f"};
    return root_ + "/" + random.pick(names);
  }
  int at(std::uint64_t slot) const {
    const auto found = open_.find(slot);
    return found == open_.end() ? -1 : found->second;
  }
  Outcome open(std::uint64_t slot, const std::string& path, Random& random) {
    static const std::vector<int> modes{O_RDONLY, O_WRONLY, O_RDWR};
    int flags = random.pick(modes);
    if (!random.one_in(3)) flags |= O_CREAT;
    for (const auto& [one_in, flag] :
         std::map<std::uint64_t, int>{{6, O_TRUNC}, {7, O_EXCL}, {5, O_APPEND}, {9, O_DIRECTORY}})
      if (random.one_in(one_in)) flags |= flag;
    // Undefined: to truncate what may only be read, and a new directory.
    if ((flags & O_ACCMODE) == O_RDONLY) flags &= ~O_TRUNC;
    if ((flags & O_DIRECTORY) != 0) flags &= ~(O_CREAT | O_EXCL);
    close(slot);
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0640);
    if (descriptor >= 0) open_[slot] = descriptor;
    return outcome_of(descriptor < 0 ? -1 : 0);
  }
  // In pieces, as stdio does.
  Outcome write_on(std::uint64_t slot, const std::string& data, Random& random) {
    const std::size_t piece = random.between(1000, 5000);
    for (std::size_t from = 0; from < data.size(); from += piece) {
      const std::size_t bytes = std::min(piece, data.size() - from);
      if (const ssize_t done = ::write(at(slot), data.data() + from, bytes); done < 0)
        return outcome_of(done);
    }
    return outcome_of(0);
  }
  Outcome close(std::uint64_t slot) {
    const int descriptor = at(slot);
    open_.erase(slot);
    return outcome_of(descriptor < 0 ? 0 : ::close(descriptor));
  }
  void close_all() {
    for (const auto& [slot, descriptor] : open_)
      ::close(descriptor);
    open_.clear();
  }
  Outcome status(const std::string& path, std::uint64_t slot, bool of_open) {
    struct stat found {};
    const int result = of_open ? ::fstat(at(slot), &found) : ::stat(path.c_str(), &found);
    return outcome_of(result, std::to_string(found.st_mode) + " " +
                                  std::to_string(S_ISREG(found.st_mode) ? found.st_size : 0));
  }
  Outcome entries(const std::string& path) {
    DIR* folder = ::opendir(path.c_str());
    if (folder == nullptr) return outcome_of(-1);
    std::map<std::string, int> found;
    while (const dirent* one = ::readdir(folder))
      found[one->d_name] = one->d_type;
    ::closedir(folder);
    std::string text;
    for (const auto& [name, type] : found)
      text += name + ":" + std::to_string(type) + " ";
    return outcome_of(0, text);
  }
  // What a mapping shows of the first page.
  Outcome mapped(std::uint64_t slot) {
    struct stat now {};
    if (::fstat(at(slot), &now) != 0) return outcome_of(-1);
    if (!S_ISREG(now.st_mode) || now.st_size == 0) return outcome_of(0);
    void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, at(slot), 0);
    if (memory == MAP_FAILED) return {-1, {}};  // appends pass by the kernel's pages: not compared
    std::string text(static_cast<const char*>(memory),
                     static_cast<std::size_t>(std::min<off_t>(now.st_size, 4096)));
    ::munmap(memory, 4096);
    return outcome_of(0, text);
  }

  const std::string root_;
  const bool closes_first_;
  std::string last_;
  std::map<std::uint64_t, int> open_;
};

struct Target {
  const char* name;
  const char* server;  // null: a folder of this machine
};

void PrintTo(const Target& target, std::ostream* out) {
  *out << target.name;
}

// This process is the server; a child of fork uses what is mounted, and ends the mount.
class FuseSession : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (const char* kind = GetParam().server; kind != nullptr) {
      served_ = ferry::test::served_folder(kind);
      if (!served_) GTEST_SKIP() << ferry::test::no_server(kind);
      folder_ = std::make_unique<ScratchDirectory>(served_->directory);
      const std::string path = folder_->path();
      root_ = served_->uri_of(path.substr(path.rfind('/') + 1));
    } else {
      folder_ = std::make_unique<ScratchDirectory>(ferry::test::build_folder());
      root_ = folder_->path();
    }
    if (!mounts_) GTEST_SKIP() << "absent: " << mounts_.why();
    place_ = mounts_ / "tree";
    ASSERT_EQ(mkdir(place_.c_str(), 0755), 0);
    device_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device_ < 0) GTEST_SKIP() << "absent: /dev/fuse: " << std::strerror(errno);
  }
  void TearDown() override {
    if (device_ >= 0) close(device_);
  }

  // What `work` returns in the child, which has the tree at place_; 255 if it throws, -1 if it
  // crashes.
  int served(const std::function<int()>& work) {
    const std::string options =
        "fd=" + std::to_string(device_) + ",rootmode=40755,user_id=0,group_id=0";
    if (mount("ferry", place_.c_str(), "fuse", 0, options.c_str()) != 0) return -1;
    const pid_t child = fork();
    if (child == 0) {
      close(device_);
      alarm(100);
      int result = 255;
      try {
        result = work();
      } catch (...) {
      }
      umount2(place_.c_str(), MNT_DETACH);
      _exit(result);
    }
    const std::unique_ptr<ferry::storage::Storage> storage = ferry::storage::make_router();
    // A child that ends otherwise leaves the mount.
    std::thread watch([&] {
      siginfo_t ended{};
      waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
      umount2(place_.c_str(), MNT_DETACH);
    });
    ferry::fuse::serve(device_, *storage, {.root = root_});
    watch.join();
    int status = 0;
    const bool ended = waitpid(child, &status, 0) == child && WIFEXITED(status);
    return ended ? WEXITSTATUS(status) : -1;
  }

  ferry::test::OwnMount mounts_{"size=64m"};
  std::optional<ferry::test::ServedFolder> served_;
  std::unique_ptr<ScratchDirectory> folder_;
  std::string root_;
  std::string place_;
  int device_ = -1;
};

TEST_P(FuseSession, IsLikeAFolder) {
  ScratchDirectory twin(ferry::test::build_folder());
  const std::uint64_t seed = Random().bits();
  const auto work = [&] {
    Random random(seed);
    umask(0);
    const bool closes_first = GetParam().name == std::string_view("Nfs");
    Tree ours(place_, closes_first);
    Tree theirs(twin.path(), closes_first);
    const std::uint64_t steps = ferry::test::scaled(4000);
    for (std::uint64_t i = 0; i < steps; ++i) {
      const std::uint64_t call = random.bits();
      const Outcome got = ours.step(Random(call));
      const Outcome wanted = theirs.step(Random(call));
      if (got == wanted || got.result == -1) continue;
      ADD_FAILURE() << "step " << i << ", " << ours.last() << ": " << got.result << " instead of "
                    << wanted.result << ", " << got.found.size() << " bytes instead of "
                    << wanted.found.size() << ": " << got.found.substr(0, 100) << " instead of "
                    << wanted.found.substr(0, 100);
      return 1;
    }
    return 0;
  };
  EXPECT_EQ(served(work), 0);
}

// Each process has a folder of its own; all of them move a file about that they share.
TEST_P(FuseSession, ManyProcessesAtOnce) {
  const auto use = [&](std::uint64_t seed) {
    const std::string own = place_ + "/" + std::to_string(seed);
    if (mkdir(own.c_str(), 0755) != 0) return 1;
    Random random(seed);
    for (std::uint64_t i = 0; i < ferry::test::scaled(150); ++i) {
      const std::string path = own + "/" + std::to_string(i % 7);
      const std::string data = pattern(random.below(40'000), random.bits());
      ferry::test::write_file(path, data);
      if (ferry::test::read_file(path) != data) return 2;
      const std::string other = own + "/other";
      if (rename(path.c_str(), other.c_str()) != 0) return 3;
      if (ferry::test::read_file(other) != data) return 4;
      rename((place_ + "/shared" + std::to_string(random.below(4))).c_str(),
             (place_ + "/shared" + std::to_string(random.below(4))).c_str());
    }
    return 0;
  };
  const auto work = [&] {
    ferry::test::write_file(place_ + "/shared0", "shared");
    std::vector<pid_t> children;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      children.push_back(fork());
      if (children.back() == 0) _exit(use(seed));
    }
    int result = 0;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      if (status != 0) result = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
    }
    return result;
  };
  EXPECT_EQ(served(work), 0);
}

TEST_P(FuseSession, SeesWhatOthersChange) {
  const std::string path = *folder_ / "f";
  const auto work = [&] {
    const std::string ours = place_ + "/f";
    for (const unsigned bytes : {100'000U, 100'000U, 10'000U, 0U, 5000U, 200'000U}) {
      const std::string data = pattern(bytes, bytes);
      ferry::test::write_file(path, data);  // another client
      if (ferry::test::read_file(ours) != data) return 1;
      if (ferry::test::read_file(ours) != data) return 2;
    }
    unlink(path.c_str());
    return 0;
  };
  EXPECT_EQ(served(work), 0);
}

TEST_P(FuseSession, AnOpenFileStaysThatFile) {
  if (GetParam().name == std::string_view("Nfs")) GTEST_SKIP() << "a server of NFS ends it";
  const auto work = [&] {
    const std::string ours = place_ + "/f";
    ferry::test::write_file(ours, "the first file");
    const int file = open(ours.c_str(), O_RDWR);
    // Another client replaces it.
    ferry::test::write_file(*folder_ / "new", "new");
    if (rename((*folder_ / "new").c_str(), (*folder_ / "f").c_str()) != 0) return 1;
    sleep(2);  // the kernel asks again
    struct stat status {};
    if (fstat(file, &status) != 0 || status.st_size != 14) return 2;
    char data[32]{};
    if (pread(file, data, sizeof data, 0) != 14 || data != std::string("the first file")) return 3;
    return ferry::test::read_file(ours) == "new" ? 0 : 4;
  };
  EXPECT_EQ(served(work), 0);
}

// A directory of several answers of the kernel's: what changes between them is not shown as it was.
TEST_P(FuseSession, ListsWhatChangesMeanwhile) {
  const auto work = [&] {
    constexpr int files = 600;
    const auto name = [&](int i) {
      return place_ + "/" + std::string(150, 'n') + std::to_string(i);
    };
    for (int i = 0; i < files; ++i)
      ferry::test::write_file(name(i), "");
    DIR* folder = opendir(place_.c_str());
    const dirent* first = readdir(folder);
    for (int i = 0; i < files; ++i)
      ferry::test::write_file(name(i), "contents");
    int found = first != nullptr ? 1 : 0;
    while (readdir(folder) != nullptr)
      ++found;
    closedir(folder);
    if (found != files + 2) return 1;
    for (int i = 0; i < files; ++i)
      if (std::filesystem::file_size(name(i)) != 8) return 2;
    return 0;
  };
  EXPECT_EQ(served(work), 0);
}

// Small writes wait for more on this side. Another client sees them when the file is synced or
// closed, and else within a second or two.
TEST_P(FuseSession, ShowsOthersWhatIsWritten) {
  const std::string theirs = *folder_ / "f";
  const std::string data = pattern(30'000, 1);
  const auto sees = [&](std::size_t bytes) {
    return ferry::test::read_file(theirs) == data.substr(0, bytes);
  };
  const auto work = [&] {
    const int file = open((place_ + "/f").c_str(), O_RDWR | O_CREAT, 0644);
    const auto write_up_to = [&](std::size_t end) {
      for (off_t at = lseek(file, 0, SEEK_CUR); at < static_cast<off_t>(end); at += 1000)
        if (write(file, data.data() + at, 1000) != 1000) return false;
      return true;
    };
    if (!write_up_to(10'000) || fsync(file) != 0 || !sees(10'000)) return 1;
    if (!write_up_to(20'000)) return 2;
    if (!ferry::test::eventually([&] { return sees(20'000); }, std::chrono::seconds(30))) return 3;
    if (!write_up_to(30'000) || close(file) != 0 || !sees(30'000)) return 4;
    return 0;
  };
  EXPECT_EQ(served(work), 0);
}

TEST_P(FuseSession, RemovedFilesStayUsableWhereTheyAreOpen) {
  const auto work = [&] {
    const std::string path = place_ + "/file";
    const std::string other = place_ + "/other";
    for (const bool replaces : {false, true}) {
      ferry::test::write_file(path, "contents");
      ferry::test::write_file(other, "others");
      const int file = open(path.c_str(), O_RDWR);
      const int again = open(path.c_str(), O_RDONLY);
      if (replaces ? rename(other.c_str(), path.c_str()) != 0 : unlink(path.c_str()) != 0) return 1;
      char data[16]{};
      if (pwrite(file, "new", 3, 0) != 3 || pread(again, data, 16, 0) != 8) return 2;
      if (data != std::string("newtents") || ftruncate(file, 3) != 0) return 3;
      struct stat status {};
      if (fstat(file, &status) != 0 || status.st_size != 3 || status.st_nlink != 0) return 4;
      if (replaces && ferry::test::read_file(path) != "others") return 5;
      if (close(file) != 0 || pread(again, data, 16, 0) != 3 || close(again) != 0) return 6;
    }
    return 0;
  };
  EXPECT_EQ(served(work), 0);
  // Nothing but what has a name is left.
  std::vector<std::string> names;
  for (const auto& one : std::filesystem::directory_iterator(folder_->path()))
    names.push_back(one.path().filename());
  EXPECT_EQ(names, std::vector<std::string>{"file"});
}

TEST_P(FuseSession, OneFileHasSeveralNames) {
  const auto work = [&] {
    const std::string file = place_ + "/file";
    const std::string other = place_ + "/other";
    ferry::test::write_file(file, "contents");
    if (link(file.c_str(), other.c_str()) != 0) return 1;
    if (plain(link(file.c_str(), other.c_str())) != -EEXIST) return 2;
    struct stat one {};
    struct stat two {};
    if (stat(file.c_str(), &one) != 0 || stat(other.c_str(), &two) != 0) return 3;
    if (one.st_ino != two.st_ino || one.st_nlink != 2 || two.st_nlink != 2) return 4;
    const int writes = open(file.c_str(), O_WRONLY);
    for (const char* word : {"new ", "words "})
      if (write(writes, word, std::strlen(word)) < 0) return 5;
    if (ferry::test::read_file(other) != "new words ") return 6;  // also while it is gathered
    if (close(writes) != 0 || unlink(file.c_str()) != 0) return 7;
    return ferry::test::read_file(other) == "new words " ? 0 : 8;
  };
  EXPECT_EQ(served(work), 0);
}

TEST_P(FuseSession, WhatThereIsNot) {
  const auto work = [&] {
    const std::string file = place_ + "/file";
    ferry::test::write_file(file, "contents");
    if (plain(mkfifo((place_ + "/fifo").c_str(), 0600)) != -EPERM) return 3;
    if (plain(open((place_ + "/" + std::string(300, 'x')).c_str(), O_RDONLY)) != -ENAMETOOLONG)
      return 4;
    return ferry::test::read_file(file) == "contents" ? 0 : 5;
  };
  EXPECT_EQ(served(work), 0);
}

INSTANTIATE_TEST_SUITE_P(All, FuseSession,
                         testing::Values(Target{"Folder", nullptr}, Target{"Nfs", "NFS"},
                                         Target{"Ceph", "CEPH"}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
