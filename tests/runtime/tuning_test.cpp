#include "runtime/tuning.hpp"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "base/machine.hpp"
#include "support/files.hpp"

namespace ferry {
namespace {

using device::Crossovers;

constexpr const char* path = "/there/profile.toml";

Mount memory_at(const std::string& point, unsigned number) {
  return Mount{point, "rw", "tmpfs", "tmpfs", makedev(0, number)};
}

Surroundings here() {
  return {"A processor", 2, {memory_at("/one", 11), memory_at("/two", 12)}, memory_at("/one", 11)};
}

std::string entry(const std::string& point, const std::string& settings) {
  return "[[storages]]\ndevice = \"cpu\"\nfile_system = \"tmpfs\"\nmount_point = \"" + point +
         "\"\nmeasured = \"today\"\n" + settings;
}
std::string profile(const std::string& storages) {
  return "schema = \"ferry.profile/1\"\n[machine]\ncpu_model = \"A processor\"\n"
         "cpus_usable = 2\n" +
         storages;
}
std::uint64_t status_device(unsigned number) {
  return number;  // the major number is 0
}

constexpr const char* settings =
    "page_bytes = 131072\nreadahead_bytes = 1000\nserver_threads = 2\nqueue_depth = 8\n"
    "[storages.crossovers]\nhost_stream_read_bytes_min = 4096\n";

TEST(Tuning, AProfileFillsInWhatIsLeftOpen) {
  const Tuning tuning = tune({}, path, profile(entry("/one", settings)), here());
  EXPECT_TRUE(tuning.profile.applies);
  EXPECT_EQ(tuning.profile.path, path);
  EXPECT_EQ(tuning.profile.storage, "tmpfs at /one");
  EXPECT_EQ(tuning.profile.why, "measured today on tmpfs at /one");
  EXPECT_EQ(tuning.options.page_bytes, 131072U);
  EXPECT_EQ(tuning.options.server_threads, 2U);
  EXPECT_EQ(tuning.queue_depth, 8U);
  EXPECT_EQ(tuning.main().crossovers.host_stream_read_bytes_min, 4096U);
  EXPECT_EQ(tuning.main().readahead_bytes_max, 1000U);
  EXPECT_EQ(tuning.crossovers_source, "profile");
  EXPECT_TRUE(tuning.notes.empty());
}

TEST(Tuning, OptionsGoBeforeTheProfile) {
  RuntimeOptions options;
  options.page_bytes = 4096;
  options.server_threads = 1;
  options.readahead_bytes_max = 7;
  options.crossovers = Crossovers{1, 2, 3};
  const Tuning tuning = tune(options, path, profile(entry("/one", settings)), here());
  EXPECT_TRUE(tuning.profile.applies);
  EXPECT_EQ(tuning.options.page_bytes, 4096U);
  EXPECT_EQ(tuning.options.server_threads, 1U);
  EXPECT_EQ(tuning.main().crossovers.host_stream_read_bytes_min, 2U);
  EXPECT_EQ(tuning.main().readahead_bytes_max, 7U);
  EXPECT_EQ(tuning.crossovers_source, "options");
}

TEST(Tuning, EachStorageHasItsOwnCrossovers) {
  const std::string text =
      profile(entry("/one", settings) +
              entry("/two", "[storages.crossovers]\nhost_stream_read_bytes_min = \"never\"\n"));
  const Tuning tuning = tune({}, path, text, here());
  const auto crossover = [&](unsigned device) {
    const std::uint32_t index = tuning.tunings.find(status_device(device));
    return tuning.tunings.list[index].crossovers.host_stream_read_bytes_min;
  };
  EXPECT_EQ(crossover(11), 4096U);
  EXPECT_EQ(crossover(12), Crossovers::never);
  EXPECT_EQ(crossover(13), Crossovers{}.host_stream_read_bytes_min) << "any other storage";
  EXPECT_EQ(tuning.profile.storages, (std::vector<std::string>{"tmpfs at /one", "tmpfs at /two"}));
}

TEST(Tuning, OfAnotherStorageItIsSaid) {
  const Tuning tuning = tune({}, path, profile(entry("/two", settings)), here());
  EXPECT_FALSE(tuning.profile.applies);
  EXPECT_NE(tuning.profile.why.find("measured for other storages than tmpfs at /one"),
            std::string::npos);
  EXPECT_EQ(tuning.options.page_bytes, 65536U);
  EXPECT_EQ(tuning.options.server_threads, 0U);
  EXPECT_EQ(tuning.crossovers_source, "built-in");
  EXPECT_NE(tuning.tunings.find(status_device(12)), 0U) << "files there still have theirs";
}

TEST(Tuning, OfAnotherMachineItDoesNotApply) {
  const std::string text = profile(entry("/one", settings));
  Surroundings other = here();
  other.cpu_model = "Another processor";
  Tuning tuning = tune({}, path, text, other);
  EXPECT_FALSE(tuning.profile.applies);
  EXPECT_NE(tuning.profile.why.find("another machine"), std::string::npos);
  EXPECT_EQ(tuning.tunings.count, 1U);
  other = here();
  other.cpus_usable = 1;
  tuning = tune({}, path, text, other);
  EXPECT_FALSE(tuning.profile.applies);
  EXPECT_NE(tuning.profile.why.find("2 usable CPUs"), std::string::npos);
  EXPECT_EQ(tuning.crossovers_source, "built-in");
}

TEST(Tuning, ABrokenProfileIsANote) {
  for (const char* text : {"schema = ", "", "schema = \"ferry.profile/9\"", "\xff\xfe", "[a"}) {
    const Tuning tuning = tune({}, path, text, here());
    EXPECT_FALSE(tuning.profile.applies);
    ASSERT_EQ(tuning.notes.size(), 1U) << text;
    EXPECT_NE(tuning.notes[0].find(path), std::string::npos);
    EXPECT_EQ(tuning.options.page_bytes, 65536U);
  }
}

TEST(Tuning, WhatAProgramCannotUseIsLeftOut) {
  RuntimeOptions options;
  options.cache_bytes = 1 << 20;  // eight pages of the profile's
  options.rings = 1;              // the profile's two server threads need two
  const Tuning tuning = tune(options, path, profile(entry("/one", settings)), here());
  EXPECT_EQ(tuning.options.page_bytes, 65536U);
  EXPECT_EQ(tuning.options.server_threads, 0U);
  EXPECT_NE(tuning.profile.why.find("too large for a cache"), std::string::npos);
}

TEST(Tuning, MoreStoragesThanThereIsRoomForDoNoHarm) {
  std::string entries;
  Surroundings many = here();
  many.mounts.clear();
  for (unsigned i = 0; i < 20; ++i) {
    const std::string point = "/m" + std::to_string(i);
    many.mounts.push_back(memory_at(point, 100 + i));
    entries += entry(point, "");
  }
  const Tuning tuning = tune({}, path, profile(entries), many);
  EXPECT_EQ(tuning.tunings.count, device::StorageTunings::count_max);
}

// Sets a variable while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

TEST(ProfilePath, FollowsTheEnvironment) {
  const Variable home("HOME", "/home/somebody");
  const Variable config("XDG_CONFIG_HOME", "/configuration");
  {
    const Variable given("FERRY_PROFILE", "/given.toml");
    EXPECT_EQ(profile_path(), "/given.toml");
  }
  {
    const Variable none("FERRY_PROFILE", "");
    EXPECT_EQ(profile_path(), "");
  }
  const Variable gone("FERRY_PROFILE", "");
  unsetenv("FERRY_PROFILE");
  EXPECT_EQ(profile_path(), "/configuration/ferry/profile.toml");
  const Variable relative("XDG_CONFIG_HOME", "not/absolute");
  EXPECT_EQ(profile_path(), "/home/somebody/.config/ferry/profile.toml");
}

// A runtime on this machine, with a profile of a scratch folder's storage.
class WithProfile : public testing::Test {
 protected:
  WithProfile() {
    options.device_threads = 1;
    options.cache_bytes = 64 << 20;
    options.placement = device::Placement::automatic;
    options.storage_path = directory / "";
  }
  void write_profile(const std::string& more) {
    const StorageName name = storage_name(mount_of(directory / ""));
    std::string text = "schema = \"ferry.profile/1\"\n[machine]\ncpu_model = \"" + cpu_model() +
                       "\"\ncpus_usable = " + std::to_string(usable_cpus()) +
                       "\n[[storages]]\ndevice = \"cpu\"\nmeasured = \"today\"\nfile_system = \"" +
                       name.file_system + "\"\nmount_point = \"" + name.mount_point + "\"\n";
    if (!name.block_device.empty()) text += "block_device = \"" + name.block_device + "\"\n";
    test::write_file(directory / "profile.toml", text + more);
  }
  // Counted by the cache while a new file of 8 MiB was read, once and one call after the other.
  device::cache::Counters read_once(const std::string& name) {
    constexpr std::int64_t call_bytes = 65536;
    test::write_file(name, std::string(file_bytes, 'd'));
    Runtime runtime(options);
    runtime.run([&](DeviceThread& self) {
      const int file = self.files.open(name.c_str(), O_RDONLY);
      ASSERT_GT(file, 0);
      std::string got(call_bytes, ' ');
      for (std::int64_t at = 0; at < std::int64_t{file_bytes}; at += call_bytes)
        ASSERT_EQ(self.files.pread(file, got.data(), got.size(), at), call_bytes);
      self.files.close(file);
    });
    ::unlink(name.c_str());
    return runtime.statistics().cache;
  }
  std::uint64_t fetched() { return read_once(directory / "data").fill_bytes; }

  static constexpr std::uint64_t file_bytes = 8 << 20;
  test::ScratchDirectory directory;
  const Variable profile_variable{"FERRY_PROFILE", directory / "profile.toml"};
  RuntimeOptions options;
};

TEST_F(WithProfile, TheStorageOfAFileDecidesItsPlacement) {
  EXPECT_EQ(fetched(), 0U) << "past the cache: the built-in crossover is at 64 KiB";
  write_profile("[storages.crossovers]\nhost_stream_read_bytes_min = \"never\"\n");
  EXPECT_EQ(fetched(), file_bytes) << "all through the cache";
  write_profile("[storages.crossovers]\nhost_stream_read_bytes_min = 65537\n");
  EXPECT_EQ(fetched(), file_bytes);
  options.use_profile = false;
  EXPECT_EQ(fetched(), 0U);
}

TEST_F(WithProfile, OtherStoragesKeepWhatIsBuiltIn) {
  write_profile("[storages.crossovers]\nhost_stream_read_bytes_min = \"never\"\n");
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no second storage";
  struct stat here {};
  struct stat there {};
  ::stat((directory / "").c_str(), &here);
  ::stat("/dev/shm", &there);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "/dev/shm is no second storage";
  EXPECT_EQ(read_once("/dev/shm/ferry-tuning-test-" + std::to_string(::getpid())).fill_bytes, 0U);
  EXPECT_EQ(fetched(), file_bytes);
}

TEST_F(WithProfile, NoReadaheadIsOne) {
  options.crossovers = Crossovers{Crossovers::never, Crossovers::never, Crossovers::never};
  const auto issued = [&] { return read_once(directory / "data").readahead_issued; };
  EXPECT_GT(issued(), 0U);
  write_profile("readahead_bytes = 0\n");
  EXPECT_EQ(issued(), 0U);
  options.readahead_bytes_max = 1 << 20;
  EXPECT_GT(issued(), 0U) << "options go before the profile";
}

TEST_F(WithProfile, InfoTellsWhatIsInForce) {
  write_profile("page_bytes = 16384\nqueue_depth = 5\n");
  const RuntimeInfo info = Runtime(options).info();
  EXPECT_TRUE(info.profile.applies) << info.profile.why;
  EXPECT_EQ(info.profile.path, directory / "profile.toml");
  EXPECT_EQ(info.page_bytes, 16384U);
  EXPECT_EQ(info.queue_depth, 5U);
  EXPECT_EQ(info.crossovers_source, "profile");
}

TEST_F(WithProfile, NoneABrokenOneAndAFolderAreNoError) {
  RuntimeInfo info = Runtime(options).info();
  EXPECT_FALSE(info.profile.applies);
  EXPECT_NE(info.profile.why.find("there is none"), std::string::npos);
  EXPECT_EQ(info.page_bytes, 65536U);
  test::write_file(directory / "profile.toml", "schema = 3");
  info = Runtime(options).info();
  EXPECT_FALSE(info.profile.applies);
  ASSERT_FALSE(info.notes.empty());
  EXPECT_NE(info.notes.back().find("schema must be a text"), std::string::npos);
  const Variable folder("FERRY_PROFILE", directory / "");
  info = Runtime(options).info();
  ASSERT_FALSE(info.notes.empty());
  EXPECT_NE(info.notes.back().find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace ferry
