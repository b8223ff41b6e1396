// A file system that opens files for direct I/O and then refuses its reads with EINVAL, as some do
// for some files and ranges.
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "bulk/bulk_files.hpp"
#include "bulk/scheduler.hpp"
#include "storage/posix/posix.hpp"
#include "support/error_of.hpp"

namespace ferry::bulk::refused_direct_test {
namespace {

using namespace test;

// Mounted files, where each direct read is refused.
class RefusingStorage final : public storage::Storage {
 public:
  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<RefusingQueue>(*this, files_->make_queue(options));
  }
  storage::Description describe() const override { return files_->describe(); }

  std::atomic<unsigned> refused{0};

 private:
  class RefusingQueue final : public storage::Queue {
   public:
    RefusingQueue(RefusingStorage& storage, std::unique_ptr<storage::Queue> files)
        : storage_(storage), files_(std::move(files)) {}
    void submit(storage::Operation& operation) override { files_->submit(operation); }
    void flush() override { files_->flush(); }
    storage::Operation* reap() override {
      storage::Operation* operation = files_->reap();
      if (operation != nullptr) storage_.look(*operation);
      return operation;
    }
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      files_->wait(seen, timeout);
    }
    void cancel(storage::Operation& operation) override { files_->cancel(operation); }
    storage::QueueStatistics statistics() const override { return files_->statistics(); }

   private:
    RefusingStorage& storage_;
    const std::unique_ptr<storage::Queue> files_;
  };

  void look(storage::Operation& operation) {
    const std::lock_guard lock(mutex_);
    if (operation.opened != nullptr && (operation.flags & O_DIRECT) != 0)
      direct_.insert(operation.opened.get());
    if (operation.kind == storage::Kind::close) direct_.erase(operation.file);
    if (operation.kind == storage::Kind::read && direct_.contains(operation.file)) {
      operation.result = -EINVAL;
      ++refused;
    }
  }

  const std::unique_ptr<storage::Storage> files_ = storage::make_posix(StorageEngine::automatic);
  std::mutex mutex_;
  std::set<const storage::File*> direct_;
};

struct RefusedDirect : GpuFile {
  static constexpr unsigned depth = 3;
  RefusingStorage* storage = new RefusingStorage;
  Engine engine{std::make_shared<Scheduler>(
      EngineOptions{.workers = 1, .depth = depth, .task_bytes = 64 << 10, .route = Route::direct},
      std::unique_ptr<storage::Storage>(storage))};
};

TEST_F(RefusedDirect, IsReadThroughThePageCache) {
  const std::string wanted = made(2 << 20 | 777, 1);
  for (const std::size_t at : {0UL, 1UL}) {  // into aligned memory, and by way of slots
    const File file(engine, path);
    std::string memory(wanted.size() + 8192, untouched);
    char* to = memory.data() + 4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 + at;
    const unsigned before = storage->refused;
    ASSERT_EQ(file.read_at(to, wanted.size(), 0), wanted.size());
    EXPECT_TRUE(same_bytes({to, wanted.size()}, wanted));
    EXPECT_EQ(to[wanted.size()], untouched);
    // What was in flight was refused, and nothing is tried again.
    EXPECT_GT(storage->refused, before);
    const unsigned tried = storage->refused;
    EXPECT_EQ(file.read_at(to, wanted.size() - 5, 5), wanted.size() - 5);
    EXPECT_TRUE(same_bytes({to, wanted.size() - 5}, std::string_view(wanted).substr(5)));
    EXPECT_EQ(storage->refused, tried);
  }
  EXPECT_EQ(engine.statistics().failed_parts, 0U);
}

TEST_F(RefusedDirect, IsReadIntoAGpuThroughThePageCache) {
  const std::string wanted = made(3 << 20 | 777, 2);
  const File file(engine, path);
  expect_read(file, wanted);
  EXPECT_GT(storage->refused, 0U);
  const unsigned tried = storage->refused;
  expect_ranges(file, wanted, [] {});
  EXPECT_EQ(storage->refused, tried);
}

TEST_F(RefusedDirect, IsAnErrorOfAFileThatAskedForIt) {
  made(1 << 20, 3);
  const File file(engine, path, O_RDONLY | O_DIRECT);
  std::string memory(1 << 20, untouched);
  EXPECT_EQ(error_of([&] { file.read_at(memory.data(), memory.size(), 0); }), EINVAL);
}

}  // namespace
}  // namespace ferry::bulk::refused_direct_test
