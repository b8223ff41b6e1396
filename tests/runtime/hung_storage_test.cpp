// Threads on two storages, one of which hangs again and again: calls on the other's files continue,
// whatever the hung file has dirty, in flight or half open, and nothing is lost.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"
#include "support/two_storages.hpp"

namespace ferry::hung_storage_test {
namespace {

using device::Placement;
using test::Random;

constexpr std::uint32_t page = 4096;
constexpr std::uint32_t on_hung = 2;     // threads that work on the storage that hangs
constexpr std::uint32_t on_healthy = 2;  // and on the other
constexpr std::uint32_t threads = on_hung + on_healthy;
constexpr std::uint64_t file_bytes = 40 * page;

class HungStorage : public testing::Test {
 protected:
  void make(std::uint32_t pages) {
    auto both = std::make_unique<test::TwoStorages>(random.fork());
    failing = &both->failing();
    device::Geometry geometry = test::small_geometry(1, threads);
    geometry.shared_cells = 8;
    rig = std::make_unique<test::ServerRig>(geometry, std::move(both));
    rig->add_cache({page, pages, 16, threads, 8});
  }
  std::string path_of(std::uint32_t index) const {
    const std::string name = std::to_string(index);
    return index < on_hung ? std::string(test::TwoStorages::prefix) + name : directory / name;
  }

  // Each thread on a file of its own, against a model of it.
  void work(std::uint32_t index, Random own) {
    test::Calls files = rig->calls(index);
    std::string model(file_bytes, '\0');
    const std::string path = path_of(index);
    int file = files.open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (files.ftruncate(file, file_bytes) != 0) wrong = __LINE__;
    while (!ended && wrong == 0) {
      files.use(own.one_in(4) ? Placement::host : Placement::compute);
      const std::uint64_t bytes = 1 + own.below(own.one_in(20) ? 6 * page : 500);
      const auto offset = static_cast<std::int64_t>(own.below(file_bytes - bytes));
      std::string data(bytes, static_cast<char>(own.bits()));
      const std::uint64_t what = own.below(100);
      if (what < 2) {
        if (files.close(file) != 0) wrong = __LINE__;
        file = files.open(path.c_str(), O_RDWR);
        if (file <= 0) wrong = __LINE__;
      } else if (what < 4) {
        if (files.fsync(file) != 0) wrong = __LINE__;
      } else if (what < 6) {
        if (files.prefetch(file, offset, 10 * page) != 0) wrong = __LINE__;
      } else if (what < 50) {
        const std::int64_t got = files.pwrite(file, data.data(), bytes, offset);
        if (got != static_cast<std::int64_t>(bytes)) wrong = __LINE__;
        model.replace(static_cast<std::size_t>(offset), bytes, data);
      } else {
        const std::int64_t got = files.pread(file, data.data(), bytes, offset);
        if (got != static_cast<std::int64_t>(bytes) ||
            model.compare(static_cast<std::size_t>(offset), bytes, data) != 0)
          wrong = __LINE__;
      }
      calls[index].fetch_add(1);
    }
    if (files.close(file) != 0) wrong = __LINE__;
    const std::string there = index < on_hung ? failing->contents(path) : test::read_file(path);
    if (const auto same = test::same_bytes(there, model); !same) {
      wrong = __LINE__;
      ADD_FAILURE() << path << ": " << same.message();
    }
  }
  // While one storage is blocked, every thread on the other makes `more` calls.
  void hang_for(std::uint64_t more) {
    failing->all_hang = true;
    std::array<std::uint64_t, threads> before{};
    for (std::uint32_t i = on_hung; i < threads; ++i)
      before[i] = calls[i];
    for (std::uint32_t i = on_hung; i < threads && wrong == 0; ++i) {
      EXPECT_TRUE(test::eventually([&] { return calls[i] >= before[i] + more || wrong != 0; }))
          << "calls on a healthy storage wait for one that hangs";
    }
    failing->all_hang = false;
  }

  Random random;
  const test::ScratchDirectory directory;
  test::FailingStorage* failing = nullptr;
  std::unique_ptr<test::ServerRig> rig;
  std::array<std::atomic<std::uint64_t>, threads> calls{};
  std::atomic<bool> ended{false};
  std::atomic<int> wrong{0};
};

TEST_F(HungStorage, HarmsCallsOnItsOwnFilesOnly) {
  for (const std::uint32_t pages : {16U, 60U}) {
    make(pages);
    ended = false;
    for (auto& count : calls)
      count = 0;
    test::within_patience("threads beside a storage that hangs", [&] {
      std::vector<std::thread> workers;
      for (std::uint32_t i = 0; i < threads; ++i)
        workers.emplace_back(
            [=, this, fork = random.fork()]() mutable { work(i, std::move(fork)); });
      const std::uint64_t rounds = test::scaled(20);
      for (std::uint64_t i = 0; i < rounds && !HasFailure() && wrong == 0; ++i) {
        // The hung files run in between, so that each time something else is in flight.
        const std::uint64_t so_far = calls[0];
        if (!test::eventually([&] { return calls[0] > so_far + 20 || wrong != 0; }))
          wrong = __LINE__;
        hang_for(300);
      }
      ended = true;
      for (std::thread& worker : workers)
        worker.join();
    });
    EXPECT_EQ(wrong, 0);
    if (HasFailure()) return;
    rig.reset();
  }
}

}  // namespace
}  // namespace ferry::hung_storage_test
