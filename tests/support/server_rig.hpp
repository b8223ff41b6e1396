// An arena, a storage and a running server, with device groups for the test's calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/device.hpp>

#include "server/server.hpp"
#include "storage/posix/posix.hpp"
#include "support/fake_storage.hpp"
#include "support/hooks.hpp"
#include "support/within.hpp"

namespace ferry::test {

using Calls = device::FileCalls<device::ThreadGroup>;

// Group g uses ring g % rings, which loop (g % rings) % loops serves.
inline device::Geometry small_geometry(std::uint32_t loops, std::uint32_t groups) {
  return {.loops = loops,
          .rings = loops,
          .slots_per_ring = 64,
          .groups = groups,
          .cells_per_group = 16,
          .shared_cells = 4,
          .files = 16,
          .staging_bytes = 16 * 1024};
}

class ServerRig {
 public:
  static constexpr std::uint64_t heap_bytes = 1 << 20;

  ServerRig(const device::Geometry& geometry, std::unique_ptr<storage::Storage> storage,
            server::ServerOptions options = {})
      : arena(geometry, heap_bytes), storage_(std::move(storage)) {
    server = std::make_unique<server::Server>(arena.view(), *storage_, std::move(options));
  }
  ~ServerRig() {
    within_patience("destruction of the server", [this] { server.reset(); });
  }

  // Gives it a page cache at the start of the heap. Returns the first page behind that.
  unsigned char* add_cache(const device::cache::CacheGeometry& geometry) const {
    device::cache::View& cache = arena.context().cache;
    cache.layout = device::cache::lay_out(geometry);
    cache.base = heap();
    device::cache::prepare(cache);
    return heap() + (cache.layout.bytes + 4095) / 4096 * 4096;
  }

  Calls calls(std::uint32_t group) const { return {arena.context(), device::ThreadGroup{}, group}; }
  Calls calls(std::uint32_t group, device::Placement placement) const {
    Calls made = calls(group);
    made.use(placement);
    return made;
  }
  unsigned char* heap() const { return arena.heap(); }
  device::LoopPhase phase(std::uint32_t loop) const {
    return device::SystemRef<device::LoopPhase>(arena.view().loop_state(loop).phase)
        .load(device::acquire);
  }

  TestArena arena;

 private:
  std::unique_ptr<storage::Storage> storage_;

 public:
  std::unique_ptr<server::Server> server;
};

// Up to `bytes` of the file, or which error there was.
inline std::string read_at(Calls& files, int file, std::size_t bytes, std::int64_t offset) {
  std::string data(bytes, '?');
  const std::int64_t got = files.pread(file, data.data(), bytes, offset);
  if (got < 0) return "error " + std::to_string(got);
  data.resize(static_cast<std::size_t>(got));
  return data;
}

// Tests of a server over a storage that the test holds.
class OnFakeStorage : public testing::Test {
 protected:
  void make(const device::Geometry& geometry, server::ServerOptions options = {},
            bool can_cancel = false) {
    auto fake = std::make_unique<FakeStorage>();
    fake->can_cancel = can_cancel;
    storage = fake.get();
    rig = std::make_unique<ServerRig>(geometry, std::move(fake), std::move(options));
  }
  void make(const device::Geometry& geometry, std::chrono::milliseconds liveness_timeout) {
    server::ServerOptions options;
    options.liveness_timeout = liveness_timeout;
    make(geometry, std::move(options));
  }
  // Starts reads of a new file, which the storage holds.
  std::vector<device::Pending> held_reads(Calls& calls, int count) {
    const int file = calls.open("any", O_RDWR);
    EXPECT_GT(file, 0);
    storage->hold();
    std::vector<device::Pending> pending;
    for (int i = 0; i < count; ++i)
      pending.push_back(calls.pread_async(file, rig->heap() + i * 64, 64, 0));
    return pending;
  }
  bool holds(int count) const {
    return eventually([&] { return storage->counts.held == count; });
  }

  FakeStorage* storage = nullptr;
  std::unique_ptr<ServerRig> rig;
};

// Makes one loop stop or hang at an injection point, once armed.
class Injection {
 public:
  enum class Action { none, stop, stall, spin };

  // Triggers at the next `where` of `loop`.
  void arm(Action action, std::uint32_t loop, server::LoopPoint where) {
    const std::lock_guard lock(mutex_);
    action_ = action;
    loop_ = loop;
    where_ = where;
  }
  void operator()(std::uint32_t loop, server::LoopPoint where) {
    std::unique_lock lock(mutex_);
    if (action_ == Action::none || loop != loop_ || where != where_) return;
    const Action action = std::exchange(action_, Action::none);
    reached_ = true;
    changed_.notify_all();
    if (action == Action::stop) throw server::LoopStopped();
    if (action == Action::spin) {
      lock.unlock();
      while (!released_)
        continue;
      return;
    }
    changed_.wait(lock, [this] { return released_.load(); });
  }
  bool reached() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return reached_; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  std::function<void(std::uint32_t, server::LoopPoint)> hook() {
    return [this](std::uint32_t loop, server::LoopPoint where) { (*this)(loop, where); };
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Action action_ = Action::none;
  std::uint32_t loop_ = 0;
  server::LoopPoint where_ = server::LoopPoint::taken;
  bool reached_ = false;
  std::atomic<bool> released_{false};
};

}  // namespace ferry::test
