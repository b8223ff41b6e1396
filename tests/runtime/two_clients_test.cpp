// Close-to-open consistency between two clients of a server, each with its own page cache: when one
// opens a file, it sees what the other wrote and closed. Needs a server (see support/servers.hpp).
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"
#include "support/servers.hpp"
#include "support/within.hpp"

namespace ferry::two_clients_test {
namespace {

using device::Placement;

using Case = std::tuple<const char*, Placement>;

class TwoClients : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto [kind, placement] = GetParam();
    server = test::served_folder(kind);
    if (!server) GTEST_SKIP() << test::no_server(kind);
    directory = std::make_unique<test::ScratchDirectory>(server->directory);
    const std::string folder = std::filesystem::path(directory->path()).filename();
    uri = server->uri_of(folder + "/f");
    const RuntimeOptions options = test::cached_options(1024, placement);
    writer = std::make_unique<Runtime>(options);
    reader = std::make_unique<Runtime>(options);
  }
  static void on(Runtime& runtime, const Runtime::Program& program) {
    test::within_patience("a device program", [&] { runtime.run(program); });
  }
  void write(const std::string& data) {
    on(*writer, [&](DeviceThread& self) {
      const int file = self.files.open(uri.c_str(), O_RDWR | O_CREAT, 0644);
      ASSERT_GT(file, 0);
      ASSERT_EQ(self.files.pwrite(file, data.data(), data.size(), 0), std::ssize(data));
      ASSERT_EQ(self.files.ftruncate(file, std::ssize(data)), 0);
      ASSERT_EQ(self.files.close(file), 0);
    });
  }
  std::string read() {
    std::string got;
    on(*reader, [&](DeviceThread& self) {
      const int file = self.files.open(uri.c_str(), O_RDONLY);
      ASSERT_GT(file, 0);
      got = test::read_at(self.files, file, 1 << 20, 0);
      ASSERT_EQ(self.files.close(file), 0);
    });
    return got;
  }

  // Whether every read goes through the page cache; `automatic` sends some to the host.
  static bool cached() {
    const Placement placement = std::get<Placement>(GetParam());
    return placement == Placement::compute || placement == Placement::service;
  }

  std::optional<test::ServedFolder> server;
  std::unique_ptr<test::ScratchDirectory> directory;
  std::string uri;
  std::unique_ptr<Runtime> writer;
  std::unique_ptr<Runtime> reader;
  std::size_t rounds = 0;  // so that no two of them write the same
};

TEST_P(TwoClients, WhatOneClosedTheOtherSeesOnOpen) {
  for (const int count : {100'000, 100'000, 30'000, 200'000, 1}) {
    const auto bytes = static_cast<std::size_t>(count);
    const std::string data = test::pattern(bytes, bytes + ++rounds);
    write(data);
    ASSERT_TRUE(test::same_bytes(read(), data)) << bytes;
    ASSERT_TRUE(test::same_bytes(read(), data)) << bytes << ", again";
  }
}

TEST_P(TwoClients, ChangesInQuickSuccessionAreAllSeen) {
  // Of one size, so that only the version tells.
  for (int i = 0; i < 30; ++i) {
    const std::string data = test::pattern(9000, ++rounds);
    write(data);
    ASSERT_TRUE(test::same_bytes(read(), data)) << i;
  }
}

// Ceph's servers count changes; NFS version 3 cannot prove that there were none.
TEST_P(TwoClients, PagesStayWhereTheServerProvesThatNobodyChangedTheFile) {
  const bool proven = std::string_view(std::get<const char*>(GetParam())) == "CEPH";
  const std::string data = test::pattern(100'000, 1);
  write(data);
  ASSERT_TRUE(test::same_bytes(read(), data));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // a tick of the server's clock
  ASSERT_TRUE(test::same_bytes(read(), data));
  std::uint64_t fills = reader->statistics().cache.fills;
  if (cached()) {
    EXPECT_GT(fills, 0U);
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(test::same_bytes(read(), data));
    const std::uint64_t now = reader->statistics().cache.fills;
    if (cached()) {
      EXPECT_EQ(now == fills, proven) << now << " after " << fills;
    }
    fills = now;
  }
  // Now another client does.
  const std::string other = test::pattern(100'000, 2);
  write(other);
  EXPECT_TRUE(test::same_bytes(read(), other));
}

std::string placement_name(const testing::TestParamInfo<Case>& info) {
  const char* names[] = {"host", "compute", "service", "automatic"};
  return names[static_cast<int>(std::get<Placement>(info.param))];
}

const auto placements =
    testing::Values(Placement::host, Placement::compute, Placement::service, Placement::automatic);

INSTANTIATE_TEST_SUITE_P(Nfs, TwoClients, testing::Combine(testing::Values("NFS"), placements),
                         placement_name);
INSTANTIATE_TEST_SUITE_P(Ceph, TwoClients, testing::Combine(testing::Values("CEPH"), placements),
                         placement_name);

}  // namespace
}  // namespace ferry::two_clients_test
