#include "programs/file_cache.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/files.hpp"

namespace ferry::bench::file_cache_test {
namespace {

constexpr std::uint64_t bytes = 65536;

std::string confirmed(CacheState before, std::optional<std::uint64_t> storage_read_bytes) {
  return name_of(confirm(before, bytes, storage_read_bytes));
}

TEST(CacheStates, ColdReadsBringTheirBytesFromTheStorage) {
  EXPECT_EQ(confirmed(CacheState::cold, bytes), "cold");
  EXPECT_EQ(confirmed(CacheState::cold, bytes + 131072), "cold");  // readahead
  EXPECT_EQ(confirmed(CacheState::cold, bytes - 4096), "unverified");
  EXPECT_EQ(confirmed(CacheState::cold, 0), "unverified");
}

TEST(CacheStates, HotReadsBringAlmostNothing) {
  EXPECT_EQ(confirmed(CacheState::hot, 0), "hot");
  EXPECT_EQ(confirmed(CacheState::hot, bytes / 64 - 1), "hot");  // the process's other pages
  EXPECT_EQ(confirmed(CacheState::hot, bytes / 64), "unverified");
  EXPECT_EQ(name_of(confirm(CacheState::hot, 8, 0)), std::string("hot"));
  EXPECT_EQ(name_of(confirm(CacheState::hot, 8, 1)), std::string("unverified"));
}

TEST(CacheStates, AreAsTheyWereWhereTheKernelDoesNotTell) {
  for (const CacheState state : {CacheState::cold, CacheState::hot, CacheState::unverified})
    EXPECT_EQ(confirmed(state, std::nullopt), name_of(state));
}

TEST(CacheStates, NothingProvesWhatWasUnverified) {
  EXPECT_EQ(confirmed(CacheState::unverified, 0), "unverified");
  EXPECT_EQ(confirmed(CacheState::unverified, bytes), "unverified");
}

TEST(CacheStates, OfAUriFollowFromWhatTheNetworkBrought) {
  EXPECT_EQ(state_by_network(bytes, bytes), CacheState::cold);
  EXPECT_EQ(state_by_network(bytes, 2 * bytes), CacheState::cold);  // headers, readahead
  EXPECT_EQ(state_by_network(bytes, bytes - 1), CacheState::unverified);
  EXPECT_EQ(state_by_network(bytes, bytes / 64), CacheState::unverified);
  EXPECT_EQ(state_by_network(bytes, bytes / 64 - 1), CacheState::hot);
  EXPECT_EQ(state_by_network(bytes, 0), CacheState::hot);
  EXPECT_EQ(state_by_network(bytes, std::nullopt), CacheState::unverified);
}

TEST(PlainFile, WritesAndReadsBack) {
  const test::ScratchDirectory directory;
  test::write_file(directory / "f", "");
  const std::vector<unsigned char> data(10000, 7);
  const PlainFile file(directory / "f", O_RDWR);
  file.write(data.data(), data.size(), 5);
  EXPECT_EQ(file.size_bytes(), data.size() + 5);
  std::vector<unsigned char> back(data.size());
  file.read(back.data(), back.size(), 5);
  EXPECT_EQ(back, data);
}

}  // namespace
}  // namespace ferry::bench::file_cache_test
