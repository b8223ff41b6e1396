#include "harness/storage_counters.hpp"

#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

// Both ends of a TCP connection of this process with itself.
class Connection {
 public:
  Connection() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    ::bind(listener, generic, length);
    ::listen(listener, 1);
    ::getsockname(listener, generic, &length);
    ends_[0] = ::socket(AF_INET, SOCK_STREAM, 0);
    works_ = ::connect(ends_[0], generic, length) == 0;
    ends_[1] = ::accept(listener, nullptr, nullptr);
    works_ = works_ && ends_[1] >= 0;
    ::close(listener);
  }
  ~Connection() {
    for (const int end : ends_)
      ::close(end);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool works() const { return works_; }
  void carry(std::size_t bytes) {
    const std::vector<char> data(bytes, 'x');
    std::vector<char> back(bytes);
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t sent = ::send(ends_[0], data.data(), bytes - at, 0);
      ASSERT_GT(sent, 0);
      for (ssize_t got = 0; got < sent;) {
        const ssize_t more = ::recv(ends_[1], back.data(), static_cast<std::size_t>(sent - got), 0);
        ASSERT_GT(more, 0);
        got += more;
      }
      at += static_cast<std::size_t>(sent);
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool works_ = false;
};

std::optional<std::uint64_t> received(const StorageCounters& before) {
  return (read_storage_counters("", Network::counted) - before).network_read_bytes;
}

TEST(StorageCounters, CountWhatComesByTcp) {
  Connection connection;
  ASSERT_TRUE(connection.works());
  const StorageCounters before = read_storage_counters("", Network::counted);
  EXPECT_EQ(received(before), 0U);
  connection.carry(100'000);
  EXPECT_EQ(received(before), 100'000U);
  Connection another;
  ASSERT_TRUE(another.works());
  another.carry(5);
  EXPECT_EQ(received(before), 100'005U);
}

TEST(StorageCounters, NeverClaimMoreThanWasReceived) {
  std::optional<Connection> old;
  old.emplace().carry(1000);
  Connection kept;
  const StorageCounters before = read_storage_counters("", Network::counted);
  old.reset();
  kept.carry(700);
  EXPECT_LE(received(before).value_or(0), 700U);
}

TEST(StorageCounters, LeaveTheNetworkOutUnlessAsked) {
  const Connection connection;
  ASSERT_TRUE(connection.works());
  EXPECT_FALSE(read_storage_counters("").network_read_bytes.has_value());
}

}  // namespace
}  // namespace ferry::bench
