// Names, sizes and status of files and directories.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/conformance.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::storage::conformance_names_test {
namespace {

using test::Descriptor;
using test::pattern;
using test::plain;
using test::read_file;
using test::same_bytes;
using test::scaled;
using test::write_file;

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr auto offset_max = std::numeric_limits<std::int64_t>::max();

TEST_P(Conformance, OpensAsTheSystemCallDoes) {
  write_file(path("there"), "x");
  mkdir(path("dir").c_str(), 0755);
  ASSERT_EQ(symlink("there", path("link").c_str()), 0);
  ASSERT_EQ(symlink("loop", path("loop").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", path("dangling").c_str()), 0);
  struct Case {
    const char* name;
    int flags;
  };
  for (const Case& one : std::vector<Case>{{"missing", O_RDONLY},
                                           {"there", O_RDONLY},
                                           {"there", O_RDWR},
                                           {"there/below", O_RDONLY},
                                           {"missing/below", O_RDWR | O_CREAT},
                                           {"there", O_RDWR | O_CREAT | O_EXCL},
                                           {"dir", O_RDWR},
                                           {"dir", O_WRONLY},
                                           {"dir", O_RDONLY | O_CREAT},
                                           {"there", O_RDONLY | O_DIRECTORY},
                                           {"link", O_RDONLY},
                                           {"link", O_RDONLY | O_NOFOLLOW},
                                           {"link", O_RDWR | O_CREAT | O_EXCL},
                                           {"loop", O_RDONLY},
                                           {"dangling", O_RDWR},
                                           {"dangling", O_RDWR | O_CREAT | O_EXCL},
                                           {"", O_RDONLY}}) {
    const std::int64_t ours = driver->try_open(at(one.name), flags(one.flags));
    const Descriptor fd(::open(path(one.name).c_str(), flags(one.flags), 0644));
    EXPECT_EQ(ours, fd >= 0 ? 0 : -errno) << one.name << " flags " << std::oct << one.flags;
  }
  EXPECT_EQ(driver->try_open("", O_RDONLY), -ENOENT);
  EXPECT_EQ(driver->try_open(at(std::string(300, 'n')), O_RDWR | O_CREAT), -ENAMETOOLONG);
  EXPECT_EQ(driver->try_open(at(std::string(5000, '/')), O_RDONLY), -ENAMETOOLONG);
}

// All of them open at once.
// A storage without them reports that, and creates no named file instead.
TEST_P(Conformance, OpensFilesWithoutAName) {
  for (const int more : {0, O_DIRECT, O_DIRECT | O_EXCL}) {
    File* file = nullptr;
    const std::int64_t opened = driver->open(at(""), O_TMPFILE | O_RDWR | more, file, 0600);
    const test::Descriptor fd(::open(path("").c_str(), O_TMPFILE | O_RDWR | more, 0600));
    if (server) {
      EXPECT_EQ(opened, -EOPNOTSUPP);
    } else {
      EXPECT_EQ(opened, fd >= 0 ? 0 : -errno) << more;
    }
    if (opened != 0) continue;
    std::memcpy(arena.data(), "bytes", 5);
    EXPECT_EQ(driver->pwrite(file, arena.data(), 5, 0), 5);
    EXPECT_EQ(driver->pread(file, arena.data() + 8, 5, 0), 5);
    EXPECT_EQ(arena.view(8, 5), "bytes");
    EXPECT_EQ(driver->close(file), 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory->path()));
}

TEST_P(Conformance, ManyFiles) {
  constexpr std::size_t count = 200;
  const auto bytes_of = [](std::size_t number) { return pattern(number * 37, 1000 + number); };
  std::vector<std::string> names;
  std::vector<File*> files;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(at("many" + std::to_string(i)));
    files.push_back(open(names.back(), O_RDWR | O_CREAT | O_EXCL));
    const std::string data = bytes_of(i);
    std::memcpy(arena.data(), data.data(), data.size());
    ASSERT_EQ(driver->pwrite(files.back(), arena.data(), data.size(), 0), std::ssize(data));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string data = bytes_of(i);
    ASSERT_EQ(driver->pread(files[i], arena.data(), 65'536, 0), std::ssize(data));
    ASSERT_TRUE(same_bytes(arena.view(0, data.size()), data)) << i;
  }
  for (File* file : files)
    ASSERT_EQ(driver->close(file), 0);
  ASSERT_TRUE(same_bytes(read_file(path("many150")), bytes_of(150)));
  for (const std::string& name : names)
    ASSERT_EQ(driver->path_call(Kind::unlink, name), 0) << name;
  EXPECT_TRUE(std::filesystem::is_empty(directory->path()));
}

TEST_P(Conformance, OpensADirectoryForReadingButReadsNoBytesFromIt) {
  File* file = driver->must_open(at(""), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), -EISDIR);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -EBADF);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, CreatesWithTheModeAskedFor) {
  const mode_t before = umask(027);
  File* file = driver->must_open(at("f"), flags(O_RDWR | O_CREAT | O_EXCL), 0666);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, TruncatesOnOpenAndOnDemand) {
  write_file(path("f"), pattern(10'000, 1));
  File* file = open(at("f"), O_RDWR | O_TRUNC);
  EXPECT_EQ(test::file_size(path("f")), 0);
  std::memset(arena.data(), 'a', 8192);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 8192, 0), 8192);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 100), 0);
  EXPECT_EQ(test::file_size(path("f")), 100);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 5 * gib), 0);
  EXPECT_EQ(test::file_size(path("f")), 5 * gib);
  ASSERT_EQ(driver->pread(file, arena.data(), 4096, 0), 4096);
  EXPECT_TRUE(same_bytes(arena.view(0, 4096), std::string(100, 'a') + std::string(3996, '\0')));
  EXPECT_EQ(driver->simple(Kind::truncate, file, -1), -EINVAL);
  const Descriptor fd(::open(path("f").c_str(), O_RDWR));
  EXPECT_EQ(driver->simple(Kind::truncate, file, offset_max), plain(ftruncate(fd, offset_max)));
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, SyncsFiles) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 5000, 0), 5000);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->simple(Kind::sync_data, file), 0);
  EXPECT_EQ(driver->close(file), 0);
}

void expect_same_status(const Status& ours, const struct stat& theirs, bool full) {
  EXPECT_EQ(ours.size_bytes, static_cast<std::uint64_t>(theirs.st_size));
  EXPECT_EQ(ours.inode, theirs.st_ino);
  EXPECT_EQ(ours.modified_ns / 1'000'000'000, theirs.st_mtim.tv_sec);
  EXPECT_EQ(ours.mode, theirs.st_mode);
  if (full) {
    EXPECT_EQ(ours.allocated_bytes, static_cast<std::uint64_t>(theirs.st_blocks) * 512);
    EXPECT_EQ(ours.modified_ns % 1'000'000'000, theirs.st_mtim.tv_nsec);
    EXPECT_EQ(ours.links, theirs.st_nlink);
  }
  EXPECT_EQ(ours.owner, theirs.st_uid);
  EXPECT_EQ(ours.group, theirs.st_gid);
  EXPECT_GE(ours.block_bytes, static_cast<std::uint32_t>(theirs.st_blksize));
}

TEST_P(Conformance, TellsTheStatus) {
  write_file(path("f"), pattern(12'345, 1));
  const bool has_links = link(path("f").c_str(), path("second").c_str()) == 0;
  ASSERT_TRUE(has_links || !can.full_status) << std::strerror(errno);
  ASSERT_EQ(symlink("f", path("link").c_str()), 0);
  ASSERT_EQ(chmod(path("f").c_str(), 0751), 0);
  struct stat theirs {};
  ASSERT_EQ(stat(path("f").c_str(), &theirs), 0);
  File* file = open(at("f"), O_RDONLY);
  Operation operation{.kind = Kind::file_status, .file = file};
  ASSERT_EQ(driver->run(operation), 0);
  expect_same_status(operation.status, theirs, can.full_status);
  for (const char* name : {"f", "second", "link"}) {
    if (!has_links && std::strcmp(name, "second") == 0) continue;
    Status ours;
    ASSERT_EQ(driver->path_call(Kind::path_status, at(name), &ours), 0);
    expect_same_status(ours, theirs, can.full_status);
  }
  EXPECT_EQ(driver->path_call(Kind::path_status, at("missing")), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f/below")), -ENOTDIR);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, Unlinks) {
  write_file(path("f"), "x");
  mkdir(path("dir").c_str(), 0755);
  File* file = open(at("f"), O_RDWR);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  // The open file stays usable, or reports that it does not.
  std::memcpy(arena.data(), "still here", 10);
  const std::int64_t written = driver->pwrite(file, arena.data(), 10, 0);
  const std::int64_t got = driver->pread(file, arena.data() + 100, 10, 0);
  if (can.open_after_unlink || written >= 0) {
    EXPECT_EQ(written, 10);
  } else {
    EXPECT_EQ(written, -ESTALE);
  }
  if (can.open_after_unlink || got >= 0) {
    EXPECT_EQ(got, 10);
  } else {
    EXPECT_EQ(got, -ESTALE);
  }
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("dir")), -EISDIR);
  EXPECT_EQ(driver->path_call(Kind::unlink, ""), -ENOENT);
}

TEST_P(Conformance, Renames) {
  const auto rename = [&](const std::string& from, const std::string& to) {
    Operation operation{.kind = Kind::rename, .path = from.c_str(), .new_path = to.c_str()};
    return driver->run(operation);
  };
  write_file(path("f"), "new");
  write_file(path("g"), "old");
  mkdir(path("dir").c_str(), 0755);
  File* old = open(at("g"), O_RDONLY);
  EXPECT_EQ(rename(at("f"), at("g")), 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  EXPECT_EQ(read_file(path("g")), "new");
  EXPECT_EQ(driver->close(old), 0);
  EXPECT_EQ(rename(at("missing"), at("g")), -ENOENT);
  EXPECT_EQ(rename(at("g"), at("missing/g")), -ENOENT);
  EXPECT_EQ(rename(at("g"), at("dir")), -EISDIR);
  EXPECT_EQ(rename(at("g"), server ? path("g") : "nfs://127.0.0.1/g"), -EXDEV);
  EXPECT_EQ(rename(at("g"), at("dir/g")), 0);
  EXPECT_EQ(read_file(path("dir/g")), "new");
  // An open file stays usable under its new name.
  File* file = open(at("dir/g"), O_RDWR);
  EXPECT_EQ(rename(at("dir/g"), at("h")), 0);
  std::memcpy(arena.data(), "newer", 5);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 5, 0), 5);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(read_file(path("h")), "newer");
}

// Checks that a library may leave to its caller. System calls on a twin of the tree must have the
// same results and leave the same.
class Twins {
 public:
  explicit Twins(std::string ours, std::string twin)
      : ours_(std::move(ours)), twin_(std::move(twin)) {
    for (const std::string& root : {ours_, twin_}) {
      for (const char* name : {"", "/full", "/full/below", "/empty", "/empty2", "/other"})
        mkdir((root + name).c_str(), 0755);
      for (const char* name : {"/f", "/g", "/full/below/f"})
        write_file(root + name, name);
      EXPECT_EQ(symlink("full/below", (root + "/link").c_str()), 0);
      EXPECT_EQ(symlink("f", (root + "/flink").c_str()), 0);
    }
  }
  std::string twin(const std::string& name) const { return twin_ + "/" + name; }
  void expect_same_trees() const { EXPECT_EQ(tree(ours_), tree(twin_)); }

 private:
  static std::vector<std::string> tree(const std::string& root) {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
      found.push_back(entry.path().string().substr(root.size()));
    std::sort(found.begin(), found.end());
    return found;
  }

  const std::string ours_;
  const std::string twin_;
};

TEST_P(Conformance, RenamesAndRefusesAsTheSystemCallDoes) {
  const test::ScratchDirectory elsewhere;
  const Twins twins(path("tree"), elsewhere / "tree");
  const std::string longest(300, 'n');
  struct Case {
    std::string from;
    std::string to;
  };
  for (const Case& one : std::vector<Case>{
           {"f", "f"},
           {"full", "full"},
           {"full", "full/below"},
           {"full", "full/below/deep"},
           {"full", "full/new"},
           {"full", "link/new"},  // which is full/below
           {"full/below", "link/new"},
           {"full/below", "full"},
           {"empty", "full"},
           {"f", "empty"},
           {"empty", "f"},
           {"f/", "new"},
           {"f", "new/"},
           {"f", "g/"},
           {"f", "empty/"},
           {"f/.", "new"},
           {"empty/.", "new"},
           {"empty/..", "new"},
           {"f", "empty/."},
           {"f", longest},
           {longest, "f"},
           {"missing", "missing"},
           {"missing", "f"},
           {"f", "missing/f"},
           {"f", "g/f"},
           {"f/f", "new"},
           {"link", "f"},
           {"other", "flink"},
           {"empty2", "empty"},
           {"empty/", "renamed/"},
           {"full", "other"},
           {"other/below", "renamed/below"},
           {"f", "flink"},
           {"g", "f"},
       }) {
    const std::string from = at("tree/" + one.from);
    const std::string to = at("tree/" + one.to);
    Operation operation{.kind = Kind::rename, .path = from.c_str(), .new_path = to.c_str()};
    const std::int64_t ours = driver->run(operation);
    const std::int64_t plainly =
        plain(::rename(twins.twin(one.from).c_str(), twins.twin(one.to).c_str()));
    EXPECT_EQ(ours, plainly) << one.from << " to " << one.to;
    twins.expect_same_trees();
  }
}

TEST_P(Conformance, RenamingTwoNamesOfOneFileLeavesBoth) {
  write_file(path("f"), "x");
  if (link(path("f").c_str(), path("second").c_str()) != 0) {
    GTEST_SKIP() << "no hard links here: " << std::strerror(errno);
  }
  const std::string from = at("f");
  const std::string to = at("second");
  Operation operation{.kind = Kind::rename, .path = from.c_str(), .new_path = to.c_str()};
  EXPECT_EQ(driver->run(operation), 0);
  EXPECT_EQ(read_file(path("f")), "x");
  EXPECT_EQ(read_file(path("second")), "x");
}

TEST_P(Conformance, NamesThatAreNoneEndAsInTheSystemCalls) {
  const test::ScratchDirectory elsewhere;
  const Twins twins(path("tree"), elsewhere / "tree");
  const std::string longest(300, 'n');
  const std::vector<std::string> names = {
      "f/",     "f/.",       "f/below",       "full/.", "full/..", "missing/",
      "link/",  "missing/.", "missing/below", longest,  "full",    longest + "/below",
      "link/.", "flink/",    "full/below/f/"};
  const auto call = [&](Kind kind, const std::string& name) {
    const std::string there = at("tree/" + name);
    Operation operation{.kind = kind, .path = there.c_str(), .mode = 0755};
    return driver->run(operation);
  };
  for (const std::string& name : names) {
    const std::string twin = twins.twin(name);
    struct stat status {};
    EXPECT_EQ(call(Kind::unlink, name), plain(::unlink(twin.c_str()))) << "unlink " << name;
    EXPECT_EQ(call(Kind::remove_directory, name), plain(::rmdir(twin.c_str()))) << "rmdir " << name;
    EXPECT_EQ(call(Kind::path_status, name), plain(::stat(twin.c_str(), &status)))
        << "stat " << name;
    for (const int wanted : {O_RDONLY, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL, O_WRONLY}) {
      const std::int64_t ours = driver->try_open(at("tree/" + name), wanted);
      const Descriptor fd(::open(twin.c_str(), wanted, 0644));
      EXPECT_EQ(ours, fd >= 0 ? 0 : -errno) << "open " << name << " flags " << std::oct << wanted;
    }
    twins.expect_same_trees();
  }
  for (const std::string& name : names) {
    EXPECT_EQ(call(Kind::make_directory, name), plain(::mkdir(twins.twin(name).c_str(), 0755)))
        << "mkdir " << name;
  }
  twins.expect_same_trees();
}

TEST_P(Conformance, MakesAndRemovesDirectories) {
  const auto call = [&](Kind kind, const std::string& path) {
    Operation operation{.kind = kind, .path = path.c_str(), .mode = 0750};
    return driver->run(operation);
  };
  write_file(path("f"), "x");
  EXPECT_EQ(call(Kind::make_directory, at("dir")), 0);
  Status status;
  EXPECT_EQ(driver->path_call(Kind::path_status, at("dir"), &status), 0);
  EXPECT_EQ(status.mode, static_cast<unsigned>(S_IFDIR | 0750));
  EXPECT_TRUE(std::filesystem::is_directory(path("dir")));
  EXPECT_EQ(call(Kind::make_directory, at("dir")), -EEXIST);
  EXPECT_EQ(call(Kind::make_directory, at("f")), -EEXIST);
  EXPECT_EQ(call(Kind::make_directory, at("missing/dir")), -ENOENT);
  EXPECT_EQ(call(Kind::make_directory, at("f/dir")), -ENOTDIR);
  EXPECT_EQ(call(Kind::make_directory, at("dir/below")), 0);
  EXPECT_EQ(call(Kind::remove_directory, at("dir")), -ENOTEMPTY);
  EXPECT_EQ(call(Kind::remove_directory, at("dir/below")), 0);
  EXPECT_EQ(call(Kind::remove_directory, at("dir")), 0);
  EXPECT_EQ(call(Kind::remove_directory, at("dir")), -ENOENT);
  EXPECT_EQ(call(Kind::remove_directory, at("f")), -ENOTDIR);
  EXPECT_EQ(read_file(path("f")), "x");
  EXPECT_FALSE(std::filesystem::exists(path("dir")));
}

TEST_P(Conformance, ListsDirectories) {
  std::vector<DirectoryEntry> entries;
  const auto list = [&](const std::string& path) {
    entries.clear();
    Operation operation{.kind = Kind::list_directory, .path = path.c_str(), .entries = &entries};
    return driver->run(operation);
  };
  mkdir(path("dir").c_str(), 0755);
  EXPECT_EQ(list(at("dir")), 0);
  EXPECT_TRUE(entries.empty());
  // More than one reply of a server holds.
  const std::size_t count = scaled(300);
  for (std::size_t i = 0; i < count; ++i)
    write_file(path("dir/a rather long name of a file, number " + std::to_string(i)),
               std::string(i, 'x'));
  mkdir(path("dir/below").c_str(), 0700);
  ASSERT_EQ(symlink("below", path("dir/link").c_str()), 0);
  ASSERT_EQ(list(at("dir")), 0);
  ASSERT_EQ(entries.size(), count + 2);
  std::map<std::string, Status> found;
  for (const DirectoryEntry& entry : entries)
    found[entry.name] = entry.status;
  EXPECT_EQ(found.size(), count + 2);
  for (std::size_t i = 0; i < count; ++i) {
    const Status& status = found["a rather long name of a file, number " + std::to_string(i)];
    EXPECT_EQ(status.size_bytes, i);
    EXPECT_TRUE(S_ISREG(status.mode));
  }
  EXPECT_EQ(found["below"].mode, static_cast<unsigned>(S_IFDIR | 0700));
  EXPECT_TRUE(S_ISLNK(found["link"].mode));
  write_file(path("dir/below/f"), "x");
  EXPECT_EQ(list(at("dir/link")), 0);
  EXPECT_EQ(entries.size(), 1U);
  EXPECT_EQ(list(at("missing")), -ENOENT);
  EXPECT_EQ(list(at("dir/below/f")), -ENOTDIR);
  EXPECT_TRUE(entries.empty());
}

// A direct open has two steps; after the first, the name may be gone or another file's.
TEST_P(Conformance, WorksOnTheFileItOpenedWhateverHappensToItsName) {
  write_file(path("f"), pattern(8192, 1));
  File* file = open(at("f"), O_RDWR);
  ASSERT_EQ(rename(path("f").c_str(), path("g").c_str()), 0);
  write_file(path("f"), pattern(8192, 2));
  ASSERT_EQ(driver->pread(file, arena.data(), 8192, 0), 8192);
  EXPECT_TRUE(same_bytes(arena.view(0, 8192), pattern(8192, 1)));
  EXPECT_EQ(driver->close(file), 0);
}

}  // namespace
}  // namespace ferry::storage::conformance_names_test
