// The base of tests that mistreat a rig's server: it ends, hangs or returns while requests are in
// flight. FERRY_TEST_RIG is the program that controls it.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "storage/router.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"
#include "support/storage_driver.hpp"

namespace ferry::test {

class ServerFaults : public StorageTest {
 protected:
  // `rig_name`: nfs or ceph. `kind`: as in served_folder(). `rig_variable`: the environment
  // variable with the program that controls the servers.
  ServerFaults(std::string rig_name, std::string kind, const char* rig_variable = "FERRY_TEST_RIG")
      : StorageTest(8 << 20),
        rig_name_(std::move(rig_name)),
        kind_(std::move(kind)),
        rig_variable_(rig_variable) {}

  void SetUp() override {
    server = served_folder(kind_);
    const char* program = std::getenv(rig_variable_);
    if (!server || program == nullptr)
      GTEST_SKIP() << no_server(kind_) << "; " << rig_variable_ << " controls it";
    rig_program_ = program;
    make_storage();
  }
  void TearDown() override {
    if (rig_program_.empty()) return;
    rig("thaw");
    rig("up");
  }

  // Another client, with an empty cache.
  void make_storage() { use(storage::make_router()); }
  void rig(const std::string& command, const std::string& option = "") const {
    const std::string line =
        rig_program_ + " " + command + " " + rig_name_ + " " + option + " >/dev/null";
    ASSERT_EQ(std::system(line.c_str()), 0) << command;
  }
  void restart() const {
    rig("kill");
    rig("up");
  }
  // The server's name for a file, whose calls end after `timeout_s`.
  std::string uri_of(const std::string& file, unsigned timeout_s) const {
    return server->uri_of(file) + "&timeout=" + std::to_string(timeout_s);
  }
  // A short bound suits hanging servers; on a busy machine, healthy ones may miss it.
  template <class Call>
  static std::int64_t unhurried(Call call) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const std::int64_t result = call();
      if (result != -ETIMEDOUT || std::chrono::steady_clock::now() > until) return result;
    }
  }
  DrivenFile open_unhurried(const std::string& uri, int flags) {
    File* file = nullptr;
    const std::int64_t error = unhurried([&] { return driver->open(uri, flags, file); });
    if (error != 0) throw std::runtime_error("open " + uri + ": " + std::to_string(error));
    return {*driver, file};
  }

  // Reads `data`, the contents of `file`, of servers that hang.
  void expect_late_answers_to_touch_nothing(File* file, const std::string& data) {
    const std::size_t bytes = data.size();
    rig("freeze");
    ASSERT_EQ(driver->pread(file, arena.data(), bytes, 0), -ETIMEDOUT);
    std::memset(arena.data(), 0x5a, bytes);
    rig("thaw");
    // By now the servers have answered what they were asked before.
    char* const behind = arena.data() + bytes;
    ASSERT_EQ(unhurried([&] { return driver->pread(file, behind, bytes, 0); }), std::ssize(data));
    EXPECT_TRUE(same_bytes({behind, bytes}, data));
    EXPECT_TRUE(same_bytes(arena.view(0, bytes), std::string(bytes, 0x5a)));
  }
  void expect_transfers_to_be_cancelled(File* file) {
    constexpr std::size_t bytes = 4 << 20;
    rig("freeze");
    DrivenTransfer read(Kind::read, file, arena.data(), bytes);
    driver->start(read);
    driver->queue().cancel(read);
    EXPECT_EQ(&driver->next(), &read);
    EXPECT_EQ(read.result, -ECANCELED);
    std::memset(arena.data(), 0x5a, bytes);
    rig("thaw");
    ASSERT_EQ(driver->pread(file, arena.data() + bytes, bytes, 0), std::int64_t{bytes});
    EXPECT_TRUE(same_bytes(arena.view(0, bytes), std::string(bytes, 0x5a)));
  }

  // Has `make_durable()` write `bytes` bytes of the arena and sync them, in rounds, while the
  // servers are restarted so many times. Returns the data of the last round, which is durable.
  template <class MakeDurable>
  std::string write_under_restarts(std::uint64_t times, std::chrono::milliseconds pause,
                                   std::size_t bytes, MakeDurable make_durable) {
    std::atomic<bool> over{false};
    std::jthread killer([&] { restart_often(times, pause, over); });
    std::string durable;
    std::uint64_t failed = 0;
    for (std::uint64_t round = 1; !over || durable.empty(); ++round) {
      const std::string data = pattern(bytes, round);
      std::memcpy(arena.data(), data.data(), bytes);
      durable = make_durable() ? data : "";
      if (durable.empty()) ++failed;
    }
    RecordProperty("failed_rounds", std::to_string(failed));
    return durable;
  }
  void restart_often(std::uint64_t times, std::chrono::milliseconds pause,
                     std::atomic<bool>& over) const {
    for (std::uint64_t i = 0; i < times; ++i) {
      std::this_thread::sleep_for(pause);
      restart();
    }
    over = true;
  }

  // Writes and syncs a piece of its own in each round, while `goes_on(result)` holds for the
  // round's result, 0 or a negative errno. Returns the durable data: the round of each place.
  using Rounds = std::map<std::uint64_t, std::uint64_t>;
  Rounds write_rounds(File* file, const std::function<bool(std::int64_t)>& goes_on) {
    Rounds durable;
    std::int64_t result = 0;
    for (std::uint64_t round = 0; round == 0 || goes_on(result); ++round) {
      const std::uint64_t place = round % round_places;
      durable.erase(place);
      result = write(file, pattern(round_bytes, round), offset_of(place));
      if (result >= 0 && result != static_cast<std::int64_t>(round_bytes)) result = -EIO;
      if (result > 0) result = driver->simple(storage::Kind::sync, file);
      if (result == 0) durable[place] = round;
    }
    return durable;
  }
  void expect_rounds(const DrivenFile& file, const Rounds& durable) {
    EXPECT_FALSE(durable.empty());
    for (const auto& [place, round] : durable)
      EXPECT_TRUE(finds(file, pattern(round_bytes, round), offset_of(place))) << round;
  }
  static std::int64_t offset_of(std::uint64_t place) {
    return static_cast<std::int64_t>(place * round_bytes);
  }
  static constexpr std::size_t round_bytes = 256 << 10;
  static constexpr std::uint64_t round_places = 64;

  std::optional<ServedFolder> server;

 private:
  const std::string rig_name_;
  const std::string kind_;
  const char* const rig_variable_;
  std::string rig_program_;  // empty: there is no server to mistreat
};

}  // namespace ferry::test
