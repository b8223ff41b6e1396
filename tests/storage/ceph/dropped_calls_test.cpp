// Calls of storage `ceph` that are dropped before they begin, with the last reference to a file or
// a client. Whoever drops one does not wait for the library, which closes it later. On the mock of
// libcephfs.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"
#include "support/no_threads.hpp"

namespace ferry::storage::ceph_dropped_calls_test {
namespace {

using test::eventually;
using test::NoThreads;
using test::StorageDriver;

constexpr std::size_t threads_of_pool = 16;

class CephDroppedCalls : public test::ClientMock {
 protected:
  CephDroppedCalls() {
    test::write_file(configuration, "/\n");
    test::write_file(path("f"), "abc");
    test::write_file(path("other"), memory);
    EXPECT_TRUE(everything_is_closed()) << "by the tests before";
    mistakes_before_ = faults.mistakes();
    use(make_router({.ceph_library = test::ceph_mock}));
  }
  ~CephDroppedCalls() override {
    faults.hang("");
    faults.forget_reads(false);
    driver.reset();
    storage.reset();
    EXPECT_TRUE(everything_is_closed());
    EXPECT_EQ(faults.mistakes(), mistakes_before_) << "each is closed once, before its client ends";
  }

  std::string at(const std::string& name, int timeout_s = 1) const {
    return "ceph:" + path(name) + "?conf=" + configuration +
           "&timeout=" + std::to_string(timeout_s);
  }
  bool everything_is_closed() {
    return eventually([&] { return faults.files() == 0 && faults.clients() == 0; });
  }
  bool is_open(int files) {
    return eventually([&] { return faults.files() == files; });
  }
  bool is_in_the_library(int calls) {
    return eventually([&] { return faults.inside() == calls; });
  }

  // Whether the work ends while the library hangs. If not, the library returns.
  template <class Work>
  bool ends(const Work& work) {
    std::atomic<bool> over{false};
    std::thread thread([&] {
      work();
      over = true;
    });
    const bool in_time = eventually([&] { return over.load(); }, test::patience / 4);
    if (!in_time) faults.hang("");
    thread.join();
    return in_time;
  }
  bool serves(File* other) {
    return ends([&] { EXPECT_TRUE(driver->finds(other, "xxx", arena.data())); });
  }
  // A close that is refused because there is no thread.
  bool drops_for_want_of_a_thread(File* file) {
    await_late_calls();
    return ends([&] {
      const NoThreads none;
      EXPECT_EQ(driver->close(file), -EAGAIN);
    });
  }
  // Reads of that file which hang on every thread of the pool.
  test::Transfers occupy(StorageDriver& holder, File* other) {
    faults.hang("ceph_read ceph_close");
    auto reads = holder.start_pieces(Kind::read, other, memory.data(), 1, threads_of_pool);
    EXPECT_TRUE(is_in_the_library(threads_of_pool));
    return reads;
  }
  // They return; closes hang.
  bool go_on(StorageDriver& holder) {
    faults.hang("ceph_close");
    return ends([&] { holder.expect_next(threads_of_pool, 1); });
  }

  const std::string configuration = directory / "ceph.conf";
  test::CephMockFaults faults;

 private:
  int mistakes_before_ = 0;
};

// Dropped by the thread of its queue.
TEST_F(CephDroppedCalls, ARefusedCloseHoldsNobodyUp) {
  File* file = driver->must_open(at("f", patient_s), O_RDONLY);
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  faults.hang("ceph_close");
  EXPECT_TRUE(drops_for_want_of_a_thread(file));
  EXPECT_EQ(faults.inside(), 0) << "there is no thread for it";
  EXPECT_TRUE(serves(other));
  EXPECT_TRUE(is_in_the_library(1)) << "that one's worker has started a thread";
  EXPECT_TRUE(serves(other));
  EXPECT_EQ(faults.files(), 2);
  faults.hang("");
  EXPECT_TRUE(is_open(1));
}

// Dropped by the pool's watcher, under the pool's mutex, or by the thread of its queue.
TEST_F(CephDroppedCalls, ACloseWhoseTimeIsUpHoldsNobodyUp) {
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  File* file = driver->must_open(at("f"), O_RDONLY);
  StorageDriver holder(*storage);
  const auto reads = occupy(holder, other);
  EXPECT_TRUE(ends([&] { EXPECT_EQ(driver->close(file), -ETIMEDOUT); }));
  EXPECT_TRUE(go_on(holder));
  EXPECT_TRUE(serves(other));
  EXPECT_TRUE(is_in_the_library(1));
  EXPECT_EQ(faults.files(), 2);
  faults.hang("");
  EXPECT_TRUE(is_open(1));
}

// Dropped by a worker, under the pool's mutex.
TEST_F(CephDroppedCalls, ClosesOfAQueueThatEndsHoldNobodyUp) {
  constexpr int count = 10;
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  auto closing = std::make_unique<StorageDriver>(*storage);
  std::vector<Operation> closes(count);
  for (Operation& close : closes) {
    close.kind = Kind::close;
    close.file = driver->must_open(at("f", patient_s), O_RDONLY);
  }
  StorageDriver holder(*storage);
  const auto reads = occupy(holder, other);
  for (Operation& close : closes)
    closing->start(close);
  EXPECT_TRUE(ends([&] { closing.reset(); }));
  for (const Operation& close : closes)
    EXPECT_EQ(close.result, -ECANCELED);
  EXPECT_TRUE(go_on(holder));
  EXPECT_TRUE(serves(other));
  EXPECT_TRUE(is_in_the_library(1)) << "one after the other";
  EXPECT_EQ(faults.files(), count + 1);
  faults.hang("");
  EXPECT_TRUE(is_open(1));
}

// They come back when their files are of no use any more.
TEST_F(CephDroppedCalls, LateCallsCloseTheirFiles) {
  File* file = driver->must_open(at("f"), O_RDONLY);
  faults.hang("ceph_read ceph_fstatx");
  EXPECT_EQ(driver->pread(file, memory.data(), 1, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->try_open(at("f"), O_RDONLY), -ETIMEDOUT);
  EXPECT_EQ(faults.files(), 2);
  faults.hang("");
  EXPECT_TRUE(is_open(0));
}

TEST_F(CephDroppedCalls, TheStorageCanBeLeftWhileACloseHangs) {
  File* file = driver->must_open(at("f"), O_RDONLY);
  faults.hang("ceph_close");
  EXPECT_TRUE(drops_for_want_of_a_thread(file));
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f")), 0);
  EXPECT_TRUE(is_in_the_library(1));
  driver.reset();
  EXPECT_TRUE(ends([&] { storage.reset(); }));
  EXPECT_EQ(faults.files(), 1);
  EXPECT_EQ(faults.clients(), 1);
  faults.hang("");
  EXPECT_TRUE(everything_is_closed());
}

// No call comes whose worker could start a thread.
TEST_F(CephDroppedCalls, TheEndOfTheStorageClosesWhatIsLeft) {
  File* file = driver->must_open(at("f", patient_s), O_RDONLY);
  EXPECT_TRUE(drops_for_want_of_a_thread(file));
  EXPECT_EQ(faults.files(), 1);
  driver.reset();
  storage.reset();
  EXPECT_EQ(faults.files(), 0) << "it waits";
  EXPECT_EQ(faults.clients(), 0);
}

// The last file of a client that the servers evicted is closed. The pool still has a thread.
TEST_F(CephDroppedCalls, AnUnmountWithoutAThreadHoldsNobodyUp) {
  File* file = driver->must_open(at("f", patient_s), O_RDONLY);
  faults.evict();
  EXPECT_EQ(driver->pread(file, memory.data(), 1, 0), -ESHUTDOWN);
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  EXPECT_EQ(faults.clients(), 2);
  faults.hang("ceph_unmount");
  EXPECT_TRUE(ends([&] {
    const NoThreads none;
    driver->close(file);
  }));
  EXPECT_EQ(faults.inside(), 0);
  EXPECT_TRUE(serves(other));
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f", patient_s)), 0);
  EXPECT_TRUE(is_in_the_library(1));
  EXPECT_TRUE(serves(other));
  faults.hang("");
  EXPECT_TRUE(eventually([&] { return faults.clients() == 1; }));
}

// The client is given back at once, as there is no thread for it.
TEST_F(CephDroppedCalls, AClientThatCannotBeMadeNeedsNoThread) {
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  {
    const NoThreads none;
    const std::int64_t error =
        driver->path_call(Kind::path_status, "ceph:/f?conf=" + path("missing"));
    EXPECT_TRUE(error == -EINVAL || error == -EAGAIN) << error;
  }
  EXPECT_TRUE(serves(other));
  EXPECT_EQ(faults.clients(), 1);
}

// A read that takes long has a thread ask for the file's size.
TEST_F(CephDroppedCalls, AFileIsClosedAfterAQuestionThatHangs) {
  File* file = driver->must_open(at("f", patient_s), O_RDONLY);
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  faults.hang("ceph_read ceph_fstatx");
  test::DrivenTransfer read(Kind::read, file, arena.data(), 3);
  driver->start(read);
  ASSERT_TRUE(is_in_the_library(2));
  faults.hang("ceph_fstatx");
  EXPECT_EQ(driver->next().result, 3);
  EXPECT_TRUE(ends([&] { EXPECT_EQ(driver->close(file), 0); }));
  EXPECT_TRUE(serves(other));
  EXPECT_EQ(faults.files(), 2);
  faults.hang("");
  EXPECT_TRUE(is_open(1));
}

TEST_F(CephDroppedCalls, AForgottenReadIsWokenAfterTheClose) {
  File* file = driver->must_open(at("f", patient_s), O_RDONLY);
  faults.forget_reads(true);
  test::DrivenTransfer read(Kind::read, file, arena.data(), 3);
  driver->start(read);
  ASSERT_TRUE(eventually([&] { return faults.sleeping() == 1; }));
  driver->queue().cancel(read);
  EXPECT_EQ(driver->next().result, -ECANCELED);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_TRUE(is_open(0));
}

// The read that closes it still counts as one that takes long.
TEST_F(CephDroppedCalls, NobodyAsksForAFileThatIsBeingClosed) {
  File* file = driver->must_open(at("f", patient_s), O_RDONLY);
  const auto other = must_open(at("other", patient_s), O_RDONLY);
  faults.hang("ceph_read ceph_close");
  test::DrivenTransfer read(Kind::read, file, arena.data() + 100, 3);
  driver->start(read);
  ASSERT_TRUE(is_in_the_library(1));
  driver->queue().cancel(read);
  EXPECT_EQ(driver->next().result, -ECANCELED);
  EXPECT_EQ(driver->close(file), 0);
  faults.hang("ceph_close");
  faults.forget_reads(true);
  for (int times = 0; times < 2; ++times)
    EXPECT_TRUE(serves(other)) << "after a question";
  EXPECT_TRUE(is_in_the_library(1));
  faults.hang("");
  EXPECT_TRUE(is_open(1));
}

}  // namespace
}  // namespace ferry::storage::ceph_dropped_calls_test
