// A device of one group over a storage of the test's, and its server, whose thread executes the
// group's calls of placement `service`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/services.hpp"
#include "support/server_rig.hpp"

namespace ferry::test {

template <class TestStorage>
class OneCallerRig {
 public:
  // `cache_pages`: of 4 KiB; 0: no cache.
  OneCallerRig(std::unique_ptr<TestStorage> made, device::Placement placement,
               std::uint32_t cache_pages)
      : storage(made.get()) {
    server::ServerOptions options;
    options.execute = [this](std::uint32_t loop, const device::Request& request,
                             server::Pump& pump) {
      return services_->execute(loop, request, pump);
    };
    constexpr std::uint32_t groups = 2;  // the caller's and the server's
    rig_ = std::make_unique<ServerRig>(small_geometry(1, groups), std::move(made), options);
    memory = rig_->heap();
    if (cache_pages > 0) memory = rig_->add_cache({4096, cache_pages, 16, groups, 4});
    services_ = std::make_unique<LoopServices>(rig_->arena.context(), 1);
    calls.emplace(rig_->calls(0, placement));
  }
  OneCallerRig(const OneCallerRig&) = delete;
  OneCallerRig& operator=(const OneCallerRig&) = delete;

  // `memory` from the next page on.
  void align_memory() {
    const auto past_page = reinterpret_cast<std::uintptr_t>(memory) % 4096;
    if (past_page != 0) memory += 4096 - past_page;
  }

  TestStorage* const storage;
  std::optional<Calls> calls;
  unsigned char* memory = nullptr;  // of the device, behind its cache

 private:
  std::unique_ptr<LoopServices> services_;
  std::unique_ptr<ServerRig> rig_;
};

}  // namespace ferry::test
