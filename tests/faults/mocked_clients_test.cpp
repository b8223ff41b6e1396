// Each call of the client libraries of Ceph and PVFS2 (their mocks) fails, for every one that a
// device program and a bulk program make, mounting and unmounting included.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "bulk/scheduler.hpp"
#include "faults/bulk_program.hpp"
#include "faults/client_calls.hpp"
#include "faults/device_program.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/one_caller_rig.hpp"

namespace ferry::test {
namespace {

struct FaultyClient {
  const char* name;
  MockedLibrary library;
  device::Placement placement = device::Placement::compute;
  std::uint32_t cache_pages = 16;  // 0: no cache
};

void PrintTo(const FaultyClient& client, std::ostream* out) {
  *out << client.name;
}

constexpr MockWay mock_ways[] = {MockWay::refused, MockWay::done, MockWay::shortened,
                                 MockWay::late};
constexpr const char* way_names[] = {"none", "refused", "done", "shortened", "late"};
constexpr int library_errors[] = {EIO, ENOSPC, ESTALE, ETIMEDOUT};

class FaultyClients : public testing::TestWithParam<FaultyClient> {
 protected:
  std::string name_of(const std::string& path) const {
    return calls_.name_of(path, way_ == MockWay::late ? 2 : 60);
  }
  // What PVFS2 has no word for is an EIO.
  bool is_expected(int error) const {
    return error == error_ || error == EIO || (way_ == MockWay::late && error == ETIMEDOUT);
  }

  // `run()` for each call of each way to fail. A run's files need a folder of their own: what
  // failed in one run may come in the next.
  template <class Run>
  void fail_each(const Run& run) {
    std::uint64_t points = 0;
    for (const MockWay way : mock_ways) {
      SCOPED_TRACE(way_names[static_cast<std::size_t>(way)]);
      way_ = way;
      calls_.point.arm(never);
      run();  // what is made once for the process
      const bool is_late = way == MockWay::late;
      points += for_every_point(
          calls_.point,
          [&](std::uint64_t n) {
            error_ = library_errors[n % std::size(library_errors)];
            calls_.strike({.now = ClientCalls::strikes_now,
                           .way = way,
                           .error = error_,
                           .late = std::chrono::milliseconds(3000)});
            calls_.point.arm(n);
            run();
            calls_.point.disarm();
            SCOPED_TRACE(calls_.struck());
            calls_.expect_nothing_left();
          },
          is_late ? (is_deep() ? 4 : 40) : 1);
      if (HasFailure()) return;
    }
    ClientCalls::expect_no_threads();
    std::cout << "[  POINTS  ] " << points << '\n';
  }

  MockWay way_ = MockWay::refused;
  int error_ = 0;
  ClientCalls calls_{GetParam().library};
};

using DevicesOfClients = FaultyClients;

TEST_P(DevicesOfClients, EachCallFailsOnce) {
  const ByteSources sources;
  const bool has_cache = GetParam().cache_pages > 0;
  fail_each([&] {
    const FaultInForce fault{
        calls_.point, [&](int error) { return is_expected(error); }, way_ == MockWay::late,
        way_ == MockWay::late || way_ == MockWay::done,
        [&] { return way_ != MockWay::shortened && calls_.struck() == "ceph_write"; }};
    OneCallerRig<storage::Storage> rig(ClientCalls::make_storage(), GetParam().placement,
                                       GetParam().cache_pages);
    rig.align_memory();
    const ScratchDirectory scratch;
    const std::string path = scratch / "file";
    DeviceProgram(*rig.calls, TestedFile(path, name_of(path)), rig.memory, fault, sources,
                  has_cache)
        .run();
  });
}

using TransfersOfClients = FaultyClients;

TEST_P(TransfersOfClients, EachCallFailsOnce) {
  fail_each([&] {
    const bulk::EngineOptions options{.workers = 2, .depth = 2, .task_bytes = 64 << 10};
    const bulk::Engine engine(
        std::make_shared<bulk::Scheduler>(options, ClientCalls::make_storage()));
    const ScratchDirectory scratch;
    BulkProgram(
        engine, scratch, calls_.point, [&](int error) { return is_expected(error); },
        [&](const std::string& path) { return name_of(path); })
        .run();
  });
}

std::string name_of_client(const testing::TestParamInfo<FaultyClient>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    , DevicesOfClients,
    testing::Values(FaultyClient{"CephHost", MockedLibrary::ceph, device::Placement::host, 0},
                    FaultyClient{"Ceph", MockedLibrary::ceph},
                    FaultyClient{"CephFewPages", MockedLibrary::ceph, device::Placement::service,
                                 4},
                    FaultyClient{"Pvfs2Host", MockedLibrary::pvfs2, device::Placement::host, 0},
                    FaultyClient{"Pvfs2", MockedLibrary::pvfs2}),
    name_of_client);
INSTANTIATE_TEST_SUITE_P(, TransfersOfClients,
                         testing::Values(FaultyClient{"Ceph", MockedLibrary::ceph},
                                         FaultyClient{"Pvfs2", MockedLibrary::pvfs2}),
                         name_of_client);

}  // namespace
}  // namespace ferry::test
