// Each operation of bulk transfers on their storage fails, for every one that a program makes.

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "bulk/scheduler.hpp"
#include "faults/bulk_program.hpp"
#include "faults/nth_storage.hpp"
#include "faults/resources.hpp"
#include "support/files.hpp"

namespace ferry::test {
namespace {

class BulkOperations : public testing::TestWithParam<bulk::Route> {};

TEST_P(BulkOperations, EachFailsOnce) {
  const ScratchDirectory scratch(build_folder());
  const Resources before = resources_now();
  std::uint64_t points = 0;
  for (const FaultMode mode : fault_modes) {
    SCOPED_TRACE(name_of(mode));
    auto made = std::make_unique<NthStorage>(StorageEngine::automatic);
    NthStorage& storage = *made;
    storage.mode = mode;
    const bulk::EngineOptions options{
        .workers = 2, .depth = 2, .task_bytes = 64 << 10, .route = GetParam()};
    const bulk::Engine engine(std::make_shared<bulk::Scheduler>(options, std::move(made)));
    const auto is_expected = [&](int error) {
      return error == storage.error || (mode == FaultMode::late && error == ETIMEDOUT);
    };
    points += for_every_point(storage.point, [&](std::uint64_t n) {
      storage.error = fault_errors[n % std::size(fault_errors)];
      storage.point.arm(n);
      BulkProgram(engine, scratch, storage.point, is_expected).run();
      storage.point.disarm();
    });
    if (HasFailure()) return;
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  expect_resources(before);
}

INSTANTIATE_TEST_SUITE_P(, BulkOperations,
                         testing::Values(bulk::Route::automatic, bulk::Route::direct),
                         name_of_route);

}  // namespace
}  // namespace ferry::test
