#include "harness/usage.hpp"

#include <array>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

TEST(Others, AreTheProcessWithoutTheCallers) {
  const Usage process{700, 500, 30, 9};
  const Usage callers{400, 300, 10, 4};
  const Usage rest = others(process, callers);
  EXPECT_EQ(rest.user_cpu_ns, 300U);
  EXPECT_EQ(rest.system_cpu_ns, 200U);
  EXPECT_EQ(rest.voluntary_switches, 20U);
  EXPECT_EQ(rest.involuntary_switches, 5U);
}

TEST(Others, KeepTheSumWhereTheSplitsDoNotAgree) {
  // More user time by the callers' count than by the process's, and the other way round.
  Usage rest = others({100, 500, 0, 0}, {300, 200, 0, 0});
  EXPECT_EQ(rest.user_cpu_ns + rest.system_cpu_ns, 100U);
  rest = others({500, 100, 0, 0}, {200, 300, 0, 0});
  EXPECT_EQ(rest.user_cpu_ns + rest.system_cpu_ns, 100U);
}

TEST(Others, AreNeverNegative) {
  const Usage rest = others({1, 1, 1, 1}, {2, 2, 2, 2});
  EXPECT_EQ(
      rest.user_cpu_ns + rest.system_cpu_ns + rest.voluntary_switches + rest.involuntary_switches,
      0U);
}

TEST(ProcessUsage, CountsThreadsThatHaveEnded) {
  constexpr std::uint64_t wanted_ns = 20'000'000;
  const Usage before = process_usage();
  const Usage mine = thread_usage();
  std::thread([] {
    Usage spent;
    do {
      spent = thread_usage();
    } while (spent.user_cpu_ns + spent.system_cpu_ns < wanted_ns);
  }).join();
  const Usage rest = others(process_usage() - before, thread_usage() - mine);
  EXPECT_GE(rest.user_cpu_ns + rest.system_cpu_ns, wanted_ns / 2);
}

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
