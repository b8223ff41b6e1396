// Each allocation fails, for every one of a program on a runtime.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "backend/cpu/arena.hpp"
#include "bulk/callbacks.hpp"
#include "bulk/files_job.hpp"
#include "bulk/lanes.hpp"
#include "bulk/scheduler.hpp"
#include "faults/allocations.hpp"
#include "faults/bulk_program.hpp"
#include "faults/client_calls.hpp"
#include "faults/resources.hpp"
#include "faults/runtime_program.hpp"
#include "server/file_table.hpp"
#include "storage/queue/bounded_pool.hpp"
#include "storage/router.hpp"
#include "support/client_mocks.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/one_caller_rig.hpp"
#include "support/small_runtimes.hpp"
#include "support/within.hpp"

namespace ferry::test {
namespace {

class RuntimeAllocations : public testing::TestWithParam<RuntimeSetup> {};

TEST_P(RuntimeAllocations, EachFailsOnce) {
  const ScratchDirectory scratch(build_folder());
  const ByteSources sources;
  fail_each_allocation([&] {
    run_runtime(GetParam(), scratch / "file", sources, allocations(), is_lack_of_memory);
  });
}

INSTANTIATE_TEST_SUITE_P(, RuntimeAllocations, testing::ValuesIn(runtime_setups()), name_of_setup);

class BulkAllocations : public testing::TestWithParam<bulk::Route> {};

TEST_P(BulkAllocations, EachFailsOnce) {
  const ScratchDirectory scratch(build_folder());
  fail_each_allocation([&] { run_engine(GetParam(), scratch, allocations(), is_lack_of_memory); });
}

INSTANTIATE_TEST_SUITE_P(, BulkAllocations,
                         testing::Values(bulk::Route::automatic, bulk::Route::direct),
                         name_of_route);

// What the mocks of client libraries allocate does not count.
struct OfALibrary {
  static inline thread_local bool counted = true;
  static void begin() { counted = std::exchange(PointsHere::count, false); }
  static void end() { PointsHere::count = counted; }
};

class ClientAllocations : public testing::TestWithParam<MockedLibrary> {
 protected:
  ClientAllocations() { calls_.strike({.begin = OfALibrary::begin, .end = OfALibrary::end}); }
  static bool is_expected(int error) { return is_lack_of_memory(error) || error == EIO; }
  auto look_back() {
    return [this](const Resources& /*before*/) { calls_.expect_nothing_left(); };
  }

  ClientCalls calls_{GetParam()};
  const ScratchDirectory scratch_;
};

TEST_P(ClientAllocations, OfADeviceProgramEachFailsOnce) {
  const FaultInForce fault{allocations(), is_expected, true, true, [] { return false; }};
  const ByteSources sources;
  const std::string path = scratch_ / "file";
  fail_each_allocation(
      [&] {
        OneCallerRig<storage::Storage> rig(ClientCalls::make_storage(), device::Placement::compute,
                                           16);
        rig.align_memory();
        DeviceProgram(*rig.calls, TestedFile(path, calls_.name_of(path)), rig.memory, fault,
                      sources, true)
            .run();
      },
      look_back());
}

TEST_P(ClientAllocations, OfABulkProgramEachFailsOnce) {
  fail_each_allocation(
      [&] {
        run_engine(
            [] {
              const bulk::EngineOptions options{.workers = 2, .depth = 2, .task_bytes = 64 << 10};
              return bulk::Engine(
                  std::make_shared<bulk::Scheduler>(options, ClientCalls::make_storage()));
            },
            scratch_, allocations(), is_expected,
            [&](const std::string& file) { return calls_.name_of(file); });
      },
      look_back());
}

INSTANTIATE_TEST_SUITE_P(, ClientAllocations,
                         testing::Values(MockedLibrary::ceph, MockedLibrary::pvfs2),
                         [](const auto& test) {
                           return std::string(test.param == MockedLibrary::ceph ? "Ceph" : "Pvfs2");
                         });

// ---- single parts

class SingleAllocations : public testing::Test {
 protected:
  void SetUp() override {
    if (sanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  }

  // `work()` once for each of its allocations, which fails. Returns how many there were.
  template <class Work>
  static std::uint64_t fail_each(const Work& work) {
    return for_every_point(allocations(), [&](std::uint64_t n) {
      allocations().arm(n);
      try {
        work();
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(allocations().struck());
      } catch (const Error& error) {
        EXPECT_TRUE(allocations().struck()) << error.what();
      }
      allocations().disarm();
    });
  }
};

TEST_F(SingleAllocations, TheHeapLosesNoRange) {
  constexpr std::uint64_t bytes = 1 << 20;
  const cpu::CpuArena arena = cpu::CpuArena::shared(bytes);
  cpu::Heap heap(arena.base(), bytes);
  void* first = heap.allocate(64, 64);  // so that the next one skips some
  fail_each([&] {
    void* memory = heap.allocate(4096, 4096);
    const PointsHere not_here(false);
    heap.free(memory);
  });
  heap.free(first);
  EXPECT_EQ(heap.largest_free_bytes(), bytes);
}

TEST_F(SingleAllocations, AFileTableClosesWithoutMemory) {
  server::FileTable table(16);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(table.reserve());
    const std::int32_t handle = table.insert_reserved(std::make_unique<storage::File>());
    allocations().arm(1);
    EXPECT_TRUE(table.begin_close(handle));
    delete table.finish_close(handle);
    EXPECT_FALSE(allocations().struck());
    allocations().disarm();
  }
}

class EasyCall final : public storage::BoundedCall {
 public:
  using BoundedCall::BoundedCall;
  std::int64_t work(std::vector<char>& /*memory*/) override { return 7; }
};

class EasyQueue final : public storage::BoundedQueue {
 public:
  using BoundedQueue::BoundedQueue;

 private:
  std::shared_ptr<storage::BoundedCall> make_call(storage::Operation& operation) override {
    return std::make_shared<EasyCall>(operation, inbox_, std::chrono::hours(1));
  }
};

// Its threads need no memory of the pool once they are started.
TEST_F(SingleAllocations, APoolOfBlockingCallsAnswers) {
  const storage::OwnerProcess owner;
  std::uint32_t word = 0;
  storage::QueueOptions options;
  options.doorbell = storage::Doorbell{&word};
  fail_each([&] {
    storage::BoundedPool pool(1, {});
    EasyQueue queue(pool, owner, options);
    for (const storage::Kind kind : {storage::Kind::path_status, storage::Kind::close}) {
      storage::Operation operation{.kind = kind};
      if (kind == storage::Kind::close) {
        const PointsHere not_here(false);
        operation.file = new storage::File;
      }
      queue.submit(operation);
      EXPECT_NO_THROW(queue.flush());
      EXPECT_TRUE(eventually([&] { return queue.reap() == &operation; }));
      EXPECT_TRUE(operation.result == 7 || is_lack_of_memory(static_cast<int>(-operation.result)))
          << operation.result;
    }
  });
}

// Closing may hang, so a queue's own thread does not close where the pool has no memory for it.
TEST_F(SingleAllocations, AQueueHasFilesClosedOnceThereIsMemory) {
  const ScratchDirectory scratch(build_folder());
  write_file(scratch / "file", "written");
  // Opened by another, so that the pool has not had anything to do.
  const auto other = storage::make_router({});
  const auto storage = storage::make_router({});
  storage::File* file = nullptr;
  if (StorageDriver(*other).open(scratch / "file", O_RDONLY | O_DIRECT, file) != 0)
    GTEST_SKIP() << "no direct I/O in " << build_folder();
  StorageDriver driver(*storage);
  storage::Queue& queue = driver.queue();
  storage::Operation close{.kind = storage::Kind::close, .file = file};
  queue.submit(close);
  allocations().arm(1);
  queue.flush();
  allocations().disarm();
  EXPECT_TRUE(allocations().struck());
  EXPECT_EQ(queue.reap(), nullptr);
  EXPECT_TRUE(eventually([&] { return queue.reap() == &close; }));
  EXPECT_EQ(close.result, 0);
}

// Each open ends with a file or an error, and no file of the library is forgotten.
TEST_F(SingleAllocations, AnOpenByAMockedLibraryLeavesNoFile) {
  const ScratchDirectory scratch;
  const MockTable table;
  write_file(scratch / "ceph.conf", "/\n");
  CephMockFaults ceph;
  const MockFaults pvfs2(pvfs2_mock);
  const std::string file = scratch / "file";
  for (const std::string& uri :
       {"ceph:" + file + "?conf=" + (scratch / "ceph.conf"), table.uri_of(file)}) {
    const auto storage =
        storage::make_router({.ceph_library = ceph_mock, .pvfs2_library = pvfs2_mock});
    StorageDriver driver(*storage);
    driver.close(driver.must_open(uri, O_RDWR | O_CREAT));  // loads and mounts
    storage::Layout layout = striped(0, 2);
    layout.at_most = true;
    const bool has_layout = uri.starts_with("pvfs2");
    fail_each([&] {
      if (has_layout) ::unlink(file.c_str());
      storage::Layout wanted = layout;
      Operation open{.kind = Kind::open,
                     .path = uri.c_str(),
                     .layout = has_layout ? &wanted : nullptr,
                     .flags = has_layout ? O_RDWR | O_CREAT | O_EXCL : O_RDWR,
                     .mode = 0644};
      driver.run(open);
      EXPECT_EQ(open.opened != nullptr, open.result == 0) << open.result;
      EXPECT_TRUE(open.result == 0 || is_lack_of_memory(static_cast<int>(-open.result)))
          << open.result;
      if (open.opened == nullptr) return;
      Operation close{.kind = Kind::close, .file = open.opened.release()};
      driver.run(close);
    });
    EXPECT_TRUE(eventually([&] { return ceph.files() == 0; })) << uri;
  }
}

// Each queue has one of its own for each other storage, from its first call on.
TEST_F(SingleAllocations, TheFirstCallToAnotherStorageEnds) {
  const ScratchDirectory scratch;
  write_file(scratch / "ceph.conf", "/\n");
  CephMockFaults ceph;
  const std::string uri = "ceph:" + (scratch / "file") + "?conf=" + (scratch / "ceph.conf");
  const auto storage = storage::make_router({.ceph_library = ceph_mock});
  StorageDriver opener(*storage);
  for (const Kind kind : {Kind::path_status, Kind::close}) {
    fail_each([&] {
      Operation call{.kind = kind, .path = uri.c_str()};
      std::unique_ptr<StorageDriver> driver;
      {
        const PointsHere not_here(false);
        const std::uint64_t n = allocations().disarm();
        storage::File* file = opener.must_open(uri, O_RDWR | O_CREAT);
        if (kind == Kind::close) {
          call.file = file;
        } else {
          opener.close(file);
        }
        driver = std::make_unique<StorageDriver>(*storage);
        allocations().arm(n);
      }
      EXPECT_NO_THROW(driver->run(call));
      EXPECT_TRUE(call.result == 0 || is_lack_of_memory(static_cast<int>(-call.result)))
          << call.result;
    });
    EXPECT_TRUE(eventually([&] { return ceph.files() == 0; }));
  }
}

// A file for which there is no memory fails alone: others of the job read from its list.
TEST_F(SingleAllocations, AJobReadsAllItsFiles) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", "written");
  const auto storage = storage::make_router({});
  const auto slabs = std::make_shared<bulk::SlabPool>();
  const std::vector<std::string> paths(3, scratch / "file");
  fail_each([&] {
    bulk::Lane lane(*storage, *slabs);
    bulk::FilesJob job(paths);
    bool slow = false;
    ASSERT_NO_THROW(job.read_some(lane, slow));
    job.wait();
    for (const bulk::Contents& one : job.contents())
      EXPECT_TRUE(one.bytes == 7 || one.error_number == ENOMEM) << one.error_number;
  });
}

// A task for which there is no memory fails its transfer, on the thread of its caller and on a
// worker's, and the next one succeeds.
TEST_F(SingleAllocations, ATransferEnds) {
  const ScratchDirectory scratch(build_folder());
  const std::string wanted = pattern(1 << 20, 1);
  write_file(scratch / "file", wanted);
  for (const bool helps : {true, false}) {
    fail_each([&] {
      bulk::EngineOptions options;
      options.workers = 1;
      options.route = bulk::Route::direct;
      const bulk::Engine engine(options);
      const bulk::File file(engine, scratch / "file", O_RDONLY);
      std::string got(wanted.size(), ' ');
      const auto read = [&] {
        return helps ? file.read_at(got.data(), got.size(), 0)
                     : file.read_at_async(got.data(), got.size(), 0).get();
      };
      try {
        read();
      } catch (const bulk::TransferError& error) {
        EXPECT_TRUE(allocations().struck());
        EXPECT_EQ(error.code().value(), ENOMEM);
        EXPECT_EQ(read(), wanted.size());
      }
      EXPECT_TRUE(same_bytes(got, wanted));
    });
  }
}

// One for which there is no memory runs where it is posted.
TEST_F(SingleAllocations, NoCallbackIsLost) {
  const auto callbacks = std::make_shared<bulk::Callbacks>();
  std::atomic<bool> may_go = false;
  std::atomic<int> ran = 0;
  callbacks->post([&] { eventually([&] { return may_go.load(); }); });
  const std::function<void()> counts = [&] { ++ran; };
  std::uint64_t struck = 0;
  for (int i = 0; i < 100; ++i) {
    std::function<void()> one = counts;
    allocations().arm(1);
    callbacks->post(std::move(one));
    if (allocations().struck()) ++struck;
    allocations().disarm();
  }
  EXPECT_GT(struck, 0U);
  may_go = true;
  callbacks->stop();
  EXPECT_TRUE(eventually([&] { return ran == 100; }));
}

// It binds itself to a CPU first.
TEST_F(SingleAllocations, AThreadOfTheDeviceBeginsWithoutMemory) {
  Runtime runtime(small_runtime(1, 1 << 20));
  fail_each([&] { runtime.run([](DeviceThread&) {}); });
}

// Files that a program leaves open: shutdown() can be called again, and closes them.
TEST_F(SingleAllocations, AShutdownGoesOn) {
  const ScratchDirectory scratch;
  const auto leave_open = [&](Runtime& runtime) {
    runtime.run([&](DeviceThread& self) {
      const int file = self.files.open((scratch / "file").c_str(), O_RDWR | O_CREAT, 0600);
      EXPECT_GT(file, 0);
      EXPECT_GT(self.files.open((scratch / "file").c_str(), O_RDONLY), 0);
      EXPECT_EQ(self.files.pwrite(file, "written", 7, 0), 7);
    });
  };
  const auto make_runtime = [] {
    RuntimeOptions options = small_runtime(1, 1 << 20);
    options.placement = device::Placement::compute;
    return std::make_unique<Runtime>(options);
  };
  leave_open(*make_runtime());
  const Resources before = resources_now();
  for (const bool repeats : {true, false}) {
    fail_each([&] {
      std::unique_ptr<Runtime> runtime;
      {
        const PointsHere not_here(false);
        const std::uint64_t n = allocations().disarm();
        runtime = make_runtime();
        leave_open(*runtime);
        allocations().arm(n);
      }
      if (!repeats) return;
      try {
        runtime->shutdown(std::chrono::seconds(10));
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(allocations().struck());
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_TRUE(runtime->shutdown(patience / 2).finished);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, patience / 4);
      }
    });
    EXPECT_EQ(read_file(scratch / "file"), "written");
    expect_resources(before);
  }
}

}  // namespace
}  // namespace ferry::test
