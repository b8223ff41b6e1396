// An arena, a storage and a running server, with device groups for the test's calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include <ferry/device.hpp>

#include "server/server.hpp"
#include "storage/posix/posix.hpp"
#include "support/hooks.hpp"
#include "support/within.hpp"

namespace ferry::test {

using Calls = device::FileCalls<device::ThreadGroup>;

// Group g uses ring g % rings, which loop (g % rings) % loops serves.
inline device::Geometry small_geometry(std::uint32_t loops, std::uint32_t groups) {
  device::Geometry geometry;
  geometry.loops = loops;
  geometry.rings = loops;
  geometry.slots_per_ring = 64;
  geometry.groups = groups;
  geometry.cells_per_group = 16;
  geometry.shared_cells = 4;
  geometry.files = 16;
  geometry.staging_bytes = 16 * 1024;
  return geometry;
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

  Calls calls(std::uint32_t group) { return {arena.context(), device::ThreadGroup{}, group}; }
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

// Makes one loop stop or hang at an injection point, once armed.
class Injection {
 public:
  enum class Action { none, stop, stall };

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
    changed_.wait(lock, [this] { return released_; });
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
  bool released_ = false;
};

}  // namespace ferry::test
