// Names, sizes and status of files and directories.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
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
  constexpr int make = O_RDWR | O_CREAT;
  const std::vector<std::pair<const char*, std::vector<int>>> cases = {
      {"missing", {O_RDONLY}},
      {"there", {O_RDONLY, O_RDWR, make | O_EXCL, O_RDONLY | O_DIRECTORY}},
      {"there/below", {O_RDONLY}},
      {"missing/below", {make}},
      {"dir", {O_RDWR, O_WRONLY, O_RDONLY | O_CREAT}},
      {"link", {O_RDONLY, O_RDONLY | O_NOFOLLOW, make | O_EXCL}},
      {"loop", {O_RDONLY}},
      {"dangling", {O_RDWR, make | O_EXCL}},
      {"", {O_RDONLY}},
  };
  for (const auto& [name, ways] : cases) {
    for (const int way : ways) {
      const std::int64_t ours = driver->try_open(at(name), flags(way));
      const Descriptor fd(::open(path(name).c_str(), flags(way), 0644));
      EXPECT_EQ(ours, fd >= 0 ? 0 : -errno) << name << " flags " << std::oct << way;
    }
  }
  EXPECT_EQ(driver->try_open("", O_RDONLY), -ENOENT);
  EXPECT_EQ(driver->try_open(at(std::string(300, 'n')), O_RDWR | O_CREAT), -ENAMETOOLONG);
  EXPECT_EQ(driver->try_open(at(std::string(5000, '/')), O_RDONLY), -ENAMETOOLONG);
}

// A storage without them reports that, and creates no named file instead.
TEST_P(Conformance, OpensFilesWithoutAName) {
  for (const int more : {0, O_DIRECT, O_DIRECT | O_EXCL}) {
    File* file = nullptr;
    const std::int64_t opened = driver->open(at(""), O_TMPFILE | O_RDWR | more, file, 0600);
    const Descriptor fd(::open(path("").c_str(), O_TMPFILE | O_RDWR | more, 0600));
    EXPECT_EQ(opened, server ? -EOPNOTSUPP : fd >= 0 ? 0 : -errno) << more;
    if (opened != 0) continue;
    EXPECT_EQ(write(file, "bytes"), 5);
    EXPECT_TRUE(driver->finds(file, "bytes", arena.data() + 8));
    EXPECT_EQ(driver->close(file), 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory->path()));
}

// All of them open at once.
TEST_P(Conformance, ManyFiles) {
  constexpr std::size_t count = 200;
  const auto bytes_of = [](std::size_t number) { return pattern(number * 37, 1000 + number); };
  std::vector<std::string> names;
  std::vector<File*> files;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(at("many" + std::to_string(i)));
    files.push_back(driver->must_open(names.back(), flags(O_RDWR | O_CREAT | O_EXCL)));
    const std::string data = bytes_of(i);
    ASSERT_EQ(write(files.back(), data), std::ssize(data));
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
  const auto file = must_open(at(""), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), -EISDIR);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -EBADF);
}

TEST_P(Conformance, CreatesWithTheModeAskedFor) {
  const mode_t before = umask(027);
  const auto file = must_open(at("f"), flags(O_RDWR | O_CREAT | O_EXCL), 0666);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

TEST_P(Conformance, TruncatesOnOpenAndOnDemand) {
  write_file(path("f"), pattern(10'000, 1));
  const auto file = open(at("f"), O_RDWR | O_TRUNC);
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
}

TEST_P(Conformance, SyncsFiles) {
  const auto file = open(at("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 5000, 0), 5000);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->simple(Kind::sync_data, file), 0);
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
  const auto file = open(at("f"), O_RDONLY);
  Status of_file;
  ASSERT_EQ(driver->file_status(file, of_file), 0);
  expect_same_status(of_file, theirs, can.full_status);
  for (const char* name : {"f", "second", "link"}) {
    if (!has_links && std::strcmp(name, "second") == 0) continue;
    Status ours;
    ASSERT_EQ(driver->path_call(Kind::path_status, at(name), &ours), 0);
    expect_same_status(ours, theirs, can.full_status);
  }
  EXPECT_EQ(driver->path_call(Kind::path_status, at("missing")), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f/below")), -ENOTDIR);
}

TEST_P(Conformance, Unlinks) {
  write_file(path("f"), "x");
  mkdir(path("dir").c_str(), 0755);
  auto file = open(at("f"), O_RDWR);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  // The open file stays usable, or reports that it does not.
  const std::int64_t written = write(file, "still here");
  const std::int64_t got = driver->pread(file, arena.data() + 100, 10, 0);
  for (const std::int64_t result : {written, got})
    EXPECT_EQ(result, can.open_after_unlink || result >= 0 ? 10 : -ESTALE);
  file.close();
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("dir")), -EISDIR);
  EXPECT_EQ(driver->path_call(Kind::unlink, ""), -ENOENT);
}

TEST_P(Conformance, Renames) {
  const auto rename = [&](const auto& from, const auto& to) { return driver->rename(from, to); };
  write_file(path("f"), "new");
  write_file(path("g"), "old");
  mkdir(path("dir").c_str(), 0755);
  auto old = open(at("g"), O_RDONLY);
  EXPECT_EQ(rename(at("f"), at("g")), 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  EXPECT_EQ(read_file(path("g")), "new");
  old.close();
  EXPECT_EQ(rename(at("missing"), at("g")), -ENOENT);
  EXPECT_EQ(rename(at("g"), at("missing/g")), -ENOENT);
  EXPECT_EQ(rename(at("g"), at("dir")), -EISDIR);
  EXPECT_EQ(rename(at("g"), server ? path("g") : "nfs://127.0.0.1/g"), -EXDEV);
  EXPECT_EQ(rename(at("g"), at("dir/g")), 0);
  EXPECT_EQ(read_file(path("dir/g")), "new");
  // An open file stays usable under its new name.
  auto file = open(at("dir/g"), O_RDWR);
  EXPECT_EQ(rename(at("dir/g"), at("h")), 0);
  EXPECT_EQ(write(file, "newer"), 5);
  file.close();
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
  // Names and what they get, in this order. Of these, link is full/below, and flink is f.
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"f", {"f"}},
      {"full", {"full", "full/below", "full/below/deep", "full/new", "link/new"}},
      {"full/below", {"link/new", "full"}},
      {"empty", {"full"}},
      {"f", {"empty"}},
      {"empty", {"f"}},
      {"f/", {"new"}},
      {"f", {"new/", "g/", "empty/"}},
      {"f/.", {"new"}},
      {"empty/.", {"new"}},
      {"empty/..", {"new"}},
      {"f", {"empty/.", longest}},
      {longest, {"f"}},
      {"missing", {"missing", "f"}},
      {"f", {"missing/f", "g/f"}},
      {"f/f", {"new"}},
      {"link", {"f"}},
      {"other", {"flink"}},
      {"empty2", {"empty"}},
      {"empty/", {"renamed/"}},
      {"full", {"other"}},
      {"other/below", {"renamed/below"}},
      {"f", {"flink"}},
      {"g", {"f"}},
  };
  for (const auto& [from, names] : cases) {
    for (const std::string& to : names) {
      EXPECT_EQ(driver->rename(at("tree/" + from), at("tree/" + to)),
                plain(::rename(twins.twin(from).c_str(), twins.twin(to).c_str())))
          << from << " to " << to;
      twins.expect_same_trees();
    }
  }
}

TEST_P(Conformance, RenamingTwoNamesOfOneFileLeavesBoth) {
  write_file(path("f"), "x");
  if (link(path("f").c_str(), path("second").c_str()) != 0) {
    GTEST_SKIP() << "no hard links here: " << std::strerror(errno);
  }
  EXPECT_EQ(driver->rename(at("f"), at("second")), 0);
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
    return driver->path_call(kind, at("tree/" + name), nullptr, 0755);
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
    return driver->path_call(kind, path, nullptr, 0750);
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

TEST_P(Conformance, SetsAttributes) {
  write_file(path("f"), "contents");
  ASSERT_EQ(symlink("f", path("link").c_str()), 0);
  const auto set = [&](const std::string& name, const NewAttributes& to) {
    const std::string where = at(name);
    Operation operation{.kind = Kind::set_attributes, .path = where.c_str(), .attributes = &to};
    return driver->run(operation);
  };
  if (!storage->describe_path(at("f")).capabilities.sets_attributes) {
    EXPECT_EQ(set("f", {.mode = 0600}), -EOPNOTSUPP);
    return;
  }
  struct stat before {};
  ASSERT_EQ(::stat(path("f").c_str(), &before), 0);
  EXPECT_EQ(set("f", {.mode = 0640}), 0);
  constexpr std::int64_t accessed = 1'234'567'890'123'456'789;
  constexpr std::int64_t modified = 987'654'321'987'654'321;
  EXPECT_EQ(set("link", {.accessed_ns = accessed, .modified_ns = modified}), 0);
  struct stat status {};
  ASSERT_EQ(::stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(status.st_uid, before.st_uid);
  EXPECT_EQ(status.st_mtim.tv_sec, modified / 1'000'000'000);
  EXPECT_EQ(status.st_mtim.tv_nsec, modified % 1'000'000'000);
  EXPECT_EQ(status.st_atim.tv_sec, accessed / 1'000'000'000);
  Status found;
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f"), &found), 0);
  EXPECT_EQ(found.modified_ns, modified);
  EXPECT_EQ(found.accessed_ns / 1'000'000'000, accessed / 1'000'000'000);
  EXPECT_EQ(set("f", {.modified_ns = NewAttributes::now}), 0);
  ASSERT_EQ(::stat(path("f").c_str(), &status), 0);
  EXPECT_GE(status.st_mtim.tv_sec, before.st_mtim.tv_sec - 1);
  EXPECT_EQ(status.st_atim.tv_sec, accessed / 1'000'000'000);
  EXPECT_EQ(read_file(path("f")), "contents");
  EXPECT_EQ(set("missing", {.mode = 0600}), -ENOENT);
  EXPECT_EQ(set("f/below", {.mode = 0600}), -ENOTDIR);
}

TEST_P(Conformance, MakesAndReadsLinks) {
  write_file(path("f"), "contents");
  mkdir(path("dir").c_str(), 0755);
  const auto call = [&](Kind kind, const std::string& name, std::string& text) {
    const std::string where = at(name);
    Operation operation{.kind = kind, .path = where.c_str(), .text = &text};
    return driver->run(operation);
  };
  const auto status_of = [&](const std::string& name, int flags, Status& status) {
    const std::string where = at(name);
    Operation operation{.kind = Kind::path_status, .path = where.c_str(), .flags = flags};
    driver->run(operation);
    status = operation.status;
    return operation.result;
  };
  const auto make = [&](const std::string& name, std::string text) {
    return call(Kind::make_link, name, text);
  };
  const auto add_name = [&](const std::string& name, const std::string& new_name) {
    const std::string from = at(name);
    const std::string to = at(new_name);
    Operation operation{.kind = Kind::add_name, .path = from.c_str(), .new_path = to.c_str()};
    return driver->run(operation);
  };
  std::string text = "old";
  ASSERT_EQ(symlink("no such file", path("dangling").c_str()), 0);
  EXPECT_EQ(call(Kind::read_link, "dangling", text), 0);
  EXPECT_EQ(text, "no such file");
  EXPECT_EQ(call(Kind::read_link, "f", text), -EINVAL);
  EXPECT_EQ(call(Kind::read_link, "missing", text), -ENOENT);
  Status status;
  EXPECT_EQ(status_of("dangling", 0, status), -ENOENT);
  EXPECT_EQ(status_of("dangling", O_NOFOLLOW, status), 0);
  EXPECT_TRUE(S_ISLNK(status.mode));
  if (!storage->describe_path(at("f")).capabilities.makes_links) {
    EXPECT_EQ(make("link", "f"), -EOPNOTSUPP);
    EXPECT_EQ(add_name("f", "again"), -EOPNOTSUPP);
    return;
  }
  EXPECT_EQ(make("link", "f"), 0);
  EXPECT_EQ(make("link", "f"), -EEXIST);
  EXPECT_EQ(make("f", "f"), -EEXIST);
  EXPECT_EQ(make("missing/link", "f"), -ENOENT);
  EXPECT_EQ(make("f/link", "f"), -ENOTDIR);
  EXPECT_EQ(make("empty", ""), -ENOENT);
  EXPECT_EQ(read_file(path("link")), "contents");
  EXPECT_EQ(call(Kind::read_link, "link", text), 0);
  EXPECT_EQ(text, "f");
  const NewAttributes early{.modified_ns = 1'000'000'000};
  const std::string link = at("link");
  Operation set{.kind = Kind::set_attributes,
                .path = link.c_str(),
                .attributes = &early,
                .flags = O_NOFOLLOW};
  EXPECT_EQ(driver->run(set), 0);
  EXPECT_EQ(status_of("link", O_NOFOLLOW, status), 0);
  // nfs-ganesha says that it has set them, and does not.
  EXPECT_TRUE(storage->describe_path(link).name == "nfs" || status.modified_ns == 1'000'000'000);
  EXPECT_EQ(status_of("link", 0, status), 0);
  EXPECT_NE(status.modified_ns, 1'000'000'000);

  EXPECT_EQ(add_name("f", "dir/again"), 0);
  EXPECT_EQ(read_file(path("dir/again")), "contents");
  EXPECT_EQ(status_of("dir/again", 0, status), 0);
  EXPECT_EQ(status.links, 2U);
  EXPECT_EQ(add_name("f", "dir/again"), -EEXIST);
  EXPECT_EQ(add_name("missing", "new"), -ENOENT);
  EXPECT_EQ(add_name("dir", "new"), -EPERM);
  EXPECT_EQ(add_name("f", "missing/new"), -ENOENT);
  EXPECT_EQ(add_name("f", "f/new"), -ENOTDIR);
  // A second name of the link itself, or none: never one of what it leads to.
  const bool refuses = storage->describe_path(link).name == "ceph";
  EXPECT_EQ(add_name("link", "second"), refuses ? -EPERM : 0);
  EXPECT_EQ(status_of("second", O_NOFOLLOW, status), refuses ? -ENOENT : 0);
  EXPECT_TRUE(refuses || S_ISLNK(status.mode));
  EXPECT_EQ(status_of("f", 0, status), 0);
  EXPECT_EQ(status.links, 2U);
}

TEST_P(Conformance, ListsDirectories) {
  std::vector<DirectoryEntry> entries;
  const auto list = [&](const std::string& path) {
    entries.clear();
    return driver->list(path, entries);
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
  const auto file = open(at("f"), O_RDWR);
  ASSERT_EQ(rename(path("f").c_str(), path("g").c_str()), 0);
  write_file(path("f"), pattern(8192, 2));
  EXPECT_TRUE(finds(file, pattern(8192, 1)));
}

}  // namespace
}  // namespace ferry::storage::conformance_names_test
