// Large sequential transfers straight to a storage, several files at once: seconds from the first
// open to the last close, for writes with a sync. The files are URI0, URI1 and so on, with the
// number before any ? of the URI.
#include <memory>

#include <fcntl.h>

#include "micro/benchmark.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace {

using namespace ferry::benchmarks;
using namespace ferry::storage;

constexpr std::uint64_t piece_bytes = 4 << 20;
constexpr std::size_t depth = 4;  // pieces of a file under way

std::string name_of(const std::string& path, std::uint64_t stream) {
  std::string name = path;
  return name.insert(std::min(name.find('?'), name.size()), std::to_string(stream));
}

class Stream {
 public:
  Stream(Storage& storage, bool writes, std::uint64_t bytes)
      : calls_(storage), kind_(writes ? Kind::write : Kind::read), bytes_(bytes) {}

  void run(const std::string& path) {
    const int flags = kind_ == Kind::write ? O_RDWR | O_CREAT : O_RDONLY;
    if (file_.open(path, flags, 0644) != 0) fail("cannot open " + path);
    transfer();
    if (kind_ == Kind::write) check(file_.sync(), 0);
    check(file_.close(), 0);
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

  void transfer() {
    std::size_t under_way = 0;
    for (; under_way < depth && begun_ < bytes_; ++under_way)
      start(under_way);
    while (under_way > 0) {
      const Operation& done = calls_.next();
      const auto slot = static_cast<std::size_t>(&done - operations_.data());
      check(done.result, vectors_[slot].iov_len);
      --under_way;
      if (begun_ < bytes_) {
        start(slot);
        ++under_way;
      }
    }
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

void measure_streams(const BenchmarkOptions& options) {
  const auto storage = make_router();
  storage->describe_path(options.path.c_str());  // becomes a client of the servers
  std::vector<std::unique_ptr<Stream>> work;
  for (std::uint64_t i = 0; i < options.threads; ++i)
    work.push_back(std::make_unique<Stream>(*storage, options.kind == "write", options.bytes));
  const auto run = [&](std::uint64_t i) { work[i]->run(name_of(options.path, i)); };
  report_figure(options.kind, "s", {seconds_on_threads(options.threads, run)});
}

const Subcommand registered("streams", "URI read|write --threads --bytes",
                            "large transfers, a file for each thread, 4 pieces of 4 MiB at once",
                            measure_streams);

}  // namespace
