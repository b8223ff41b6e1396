// Random calls against a model of the file in memory, byte for byte (after the idea of fsx).
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/servers.hpp"

namespace ferry {
namespace {

using device::IoVector;
using device::Pending;
using device::Transfer;
using test::Random;

constexpr device::Placement placements[] = {device::Placement::host, device::Placement::compute,
                                            device::Placement::service,
                                            device::Placement::automatic};

// One file with its model, worked on by one thread.
class Model {
 public:
  static constexpr std::uint64_t size_max = 300'000;
  static constexpr std::uint64_t memory_bytes = 1 << 20;

  // `name`: what the calls are given; `path`: where this machine has the file. `mixed`: every call
  // by another placement.
  Model(std::string name, std::string path, char* arena, Random random, bool mixed)
      : name_(std::move(name)),
        path_(std::move(path)),
        arena_(arena),
        outside_(memory_bytes),
        random_(random),
        mixed_(mixed) {}

  void run(DeviceThread& self, std::uint64_t operations) {
    files_ = &self.files;
    reopen(O_CREAT | O_TRUNC);
    for (std::uint64_t i = 0; i < operations && !failed_; ++i) {
      step();
      if (i % 2000 == 1999) compare_whole();
    }
    compare_whole();
    if (files_->close(file_) != 0) fail("close");
  }
  const std::string& failure() const { return failure_; }

 private:
  void step() {
    if (mixed_) {
      files_->use(random_.pick(placements));
    }
    switch (random_.below(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return pread();
      case 5:
      case 6:
      case 7:
      case 8:
        return pwrite();
      case 9:
      case 10:
        return preadv();
      case 11:
      case 12:
        return pwritev();
      case 13:
      case 14:
        return read_batch();
      case 15:
        return write_batch();
      case 16:
      case 17:
        return read();
      case 18:
      case 19:
        return write();
      case 20:
        return truncate();
      case 21:
        return status();
      case 22:
        if (random_.one_in(10)) return reopen(random_.one_in(4) ? O_TRUNC : 0);
        return pread();
      default:
        if (random_.one_in(200)) return check("fsync", files_->fsync(file_), 0);
        if (random_.one_in(20)) return check("flush", files_->flush(file_), 0);
        return pwrite();
    }
  }

  // Near the places where things go wrong: page and sector borders, the end of the file.
  std::uint64_t edge(std::uint64_t limit) {
    const std::uint64_t edges[] = {0, 512, 4096, 8192, 65'536, 131'072, model_.size(), 262'144};
    std::uint64_t value = 0;
    switch (random_.below(4)) {
      case 0:
        value = random_.below(limit + 1);
        break;
      case 1:
        value = random_.pick(edges);
        break;
      case 2:
        value = random_.pick(edges) + random_.below(9);
        value -= std::min<std::uint64_t>(value, 4);
        break;
      default:
        value = random_.below(limit / 4096 + 1) * 4096;
        break;
    }
    return std::min(value, limit);
  }
  std::uint64_t length() {
    if (random_.one_in(12)) return edge(size_max / 2);
    if (random_.one_in(2)) return std::min<std::uint64_t>(edge(16'384), 16'384);
    return random_.below(3000);
  }
  char* memory(std::uint64_t bytes) {
    const std::uint64_t room = memory_bytes - bytes;
    std::uint64_t at = random_.below(std::min<std::uint64_t>(room, 20'000) + 1);
    if (random_.one_in(2)) at = at / 4096 * 4096;
    return (random_.below(3) == 0 ? outside_.data() : arena_) + at;
  }

  std::string fresh(std::uint64_t bytes) { return test::pattern(bytes, random_.bits()); }
  void put(std::uint64_t offset, const std::string& bytes) {
    if (bytes.empty()) return;
    if (model_.size() < offset + bytes.size()) model_.resize(offset + bytes.size());
    model_.replace(offset, bytes.size(), bytes);
  }
  std::string_view expected(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset >= model_.size()) return {};
    return std::string_view(model_).substr(offset, bytes);
  }
  bool fits(std::uint64_t offset, std::uint64_t bytes) const {
    return (append_ ? model_.size() : offset) + bytes <= size_max;
  }
  // Where a write lands.
  std::uint64_t target(std::uint64_t offset) const { return append_ ? model_.size() : offset; }

  void pread() {
    const std::uint64_t offset = edge(size_max);
    const std::uint64_t bytes = length();
    char* to = memory(bytes);
    check_read("pread", offset, bytes, to,
               files_->pread(file_, to, bytes, static_cast<std::int64_t>(offset)));
  }
  void pwrite() {
    const std::uint64_t offset = edge(size_max);
    const std::string bytes = fresh(length());
    if (!fits(offset, bytes.size())) return;
    char* from = memory(bytes.size());
    std::memcpy(from, bytes.data(), bytes.size());
    check("pwrite", files_->pwrite(file_, from, bytes.size(), static_cast<std::int64_t>(offset)),
          static_cast<std::int64_t>(bytes.size()));
    put(target(offset), bytes);
  }
  // Pieces that lie one behind the other in memory, with gaps.
  std::vector<IoVector> pieces(std::uint64_t limit) {
    std::vector<IoVector> made;
    const std::uint64_t count = random_.one_in(20) ? random_.below(200) : random_.below(6);
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t most = limit / (count + 1);
      std::uint64_t bytes = random_.one_in(5) ? 0 : random_.below(most + 1);
      if (random_.one_in(2)) bytes = bytes / 4096 * 4096;
      const bool inside = vector_inside_ || random_.one_in(2);
      made.push_back(IoVector{(inside ? arena_ : outside_.data()) + at, bytes});
      at += (bytes + 4095) / 4096 * 4096 + (random_.one_in(3) ? 17 : 0);
    }
    vector_inside_ = !vector_inside_;
    return made;
  }
  void preadv() {
    const auto into = pieces(100'000);
    const std::uint64_t offset = edge(size_max);
    std::uint64_t bytes = 0;
    for (const IoVector& piece : into)
      bytes += piece.bytes;
    const std::int64_t got = files_->preadv(file_, into.data(), static_cast<int>(into.size()),
                                            static_cast<std::int64_t>(offset));
    std::string gathered;
    for (const IoVector& piece : into)
      gathered.append(static_cast<const char*>(piece.base), piece.bytes);
    check_read("preadv", offset, bytes, gathered.data(), got);
  }
  void pwritev() {
    const auto from = pieces(60'000);
    const std::uint64_t offset = edge(size_max);
    std::string bytes;
    for (const IoVector& piece : from) {
      const std::string part = fresh(piece.bytes);
      std::memcpy(piece.base, part.data(), part.size());
      bytes += part;
    }
    if (!fits(offset, bytes.size())) return;
    check("pwritev",
          files_->pwritev(file_, from.data(), static_cast<int>(from.size()),
                          static_cast<std::int64_t>(offset)),
          static_cast<std::int64_t>(bytes.size()));
    put(target(offset), bytes);
  }
  void read_batch() {
    std::vector<Transfer> transfers;
    std::uint64_t at = 0;
    for (std::uint64_t count = random_.below(40); count > 0; --count) {
      const std::uint64_t bytes = random_.one_in(4) ? 4096 : random_.below(9000);
      char* base = random_.one_in(6) ? outside_.data() : arena_;
      transfers.push_back(
          Transfer{file_, base + at, bytes, static_cast<std::int64_t>(edge(size_max))});
      at += random_.one_in(2) ? bytes : (bytes + 4095) / 4096 * 4096;
    }
    std::vector<Pending> pending(transfers.size());
    files_->pread_batch(transfers.data(), static_cast<std::uint32_t>(transfers.size()),
                        pending.data());
    finish_in_any_order(transfers, pending, true);
  }
  void write_batch() {
    if (append_) return;  // in which order they land is not said
    std::vector<Transfer> transfers;
    std::vector<std::string> data;
    std::uint64_t offset = edge(size_max / 2);
    std::uint64_t at = 0;
    for (std::uint64_t count = random_.below(20); count > 0; --count) {
      data.push_back(fresh(random_.one_in(4) ? 4096 : random_.below(5000)));
      if (!fits(offset, data.back().size())) break;
      char* from = (random_.one_in(6) ? outside_.data() : arena_) + at;
      std::memcpy(from, data.back().data(), data.back().size());
      transfers.push_back(
          Transfer{file_, from, data.back().size(), static_cast<std::int64_t>(offset)});
      put(offset, data.back());
      offset += data.back().size() + random_.below(3) * 100;  // disjoint
      at += (data.back().size() + 4095) / 4096 * 4096;
    }
    std::vector<Pending> pending(transfers.size());
    if (random_.one_in(2)) {
      files_->pwrite_batch(transfers.data(), static_cast<std::uint32_t>(transfers.size()),
                           pending.data());
    } else {
      for (std::size_t i = 0; i < transfers.size(); ++i) {
        const Transfer& one = transfers[i];
        pending[i] = files_->pwrite_async(file_, one.buffer, one.bytes, one.offset);
      }
    }
    finish_in_any_order(transfers, pending, false);
  }
  void finish_in_any_order(const std::vector<Transfer>& transfers, std::vector<Pending>& pending,
                           bool reading) {
    std::vector<std::size_t> order(transfers.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    random_.shuffle(order);
    for (const std::size_t i : order) {
      const Transfer& one = transfers[i];
      const std::int64_t got = files_->wait(pending[i]);
      if (reading) {
        check_read("pread_batch", static_cast<std::uint64_t>(one.offset), one.bytes,
                   static_cast<char*>(one.buffer), got);
      } else {
        check("pwrite_async", got, static_cast<std::int64_t>(one.bytes));
      }
    }
  }
  void read() {
    const std::uint64_t bytes = length();
    char* to = memory(bytes);
    const std::int64_t got = files_->read(file_, to, bytes);
    check_read("read", position_, bytes, to, got);
    if (got > 0) position_ += static_cast<std::uint64_t>(got);
  }
  void write() {
    const std::string bytes = fresh(length());
    if (!fits(position_, bytes.size())) return;
    char* from = memory(bytes.size());
    std::memcpy(from, bytes.data(), bytes.size());
    check("write", files_->write(file_, from, bytes.size()),
          static_cast<std::int64_t>(bytes.size()));
    if (bytes.empty()) return;
    const std::uint64_t at = target(position_);
    put(at, bytes);
    position_ = at + bytes.size();
  }
  void truncate() {
    const std::uint64_t size = edge(size_max);
    check("ftruncate", files_->ftruncate(file_, static_cast<std::int64_t>(size)), 0);
    model_.resize(size);
  }
  void status() {
    device::FileStatus got{};
    check("fstat",
          random_.one_in(2) ? files_->fstat(file_, &got) : files_->stat(name_.c_str(), &got), 0);
    check("the size", static_cast<std::int64_t>(got.size_bytes),
          static_cast<std::int64_t>(model_.size()));
  }
  void reopen(int extra) {
    if (file_ > 0) check("close", files_->close(file_), 0);
    int flags = O_RDWR | extra;
    append_ = random_.one_in(4);
    if (append_) flags |= O_APPEND;
    if (random_.one_in(2)) flags |= O_DIRECT;
    file_ = files_->open(name_.c_str(), flags, 0644);
    if (file_ == -EINVAL) file_ = files_->open(name_.c_str(), flags & ~O_DIRECT, 0644);
    if (file_ <= 0) fail("open: " + std::to_string(file_));
    position_ = 0;
    if ((extra & O_TRUNC) != 0) model_.clear();
    log("open " + std::to_string(flags));
  }

  void compare_whole() {
    check("flush", files_->flush(file_), 0);
    const std::string all = test::read_file(path_);
    if (all != model_)
      fail(std::string("the file differs: ") + test::same_bytes(all, model_).message());
  }
  void check_read(const char* call, std::uint64_t offset, std::uint64_t bytes, const char* got,
                  std::int64_t result) {
    const std::string_view wanted = expected(offset, bytes);
    check(call, result, static_cast<std::int64_t>(wanted.size()));
    log(std::string(call) + " " + std::to_string(bytes) + " at " + std::to_string(offset));
    if (!failed_ && std::memcmp(got, wanted.data(), wanted.size()) != 0) {
      fail(std::string(call) + " " + std::to_string(bytes) + " at " + std::to_string(offset) +
           ": " + test::same_bytes({got, wanted.size()}, wanted).message());
    }
  }
  void check(const char* call, std::int64_t result, std::int64_t wanted) {
    if (result == wanted) return;
    fail(std::string(call) + ": " + std::to_string(result) + " instead of " +
         std::to_string(wanted));
  }
  void log(std::string what) {
    history_.push_back(std::move(what));
    if (history_.size() > 12) history_.erase(history_.begin());
  }
  void fail(const std::string& what) {
    if (failed_) return;
    failed_ = true;
    failure_ = what + (append_ ? " (appending)" : "") + ", after:";
    for (const std::string& line : history_)
      failure_ += "\n  " + line;
  }

  const std::string name_;
  const std::string path_;
  char* const arena_;
  std::vector<char> outside_;
  Random random_;
  const bool mixed_;
  device::FileCalls<device::ThreadGroup>* files_ = nullptr;
  int file_ = 0;
  bool append_ = false;
  bool vector_inside_ = false;
  std::uint64_t position_ = 0;
  std::string model_;
  std::vector<std::string> history_;
  bool failed_ = false;
  std::string failure_;
};

class RandomCalls : public test::OnRuntime {
 protected:
  // In a new folder of `parent`, which a server may serve.
  void run(const std::string& parent, std::uint64_t operations,
           const std::optional<test::ServedFolder>& server = {}) {
    const test::ScratchDirectory directory(parent);
    const std::string folder = std::filesystem::path(directory.path()).filename();
    Random random;
    const unsigned threads = runtime->info().device_threads;
    const Buffer arena = runtime->allocate(threads * Model::memory_bytes);
    std::vector<std::unique_ptr<Model>> models;
    for (unsigned i = 0; i < threads; ++i) {
      const std::string file = std::to_string(i);
      models.push_back(std::make_unique<Model>(
          server ? server->uri_of(folder + "/" + file) : directory / file, directory / file,
          arena.as<char>() + i * Model::memory_bytes, random.fork(), GetParam().cache_pages > 0));
    }
    runtime->run([&](DeviceThread& self) { models[self.index]->run(self, operations / threads); });
    for (const auto& model : models)
      EXPECT_EQ(model->failure(), "");
  }
};

TEST_P(RandomCalls, EachThreadOnItsOwnFile) {
  run(std::filesystem::temp_directory_path().string(), test::scaled(60'000));
}

TEST_P(RandomCalls, OnAFileSystemInMemory) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm is not there";
  run("/dev/shm", test::scaled(40'000));
}

TEST_P(RandomCalls, OnAnNfsServer) {
  const auto server = test::served_folder("NFS");
  if (!server) GTEST_SKIP() << test::no_server("NFS");
  run(server->directory, test::scaled(6000), server);
}

TEST_P(RandomCalls, OnACephCluster) {
  const auto server = test::served_folder("CEPH");
  if (!server) GTEST_SKIP() << test::no_server("CEPH");
  run(server->directory, test::scaled(3000), server);
}

// All threads on one file, each on stripes of its own that lie between those of the others, down to
// neighbouring bytes.
TEST_P(RandomCalls, AllThreadsOnOneFile) {
  const test::ScratchDirectory directory;
  const std::string path = directory / "shared";
  test::write_file(path, "");
  Random random;
  const unsigned threads = runtime->info().device_threads;
  for (const std::uint64_t stripe : std::vector<std::uint64_t>{1, 100, 512, 4096, 5000, 65'536}) {
    const std::uint64_t stripes = std::min<std::uint64_t>(64, (1 << 21) / stripe);
    std::vector<std::string> models(threads, std::string(stripe * stripes, '\0'));
    std::vector<Random> randoms;
    for (unsigned i = 0; i < threads; ++i)
      randoms.push_back(random.fork());
    const Buffer arena = runtime->allocate(threads * 2 * 65'536);
    std::atomic<int> wrong{0};
    {
      // Long enough from the beginning, so that every read is a full one.
      const test::Descriptor fd(::open(path.c_str(), O_RDWR | O_TRUNC));
      ASSERT_EQ(ftruncate(fd, static_cast<off_t>(stripe * stripes * threads)), 0);
    }
    runtime->run([&](DeviceThread& self) {
      Random& own = randoms[self.index];
      std::string& model = models[self.index];
      const int flags = O_RDWR | (self.index % 2 == 1 && stripe % 4096 == 0 ? O_DIRECT : 0);
      int file = self.files.open(path.c_str(), flags);
      if (file == -EINVAL) file = self.files.open(path.c_str(), O_RDWR);
      std::vector<char> outside(65'536);
      char* inside = arena.as<char>() + self.index * 2 * 65'536;
      const std::uint64_t rounds = test::scaled(4000) / threads;
      for (std::uint64_t i = 0; i < rounds && wrong == 0; ++i) {
        const std::uint64_t index = own.below(stripes);
        const auto offset = static_cast<std::int64_t>((index * self.count + self.index) * stripe);
        char* memory = own.one_in(3) ? outside.data() : inside;
        if (own.one_in(2)) {
          self.files.use(own.pick(placements));
        }
        const auto bytes = static_cast<std::int64_t>(stripe);
        if (own.one_in(2)) {
          const std::string data = test::pattern(stripe, own.bits());
          std::memcpy(memory, data.data(), stripe);
          if (self.files.pwrite(file, memory, stripe, offset) != bytes) ++wrong;
          model.replace(index * stripe, stripe, data);
        } else {
          if (self.files.pread(file, memory, stripe, offset) != bytes) ++wrong;
          if (std::memcmp(memory, model.data() + index * stripe, stripe) != 0) ++wrong;
        }
      }
      if (self.files.close(file) != 0) ++wrong;
    });
    ASSERT_EQ(wrong, 0) << "stripes of " << stripe;
    std::string wanted;
    for (std::uint64_t index = 0; index < stripes; ++index) {
      for (unsigned i = 0; i < threads; ++i)
        wanted += models[i].substr(index * stripe, stripe);
    }
    ASSERT_TRUE(test::same_bytes(test::read_file(path), wanted)) << "stripes of " << stripe;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RandomCalls, testing::ValuesIn(test::shapes()), test::shape_name);
// Eviction and write-back all the time, now and then, and never.
INSTANTIATE_TEST_SUITE_P(
    Cached, RandomCalls,
    testing::Values(test::Shape{"tiny", StorageEngine::automatic, 2, 1, 0, false, 5},
                    test::Shape{"many", StorageEngine::automatic, 4, 2, 3, false, 50},
                    test::Shape{"large", StorageEngine::threads, 2, 1, 0, false, 2000},
                    test::Shape{"one_cpu", StorageEngine::automatic, 2, 1, 0, true, 20},
                    test::Shape{"service_thread", StorageEngine::automatic, 2, 1, 0, false, 20, 1},
                    test::Shape{"service_threads", StorageEngine::automatic, 3, 2, 0, false, 8, 2}),
    test::shape_name);

}  // namespace
}  // namespace ferry
