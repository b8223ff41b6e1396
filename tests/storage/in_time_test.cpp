#include "storage/in_time.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

using namespace std::chrono_literals;

constexpr auto long_enough = 120s;

TEST(InTime, GivesWhatTheCallReturns) {
  const auto text = in_time(long_enough, [] { return std::make_unique<std::string>("found"); });
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(**text, "found");
}

TEST(InTime, GivesNothingWhenTheCallTakesLonger) {
  auto release = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  EXPECT_FALSE(in_time(10ms, [release, ended] {
    release->get_future().wait();
    ended->set_value();
    return 1;
  }));
  release->set_value();
  ended->get_future().wait();  // it went on by itself
}

// A client's last user may be the call: it must have ended before the program ends its client.
TEST(InTime, LetsGoOfWhatTheCallOwnsBeforeItReturns) {
  struct SlowToEnd {
    explicit SlowToEnd(std::atomic<bool>& ended) : ended_(&ended) {}
    ~SlowToEnd() {
      std::this_thread::sleep_for(50ms);
      *ended_ = true;
    }
    std::atomic<bool>* ended_;
  };
  std::atomic<bool> ended{false};
  auto owned = std::make_shared<SlowToEnd>(ended);
  EXPECT_EQ(in_time(long_enough, [owned = std::move(owned)] { return 1; }), 1);
  EXPECT_TRUE(ended);
}

template <class Call>
void expect_unavailable(Call call, int error, const char* why) {
  try {
    in_time(long_enough, call);
    FAIL() << "nothing was thrown";
  } catch (const Unavailable& reason) {
    EXPECT_EQ(reason.error_number(), error);
    EXPECT_STREQ(reason.what(), why);
  }
}

// Many times, for the thread sanitizer: the exception is one of the caller's own.
TEST(InTime, ThrowsWhatTheCallThrew) {
  for (int round = 0; round < 200; ++round)
    expect_unavailable([]() -> int { throw Unavailable(ENOENT, "no such cluster"); }, ENOENT,
                       "no such cluster");
}

TEST(InTime, OtherExceptionsAreUnavailableToo) {
  expect_unavailable([]() -> int { throw std::invalid_argument("wrong"); }, EIO, "wrong");
}

}  // namespace
}  // namespace ferry::storage
