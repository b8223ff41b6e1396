// What the storages `ceph` and `pvfs2` have in common, on mocks of their libraries.
#include <cerrno>
#include <cstdint>
#include <ostream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"
#include "support/in_a_child.hpp"

namespace ferry::storage::mocked_clients_test {
namespace {

struct Client {
  const char* name;
  const char* library;
  const char* writes;  // its function that does
};

void PrintTo(const Client& client, std::ostream* out) {
  *out << client.name;
}

class MockedClient : public test::ClientMock, public testing::WithParamInterface<Client> {
 protected:
  MockedClient() {
    test::write_file(path("ceph.conf"), "/\n");
    use(make_storage());
  }
  static std::unique_ptr<Storage> make_storage() {
    return make_router({.ceph_library = test::ceph_mock, .pvfs2_library = test::pvfs2_mock});
  }
  std::string at(const std::string& name, int timeout_s = 1) const {
    const std::string uri = std::string(GetParam().name) == "ceph"
                                ? "ceph:" + path(name) + "?conf=" + path("ceph.conf")
                                : table.uri_of(path(name));
    return uri + "&timeout=" + std::to_string(timeout_s);
  }

  test::MockTable table;
  test::MockFaults faults{GetParam().library};
};

// A write that the library has begun and not finished.
TEST_P(MockedClient, WhatHasBegunKeepsNewerChangesOfItsFileOut) {
  test::write_file(path("f"), std::string(1000, 'a'));
  File* late = driver->must_open(at("f"), O_RDWR);
  const auto other = must_open(at("f", patient_s), O_RDWR);
  const std::string old_bytes(100, 'o');
  const std::string new_bytes(100, 'n');
  faults.hang(GetParam().writes);
  EXPECT_EQ(driver->pwrite(late, old_bytes.data(), 100, 0), -ETIMEDOUT);
  // Refused immediately: otherwise it would wait for the library.
  std::uint64_t end = 0;
  EXPECT_EQ(driver->pwrite(other, new_bytes.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->append(other, new_bytes.data(), 100, end), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::truncate, other, 10), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::sync, other), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::sync_data, other), -ETIMEDOUT);
  faults.hang("");
  EXPECT_TRUE(
      test::eventually([&] { return driver->pwrite(other, new_bytes.data(), 100, 0) == 100; }));
  EXPECT_EQ(driver->simple(Kind::sync, other), 0);
  EXPECT_EQ(test::read_file(path("f")).substr(0, 100), new_bytes);
  driver->close(late);
}

// The library's sockets are the parent's: a child is refused, and never touches them.
TEST_P(MockedClient, AForkedChildIsToldToUseSpawn) {
  test::write_file(path("f"), "abc");
  const auto file = must_open(at("f"), O_RDWR);
  const int before = faults.calls();
  const int found = test::in_a_child([&] {
    if (driver->pread(file, memory.data(), 3, 0) != -ENOTCONN) return 1;
    if (driver->path_call(Kind::unlink, at("f")) != -ENOTCONN) return 2;
    if (driver->close(file) != 0) return 3;
    storage.reset();
    const auto own = make_storage();
    test::StorageDriver anew(*own);
    if (anew.try_open(at("f"), O_RDONLY) != -ENOTCONN) return 4;
    const std::string problem = own->describe_path(at("f")).problem;
    if (problem.find("spawn") == std::string::npos) return 5;
    return faults.calls() == before ? 0 : 6;
  });
  EXPECT_EQ(found, 0);
  EXPECT_EQ(driver->pread(file, memory.data(), 3, 0), 3) << "the parent goes on";
}

INSTANTIATE_TEST_SUITE_P(Clients, MockedClient,
                         testing::Values(Client{"ceph", test::ceph_mock, "ceph_write"},
                                         Client{"pvfs2", test::pvfs2_mock, "PVFS_sys_io"}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace ferry::storage::mocked_clients_test
