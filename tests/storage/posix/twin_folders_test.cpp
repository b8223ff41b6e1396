// The same calls with names, at random: by plain system calls in one folder, by a queue in its
// twin. Results, files and folders must be the same, whichever thread executes the queue's.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/posix/local_mounts.hpp"
#include "storage/posix/posix.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

namespace fs = std::filesystem;

enum class Ground : std::uint8_t { disk, memory };
constexpr uid_t someone = 12345;

constexpr std::array<std::pair<const char*, const char*>, 7> links{{{"link", "file"},
                                                                    {"dangling", "dir/made"},
                                                                    {"loop", "loop"},
                                                                    {"to-dir", "dir"},
                                                                    {"to-link", "link"},
                                                                    {"away", "mounted/new"},
                                                                    {"lost", "absent/new"}}};

std::string facts_of(const struct stat& of) {
  std::ostringstream text;
  text << std::oct << of.st_mode << std::dec << " links " << of.st_nlink << " of " << of.st_uid
       << ':' << of.st_gid;
  if (!S_ISDIR(of.st_mode)) text << " bytes " << of.st_size;
  return text.str();
}

std::string facts_at(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? facts_of(found) : std::to_string(-errno);
}

std::string facts_of(int fd) {
  struct stat found {};
  EXPECT_EQ(::fstat(fd, &found), 0);
  // What the queue adds to open without waiting.
  return facts_of(found) + " flags " + std::to_string(::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

// All that is below the folder.
std::string contents_of(const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    std::string line = path.substr(folder.size()) + ' ' + facts_at(path);
    if (entry.is_symlink())
      line += " -> " + fs::read_symlink(path).string();
    else if (entry.is_regular_file())
      line += ' ' + std::to_string(std::hash<std::string>{}(test::read_file(path)));
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  std::string all;
  for (const std::string& line : lines)
    all += line + '\n';
  return all;
}

// With everything in it that a path may meet.
void furnish(const std::string& folder) {
  const auto at = [&](const std::string& name) { return folder + "/" + name; };
  fs::create_directories(folder);
  ASSERT_EQ(::chmod(at("..").c_str(), 0777), 0);
  for (const char* made : {"dir", "dir/sub", "sticky", "group", "closed", "read-only", "mounted"})
    ASSERT_EQ(::mkdir(at(made).c_str(), 0755), 0) << made;
  for (const char* made :
       {"file", "dir/file", "sticky/theirs", "closed/file", "read-only/file", "hidden"}) {
    test::write_file(at(made), made);
    ASSERT_EQ(::chmod(at(made).c_str(), 0666), 0);
  }
  ASSERT_EQ(::chmod(at("dir").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(at("sticky").c_str(), 01777), 0);
  ASSERT_EQ(::chown(at("group").c_str(), 0, 4321), 0);
  ASSERT_EQ(::chmod(at("group").c_str(), 02777), 0);
  ASSERT_EQ(::chmod(at("").c_str(), 0777), 0);
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0666), 0);
  for (const auto& [name, to] : links)
    fs::create_symlink(to, at(name));
  // A file system in a folder, a file over a file, and a folder that may not be changed.
  ASSERT_EQ(::mount("ferry-test", at("mounted").c_str(), "tmpfs", 0, "size=1m,mode=0777"), 0);
  ASSERT_EQ(::mount(at("file").c_str(), at("hidden").c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(at("read-only").c_str(), at("read-only").c_str(), nullptr, MS_BIND, nullptr),
            0);
  ASSERT_EQ(
      ::mount(nullptr, at("read-only").c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
      0);
}

// Those of one user, who is this process meanwhile.
class AsUser {
 public:
  explicit AsUser(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }
  ~AsUser() { EXPECT_EQ(::seteuid(0), 0); }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

class TwinFolders : public testing::TestWithParam<std::tuple<Engine, Ground, uid_t>> {
 protected:
  void TearDown() override {
    ::umask(mask_);
    fs::current_path("/");
    for (const std::string& folder : {plain_, queued_})
      for (const char* mounted : {"/mounted", "/hidden", "/read-only"})
        if (!folder.empty()) ::umount2((folder + mounted).c_str(), MNT_DETACH);
    if (memory_) ::umount2(here().c_str(), MNT_DETACH);
  }
  std::string here() const { return *memory_ / "here"; }

  std::uint64_t any(std::uint64_t below) { return random_.below(below); }
  bool chance(std::uint64_t one_in) { return random_.one_in(one_in); }
  template <std::size_t count>
  std::string one_of(const std::array<const char*, count>& names) {
    return names[any(count)];
  }
  std::string any_name() {
    constexpr std::array names{"file",    "new", "other", "link",  "dangling", "loop",
                               "to-link", "sub", "made",  "fifo",  "theirs",   "hidden",
                               ".",       "..",  "",      "absent"};
    if (chance(32)) return std::string(254 + any(3), 'n');
    return one_of(names);
  }
  std::string any_path() {
    constexpr std::array folders{"dir/",       "to-dir/",  "sticky/",  "group/", "closed/",
                                 "read-only/", "mounted/", "dir/sub/", "file/",  "absent/",
                                 "dir/../",    "./",       "dir//"};
    constexpr std::array whole{"to-dir", "dir",    "mounted",      "away",
                               "lost",   "hidden", "sticky/theirs"};
    if (chance(16)) return one_of(whole);
    std::string path = (chance(2) ? one_of(folders) : "") + any_name();
    if (chance(16)) path += chance(2) ? "/" : "/.";
    // About as long as a path may be.
    if (chance(32))
      for (const std::size_t bytes = 4094 + any(4); path.size() + 2 <= bytes;)
        path.insert(0, "./");
    return path;
  }
  int any_flags() {
    int flags = one(O_RDONLY, O_WRONLY, O_RDWR);
    if (chance(2)) flags |= O_CREAT;
    for (const int flag : {O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW})
      if (chance(4)) flags |= flag;
    for (const int flag : {O_DIRECTORY, O_PATH, O_TMPFILE, O_NOATIME, O_DSYNC})
      if (chance(20)) flags |= flag;
    return flags;
  }
  int one(int first, int second, int third) { return std::array{first, second, third}[any(3)]; }

  void opens(const std::string& path) {
    const int flags = any_flags();
    const std::uint32_t mode =
        chance(4) ? static_cast<std::uint32_t>(random_.bits()) & 0177777 : 0644;
    SCOPED_TRACE(testing::Message() << "flags " << std::oct << flags << " mode " << mode);
    const std::string bytes = test::pattern(any(3) * 1000, step_);
    std::int64_t wanted = 0;
    std::string facts;
    {
      fs::current_path(plain_);
      const test::Descriptor fd(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC, mode));
      wanted = fd < 0 ? -errno : 0;
      struct stat status {};
      if (fd >= 0 && ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) wanted = -ESPIPE;
      if (wanted == 0) facts = facts_of(fd);
      writes_ = wanted == 0 && ::write(fd, bytes.data(), bytes.size()) >= 0;
    }
    fs::current_path(queued_);
    File* file = nullptr;
    ASSERT_EQ(driver_->open(path, flags, file, mode), wanted);
    if (file == nullptr) return;
    EXPECT_EQ(facts_of(file->descriptor()), facts);
    std::uint64_t end = 0;
    const std::int64_t written = (flags & O_APPEND) != 0
                                     ? driver_->append(file, bytes.data(), bytes.size(), end)
                                     : driver_->pwrite(file, bytes.data(), bytes.size(), 0);
    EXPECT_TRUE(bytes.empty() || (written >= 0) == writes_) << written;
    EXPECT_EQ(driver_->close(file), 0);
  }
  void removes(const std::string& path) {
    fs::current_path(plain_);
    const std::int64_t wanted = test::plain(::unlink(path.c_str()));
    fs::current_path(queued_);
    ASSERT_EQ(driver_->path_call(Kind::unlink, path), wanted);
  }
  void looks_up(const std::string& path) {
    const bool follows = chance(2);
    fs::current_path(plain_);
    struct stat found {};
    const std::int64_t wanted =
        test::plain(follows ? ::stat(path.c_str(), &found) : ::lstat(path.c_str(), &found));
    fs::current_path(queued_);
    Operation operation{
        .kind = Kind::path_status, .path = path.c_str(), .flags = follows ? 0 : O_NOFOLLOW};
    ASSERT_EQ(driver_->run(operation), wanted);
    if (wanted != 0) return;
    struct stat got {};
    got.st_mode = operation.status.mode;
    got.st_nlink = operation.status.links;
    got.st_uid = operation.status.owner;
    got.st_gid = operation.status.group;
    got.st_size = static_cast<off_t>(operation.status.size_bytes);
    EXPECT_EQ(facts_of(got), facts_of(found));
  }
  // What calls have removed.
  static void furnish_again() {
    for (const char* made : {"dir", "dir/sub"})
      static_cast<void>(::mkdir(made, 0777));
    for (const char* made : {"file", "dir/file", "sticky/theirs"})
      test::Descriptor(::open(made, O_WRONLY | O_CREAT, 0666));
    for (const auto& [name, to] : links)
      static_cast<void>(::symlink(to, name));
  }
  // Another program changes names in both.
  void others_change(const std::string& path) {
    const std::string to = any_path();
    std::uint64_t call = any(6);
    if (to.find("..") != std::string::npos && call == 2) call = 5;  // may lead to where both are
    for (const std::string& folder : {plain_, queued_}) {
      fs::current_path(folder);
      const char* const name = path.c_str();
      if (call == 0) static_cast<void>(::rename(name, to.c_str()));
      if (call == 1) static_cast<void>(::link(name, to.c_str()));
      if (call == 2) static_cast<void>(::symlink(to.c_str(), name));
      if (call == 3) static_cast<void>(::mkdir(name, 0777));
      if (call == 4) static_cast<void>(::rmdir(name));
      if (call == 5) furnish_again();
    }
  }
  void step() {
    const std::string path = any_path();
    SCOPED_TRACE(testing::Message() << "step " << step_ << ": " << path.substr(0, 300));
    ::umask(static_cast<mode_t>(one(022, 077, 0)));
    const std::uint64_t call = any(16);
    if (call < 10)
      opens(path);
    else if (call < 13)
      removes(path);
    else if (call < 15)
      looks_up(path);
    else
      others_change(path);
    EXPECT_EQ(facts_at(queued_ + "/" + path), facts_at(plain_ + "/" + path));
  }

  std::optional<test::OwnMount> memory_;
  const test::ScratchDirectory disk_{test::build_folder()};
  test::Random random_;
  std::uint64_t step_ = 0;
  std::string plain_;
  std::string queued_;
  std::unique_ptr<test::StorageDriver> driver_;
  bool writes_ = false;
  const mode_t mask_ = ::umask(022);
};

TEST_P(TwinFolders, StayTheSame) {
  const auto [engine, ground, user] = GetParam();
  if (::geteuid() != 0) GTEST_SKIP() << "only root may be two users";
  memory_.emplace("size=64m");
  if (!*memory_) GTEST_SKIP() << memory_->why();
  ASSERT_TRUE(fs::create_directory(here()));
  // The other user may not reach a checkout that lies in somebody's home.
  if (ground == Ground::disk) {
    ASSERT_EQ(::mount(disk_.path().c_str(), here().c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  // Paths lead up to two folders above.
  const std::string plain = here() + "/a";
  const std::string queued = here() + "/b";
  plain_ = plain + "/above/twin";
  queued_ = queued + "/above/twin";
  ASSERT_NO_FATAL_FAILURE(furnish(plain_));
  ASSERT_NO_FATAL_FAILURE(furnish(queued_));
  std::unique_ptr<Storage> storage;
  try {
    storage = make_posix(engine);
  } catch (const std::system_error& error) {
    GTEST_SKIP() << error.what();
  }
  driver_ = std::make_unique<test::StorageDriver>(*storage);
  const std::uint64_t steps = test::scaled(3000);
  {
    const AsUser as(user);
    for (step_ = 1; step_ <= steps && !HasFailure(); ++step_)
      step();
  }
  fs::current_path("/");
  ::umask(mask_);
  EXPECT_EQ(contents_of(queued), contents_of(plain));
  const QueueStatistics counted = driver_->queue().statistics();
  const bool knows_mounts = mount_number(test::Descriptor(::open(queued_.c_str(), O_RDONLY))) != 0;
  EXPECT_GE(counted.inline_operations, knows_mounts ? steps / 20 : 0)
      << "by the queue's own thread";
  EXPECT_GE(counted.pool_operations, steps / 20);
  driver_.reset();
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, TwinFolders,
    testing::Combine(testing::Values(Engine::io_uring, Engine::threads),
                     testing::Values(Ground::disk, Ground::memory), testing::Values(0U, someone)),
    [](const auto& each) {
      return std::string(std::get<0>(each.param) == Engine::io_uring ? "uring" : "threads") +
             (std::get<1>(each.param) == Ground::disk ? "_disk" : "_memory") +
             (std::get<2>(each.param) == 0 ? "_root" : "_user");
    });

}  // namespace
}  // namespace ferry::storage
