#include "runtime/profile.hpp"

#include <string>

#include <gtest/gtest.h>

namespace ferry {
namespace {

constexpr const char* whole = R"(
schema = "ferry.profile/1"
[machine]
cpu_model = "A processor"
cpus_usable = 2
[[storages]]
device = "cpu"
file_system = "ext4"
block_device = "vda1"
block_device_bytes = 1000
mount_point = "/"
measured = "2026-11-21T16:00:00+00:00"
kernel = "Linux 6.18"
ferry_version = "0.1.0"
page_bytes = 131072
readahead_bytes = 0
server_threads = 3
queue_depth = 16
[storages.crossovers]
host_read_bytes_min = 4096
host_stream_read_bytes_min = "never"
host_write_bytes_min = 1048576
[storages.collective]
writers_per_node = 4
buffer_bytes = 2097152
[[storages.settings]]
name = "page_bytes"
gain = 1.25
[[storages]]
device = "cpu"
file_system = "tmpfs"
mount_point = "/dev/shm"
measured = "2026-11-21T16:00:00+00:00"
)";

std::string message_of(const std::string& text) {
  try {
    parse_profile(text);
  } catch (const ProfileError& error) {
    return error.what();
  }
  return "";
}

// The whole one with a piece replaced.
std::string with(const std::string& piece, const std::string& other) {
  std::string text = whole;
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), other);
}

TEST(ParseProfile, ReadsMachineAndStorages) {
  const Profile profile = parse_profile(whole);
  EXPECT_EQ(profile.cpu_model, "A processor");
  EXPECT_EQ(profile.cpus_usable, 2U);
  ASSERT_EQ(profile.storages.size(), 2U);
  const StorageProfile& disk = profile.storages[0];
  EXPECT_EQ(disk.device, "cpu");
  EXPECT_EQ(describe(disk.name), "ext4 on vda1");
  EXPECT_EQ(disk.name.block_device_bytes, 1000U);
  EXPECT_EQ(disk.page_bytes, 131072U);
  EXPECT_EQ(disk.readahead_bytes, 0U);
  EXPECT_EQ(disk.server_threads, 3U);
  EXPECT_EQ(disk.queue_depth, 16U);
  EXPECT_EQ(disk.crossovers.host_read_bytes_min, 4096U);
  EXPECT_EQ(disk.crossovers.host_stream_read_bytes_min, device::Crossovers::never);
  EXPECT_EQ(disk.crossovers.host_write_bytes_min, 1048576U);
  EXPECT_EQ(disk.writers_per_node, 4U);
  EXPECT_EQ(disk.collective_buffer_bytes, 2097152);
}

TEST(ParseProfile, WhatIsNotThereStaysBuiltIn) {
  const StorageProfile memory = parse_profile(whole).storages[1];
  EXPECT_EQ(describe(memory.name), "tmpfs at /dev/shm");
  EXPECT_FALSE(memory.page_bytes || memory.readahead_bytes || memory.server_threads ||
               memory.queue_depth || memory.writers_per_node || memory.collective_buffer_bytes);
  const device::Crossovers built_in;
  EXPECT_EQ(memory.crossovers.host_write_bytes_min, built_in.host_write_bytes_min);
  EXPECT_EQ(memory.crossovers.host_stream_read_bytes_min, built_in.host_stream_read_bytes_min);
}

TEST(ParseProfile, BrokenOnesSayWhereAndWhat) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"schema = ", "line 1: no TOML"},
      {"", "schema is missing"},
      {with("ferry.profile/1", "ferry.profile/2"), "line 2: schema is ferry.profile/2"},
      {with("\"ferry.profile/1\"", "1"), "schema must be a text"},
      {with("page_bytes = 131072", "page_bytes = 131073"), "must be a power of two"},
      {with("page_bytes = 131072", "page_bytes = 8"), "from 4096 to 2097152"},
      {with("page_bytes = 131072", "page_bytes = \"64k\""), "line 15: page_bytes must be a whole"},
      {with("server_threads = 3", "server_threads = 0"), "server_threads must be from 1"},
      {with("server_threads = 3", "server_thread = 3"), "server_thread is not known"},
      {with("queue_depth = 16", "queue_depth = -1"), "queue_depth must be from 1 to 63"},
      {with("queue_depth = 16", "queue_depth = 1.5"), "queue_depth must be a whole number"},
      {with("\"never\"", "\"often\""), "crossovers.host_stream_read_bytes_min must be a number"},
      {with("\"never\"", "-5"), "crossovers.host_stream_read_bytes_min must be from 0"},
      {with("writers_per_node = 4", "writers_per_node = 0"), "collective.writers_per_node must be"},
      {with("writers_per_node", "writers"), "collective.writers is not known"},
      {with("buffer_bytes = 2097152", "buffer_bytes = 0"),
       "collective.buffer_bytes must be from 1"},
      {with("file_system = \"ext4\"\n", ""), "file_system is missing"},
      {with("[machine]", "[[machine]]"), "machine must be a table"},
      {with("mount_point = \"/dev/shm\"\n", ""), "block_device or mount_point is needed"},
      {"schema = \"ferry.profile/1\"\nstorages = 3", "line 2: storages must be tables"},
      {"schema = \"ferry.profile/1\"\nstorage = 3", "line 2: storage is not known"},
  };
  for (const auto& one : cases) {
    const std::string message = message_of(one.text);
    EXPECT_NE(message.find(one.message), std::string::npos) << one.message << " / " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(StorageName, ABlockDeviceCountsAndWhereItIsMountedDoesNot) {
  const StorageName disk{"ext4", "vda", 1000, "/"};
  EXPECT_TRUE(is_same_storage(disk, {"ext4", "vda", 1000, "/data"}));
  EXPECT_FALSE(is_same_storage(disk, {"xfs", "vda", 1000, "/"}));
  EXPECT_FALSE(is_same_storage(disk, {"ext4", "vdb", 1000, "/"}));
  EXPECT_FALSE(is_same_storage(disk, {"ext4", "vda", 2000, "/"})) << "another disk of that name";
  EXPECT_TRUE(is_same_storage({"ext4", "vda", 0, ""}, {"ext4", "vda", 2000, "/"}));
}

TEST(StorageName, WithoutABlockDeviceTheMountPointCounts) {
  const StorageName memory{"tmpfs", "", 0, "/dev/shm"};
  EXPECT_TRUE(is_same_storage(memory, {"tmpfs", "", 0, "/dev/shm"}));
  EXPECT_FALSE(is_same_storage(memory, {"tmpfs", "", 0, "/tmp"}));
}

// It fails an assertion of toml++ 3.3, which would end the program.
TEST(ParseProfile, RefusesKeysThatBeginWithNothing) {
  EXPECT_THROW(parse_profile("[[.[[t[[]]\n"), ProfileError);
}

}  // namespace
}  // namespace ferry
