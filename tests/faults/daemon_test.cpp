// Each allocation and each system call of ferryd fails once: it ends while it begins, with an
// error, or serves. One request then gets the error, the next of its kind none, and what was served
// before still is.
#include "daemon/daemon.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/client.hpp"
#include "daemon/messages.hpp"
#include "faults/allocations.hpp"
#include "faults/nth_point.hpp"
#include "faults/resources.hpp"
#include "faults/system_calls.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/in_a_child.hpp"
#include "support/within.hpp"

namespace ferry::test {
namespace {

using daemon::Client;

constexpr std::uint64_t file_bytes = 200'000;

bool of_hanging_up(int error) {
  return error == ENOTCONN || error == EPIPE || error == ECONNRESET;
}

// Bytes that are served, or Client::gone.
std::int64_t read_all(Client& client, const daemon::ServedFile& file, std::string& to) {
  std::int64_t got = Client::missed;
  to.assign(file_bytes, ' ');
  eventually([&] { return (got = client.pread(file, to.data(), to.size(), 0)) != Client::missed; });
  return got;
}

class FailingFerryd : public testing::Test {
 protected:
  FailingFerryd() {
    write_file(first_, pattern(file_bytes, 1));
    write_file(second_, pattern(file_bytes, 2));
  }

  // Serves once, while the point may strike. `is_of_fault(error)`: whether the fault has it.
  void serve_once(const NthPoint& point, const std::function<bool(int error)>& is_of_fault) {
    std::unique_ptr<daemon::Daemon> ferryd;
    try {
      const PointsHere counts(true);
      ferryd = std::make_unique<daemon::Daemon>(daemon::DaemonOptions{
          .socket = socket_, .cache_bytes = 2 << 20, .least_stay = std::chrono::milliseconds(0)});
    } catch (const std::system_error& error) {
      EXPECT_TRUE(point.struck() && is_of_fault(error.code().value())) << error.what();
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(point.struck() && is_of_fault(ENOMEM));
    }
    if (ferryd == nullptr) return;
    serves_ = true;
    std::thread thread([&] {
      try {
        ferryd->serve();
      } catch (const std::system_error& error) {
        EXPECT_TRUE(point.struck());
        EXPECT_TRUE(is_of_fault(error.code().value()) || error.code().value() == EIO)
            << error.what();
        serves_ = false;
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(point.struck() && is_of_fault(ENOMEM));
        serves_ = false;
      }
    });
    EXPECT_TRUE(eventually([&] { return !serves_ || asks(100) == 0; }));
    if (serves_) be_served(point, is_of_fault);
    ferryd->stop();
    thread.join();
  }

  // What a status request ends with.
  int asks(int timeout_ms) {
    const Descriptor socket(daemon::connect_to(socket_.c_str(), timeout_ms));
    if (socket < 0) return -socket;
    daemon::DaemonRequest request;
    request.kind = daemon::RequestKind::status;
    daemon::DaemonAnswer answer;
    int received = -1;
    return daemon::exchange(socket, request, -1, answer, received);
  }

  // Until ferryd ends, as it does where its server had no memory to begin.
  void be_served(const NthPoint& point, const std::function<bool(int error)>& is_of_fault) {
    Client client(socket_.c_str());
    int errors = 0;
    // At most one call has an error, which is the fault's. False once ferryd has ended.
    const auto works = [&](const char* what, const std::function<int()>& asked) {
      // A busy ferryd hangs up, and calls have little time.
      const auto call = [&] {
        int answer = asked();
        for (int i = 0; i < 10 && serves_ && (of_hanging_up(answer) || answer == ETIMEDOUT); ++i)
          answer = asked();
        return answer;
      };
      int error = call();
      if (error == 0) return true;
      EXPECT_TRUE(point.struck()) << what << ": " << error;
      EXPECT_TRUE(is_of_fault(error) || of_hanging_up(error) || error == EIO || !serves_ ||
                  (error == EOPNOTSUPP && struck_call() == std::string("fcntl")))
          << what << ": " << error;
      EXPECT_EQ(++errors, 1) << what << ": " << error;
      error = call();
      if (error == 0) return true;
      EXPECT_TRUE(eventually([&] { return !serves_; })) << what << ", again: " << error;
      return false;
    };
    std::string got;
    daemon::ServedFile first;
    const auto reads_first = [&](const std::string& wanted) {
      return read_all(client, first, got) == static_cast<std::int64_t>(wanted.size()) &&
             got == wanted;
    };
    const Descriptor file(::open(first_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!works("an offer", [&] { return client.offer(file, first); })) return;
    EXPECT_TRUE(reads_first(pattern(file_bytes, 1)));
    const auto a_child = [&] {
      return in_a_child([&] {
        Client own(socket_.c_str());
        daemon::ServedFile second;
        const Descriptor other(::open(second_.c_str(), O_RDONLY | O_CLOEXEC));
        if (const int error = own.offer(other, second); error != 0) return error;
        const bool right = read_all(own, second, got) == static_cast<std::int64_t>(file_bytes) &&
                           got == pattern(file_bytes, 2);
        return right ? 0 : 254;
      });
    };
    if (!works("a child", a_child)) return;
    if (!works("a status", [&] { return asks(10'000); })) return;
    // Where no descriptor was left for a client, the oldest file is closed.
    if (read_all(client, first, got) == Client::gone) {
      EXPECT_TRUE(point.struck() && (is_of_fault(EMFILE) || is_of_fault(ENFILE)));
      EXPECT_EQ(client.offer(file, first), 0);
    }
    EXPECT_TRUE(reads_first(pattern(file_bytes, 1)));
    // A writer is waited for by nobody, and its bytes are read.
    write_file(first_, pattern(file_bytes, 3));
    EXPECT_EQ(client.pread(first, got.data(), got.size(), 0), Client::gone);
    if (!works("an offer of the changed file", [&] { return client.offer(file, first); })) return;
    EXPECT_TRUE(reads_first(pattern(file_bytes, 3)));
    write_file(first_, pattern(file_bytes, 1));
  }

  template <class IsOfFault>
  void fail_each(NthPoint& point, const IsOfFault& is_of_fault) {
    const PointsHere not_here(false);
    const Resources before = resources_after([&] {
      point.arm(never);
      serve_once(point, is_of_fault);
      point.disarm();
    });
    const std::uint64_t all = point.reached();
    Random random;
    const std::uint64_t step = is_deep() ? 1 : 1 + all / 20;
    std::uint64_t failed = 0;
    for (std::uint64_t n = 1 + random.below(step); !HasFailure(); n += step) {
      SCOPED_TRACE("the point that fails: " + std::to_string(n));
      const Alarm alarm;
      choose_system_error(n);
      point.arm(n);
      serve_once(point, is_of_fault);
      point.disarm();
      if (!point.struck()) break;
      if (HasFailure()) ADD_FAILURE() << struck_call();
      ++failed;
      expect_resources(before);
    }
    std::cout << "[  POINTS  ] " << failed << '\n';
    EXPECT_GT(failed, 0U) << "no point was reached";
  }

  const ScratchDirectory folder_;
  const ScratchDirectory files_{build_folder()};  // on a disk
  const std::string socket_ = folder_ / "run/ferryd.sock";
  const std::string first_ = files_ / "first";
  const std::string second_ = files_ / "second";
  std::atomic<bool> serves_ = false;
};

TEST_F(FailingFerryd, EachAllocationFailsOnce) {
  if (sanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  fail_each(allocations(), [](int error) { return error == ENOMEM || error == EAGAIN; });
}

TEST_F(FailingFerryd, EachSystemCallFailsOnce) {
  fail_each(system_calls(), [](int error) { return struck_with(error) || error == EIO; });
}

}  // namespace
}  // namespace ferry::test
