// The base of tests that mistreat a rig's server: it ends, hangs or returns while requests are in
// flight. FERRY_TEST_RIG is the program that controls it.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "storage/router.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"
#include "support/storage_driver.hpp"

namespace ferry::test {

class ServerFaults : public testing::Test {
 protected:
  // `rig_name`: nfs or ceph. `kind`: as in served_folder(). `rig_variable`: the environment
  // variable with the program that controls the servers.
  ServerFaults(std::string rig_name, std::string kind, const char* rig_variable = "FERRY_TEST_RIG")
      : rig_name_(std::move(rig_name)), kind_(std::move(kind)), rig_variable_(rig_variable) {}

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
  void make_storage() {
    driver.reset();
    storage = storage::make_router();
    driver = std::make_unique<StorageDriver>(*storage, arena.span());
  }
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
  // Submits a transfer that stays in flight.
  void begin(Operation& operation, Kind kind, File* file, iovec& vector) {
    operation.kind = kind;
    operation.file = file;
    operation.vectors = {&vector, 1};
    driver->queue().submit(operation);
    driver->queue().flush();
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
      const std::string data = pattern(round_bytes, round);
      std::memcpy(arena.data(), data.data(), round_bytes);
      const auto offset = static_cast<std::int64_t>(place * round_bytes);
      result = driver->pwrite(file, arena.data(), round_bytes, offset);
      if (result >= 0 && result != static_cast<std::int64_t>(round_bytes)) result = -EIO;
      if (result > 0) result = driver->simple(storage::Kind::sync, file);
      if (result == 0) durable[place] = round;
    }
    return durable;
  }
  void expect_rounds(File* file, const Rounds& durable) {
    EXPECT_FALSE(durable.empty());
    for (const auto& [place, round] : durable) {
      const auto offset = static_cast<std::int64_t>(place * round_bytes);
      ASSERT_EQ(driver->pread(file, arena.data(), round_bytes, offset),
                static_cast<std::int64_t>(round_bytes));
      EXPECT_TRUE(same_bytes(arena.view(0, round_bytes), pattern(round_bytes, round))) << round;
    }
  }
  static constexpr std::size_t round_bytes = 256 << 10;
  static constexpr std::uint64_t round_places = 64;

  std::optional<ServedFolder> server;
  AlignedBytes arena{8 << 20};
  std::unique_ptr<storage::Storage> storage;
  std::unique_ptr<StorageDriver> driver;

 private:
  const std::string rig_name_;
  const std::string kind_;
  const char* const rig_variable_;
  std::string rig_program_;  // empty: there is no server to mistreat
};

}  // namespace ferry::test
