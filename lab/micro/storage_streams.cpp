// Large sequential transfers straight to a storage, several files at once: seconds for all of them,
// from the opening of the first to the closing of the last, writes with a sync.
//
//   bench_storage_streams read|write STREAMS BYTES PATH    files PATH0, PATH1, ... where the name
//   of
//                                                          PATH ends, before any ? of a URI
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace {

using namespace ferry::storage;

constexpr std::uint64_t piece_bytes = 4 << 20;
constexpr std::size_t depth = 4;  // pieces of a file under way

std::string name_of(const std::string& path, unsigned stream) {
  std::string name = path;
  return name.insert(std::min(name.find('?'), name.size()), std::to_string(stream));
}

class Stream {
 public:
  Stream(Storage& storage, bool writes, std::uint64_t bytes)
      : calls_(storage), kind_(writes ? Kind::write : Kind::read), bytes_(bytes) {}

  // False: something failed.
  bool run(const std::string& path) {
    const int flags = kind_ == Kind::write ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY;
    if (file_.open(path, flags, 0644) != 0) return false;
    const bool moved = transfer();
    const bool synced = kind_ == Kind::read || file_.sync() == 0;
    return file_.close() == 0 && moved && synced;
  }

 private:
  void start(std::size_t slot) {
    vectors_[slot] = {memory_[slot].data(), std::min(piece_bytes, bytes_ - begun_)};
    operations_[slot] = {.kind = kind_,
                         .file = file_.get(),
                         .sync_follows = kind_ == Kind::write,
                         .offset = static_cast<std::int64_t>(begun_),
                         .vectors = {&vectors_[slot], 1}};
    begun_ += vectors_[slot].iov_len;
    calls_.queue().submit(operations_[slot]);
    calls_.queue().flush();
  }

  bool transfer() {
    std::size_t under_way = 0;
    bool all = true;
    for (; under_way < depth && begun_ < bytes_; ++under_way)
      start(under_way);
    while (under_way > 0) {
      const Operation& done = calls_.next();
      const auto slot = static_cast<std::size_t>(&done - operations_.data());
      all = all && done.result == static_cast<std::int64_t>(vectors_[slot].iov_len);
      --under_way;
      if (all && begun_ < bytes_) {
        start(slot);
        ++under_way;
      }
    }
    return all;
  }

  SyncCalls calls_;
  SyncFile file_{calls_};
  const Kind kind_;
  const std::uint64_t bytes_;
  std::uint64_t begun_ = 0;
  std::vector<std::vector<char>> memory_{depth, std::vector<char>(piece_bytes, 'x')};
  std::vector<iovec> vectors_{depth};
  std::vector<Operation> operations_{depth};
};

}  // namespace

int main(int count, char** arguments) {
  unsigned streams = 0;
  std::uint64_t bytes = 0;
  const auto number = [](const char* text, auto& value) {
    std::from_chars(text, text + std::strlen(text), value);
  };
  if (count == 5) {
    number(arguments[2], streams);
    number(arguments[3], bytes);
  }
  if (streams == 0 || bytes == 0) {
    std::cerr << "usage: bench_storage_streams read|write STREAMS BYTES PATH\n";
    return 2;
  }
  const bool writes = std::strcmp(arguments[1], "write") == 0;
  const auto storage = make_router();
  storage->describe_path(arguments[4]);  // becomes a client of the servers
  std::vector<std::unique_ptr<Stream>> work;
  for (unsigned i = 0; i < streams; ++i)
    work.push_back(std::make_unique<Stream>(*storage, writes, bytes));
  std::atomic<bool> all{true};
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < streams; ++i) {
    threads.emplace_back([&, i] {
      if (!work[i]->run(name_of(arguments[4], i))) all = false;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::cout << elapsed.count() << '\n';
  if (!all) std::cerr << "bench_storage_streams: a transfer failed\n";
  return all ? 0 : 1;
}
