// Tests of a runtime's end over a storage that hangs and fails: groups for calls, and one for
// write-back at the end.
#pragma once

#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "runtime/ending.hpp"
#include "support/failing_storage.hpp"
#include "support/server_rig.hpp"
#include "support/within.hpp"

namespace ferry::test {

class OnEndingRig : public testing::Test {
 protected:
  static constexpr std::uint32_t page = 4096;

  explicit OnEndingRig(std::uint32_t calling_groups) : calling_groups_(calling_groups) {}

  void SetUp() override {
    auto failing = std::make_unique<FailingStorage>(Random(1));
    storage = failing.get();
    const std::uint32_t groups = calling_groups_ + 1;
    rig = std::make_unique<ServerRig>(small_geometry(1, groups), std::move(failing));
    rig->add_cache({page, 16, 16, groups, 4});
    ending = std::make_unique<Ending>(rig->arena.context(), calling_groups_, *rig->server);
  }
  void TearDown() override {
    storage->let_go();
    storage->faults.stop();
    within_patience("the end of the server", [this] {
      ending.reset();
      rig.reset();
    });
  }

  FailingStorage* storage = nullptr;
  std::unique_ptr<ServerRig> rig;
  std::unique_ptr<Ending> ending;

 private:
  const std::uint32_t calling_groups_;
};

}  // namespace ferry::test
