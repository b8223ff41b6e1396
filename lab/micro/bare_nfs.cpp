// The irreducible work of moving a file to or from an NFS server: asynchronous calls of libnfs, as
// many in flight as told, over as many connections as told, each with a thread of its own. What is
// read stays where libnfs has it, and what is written is one buffer again and again.
//
//   bench_bare_nfs read|write CONNECTIONS DEPTH BYTES URL
//
// Prints the seconds from opening to closing; a write ends with a commit. The connections are there
// before, and DEPTH requests of 1 MiB (or what the server takes) are under way on each.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <poll.h>
#include <sys/time.h>

#include "micro/pairs.hpp"

namespace {

constexpr std::uint64_t piece_bytes = 1 << 20;

[[noreturn]] void fail(nfs_context* nfs, const char* what) {
  std::fprintf(stderr, "bench_bare_nfs: %s: %s\n", what, nfs_get_error(nfs));
  std::exit(1);
}

class Connection {
 public:
  explicit Connection(const char* text) : nfs_(nfs_init_context()) {
    nfs_url* url = nfs_parse_url_full(nfs_, text);
    if (url == nullptr) fail(nfs_, text);
    name_ = url->file;
    if (nfs_mount(nfs_, url->server, url->path) != 0) fail(nfs_, "mount");
    nfs_destroy_url(url);
  }
  ~Connection() { nfs_destroy_context(nfs_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void open(bool writes, bool creates) {
    writes_ = writes;
    const int failed = creates  ? nfs_creat(nfs_, name_.c_str(), 0644, &file_)
                       : writes ? nfs_open(nfs_, name_.c_str(), O_WRONLY, &file_)
                                : nfs_open(nfs_, name_.c_str(), O_RDONLY, &file_);
    if (failed != 0) fail(nfs_, "open");
  }
  // Takes pieces from `next` until there are none.
  void move(std::atomic<std::uint64_t>& next, std::uint64_t bytes, int depth) {
    next_ = &next;
    bytes_ = bytes;
    for (int i = 0; i < depth; ++i)
      start();
    while (under_way_ > 0) {
      pollfd socket{nfs_get_fd(nfs_), static_cast<short>(nfs_which_events(nfs_)), 0};
      if (poll(&socket, 1, 1000) < 0 || nfs_service(nfs_, socket.revents) != 0)
        fail(nfs_, "the connection");
    }
  }
  void commit() {
    if (nfs_fsync(nfs_, file_) != 0) fail(nfs_, "commit");
  }
  void close() { nfs_close(nfs_, file_); }

 private:
  void start() {
    const std::uint64_t at = next_->fetch_add(piece_bytes);
    if (at >= bytes_) return;
    const std::uint64_t count = std::min(piece_bytes, bytes_ - at);
    ++under_way_;
    const int failed = writes_
                           ? nfs_pwrite_async(nfs_, file_, at, count, memory_.data(), on_end, this)
                           : nfs_pread_async(nfs_, file_, at, count, on_end, this);
    if (failed != 0) fail(nfs_, "a request");
  }
  static void on_end(int result, nfs_context* nfs, void*, void* self) {
    auto& connection = *static_cast<Connection*>(self);
    if (result <= 0) fail(nfs, "a transfer");
    --connection.under_way_;
    connection.start();
  }

  nfs_context* nfs_;
  std::string name_;
  nfsfh* file_ = nullptr;
  bool writes_ = false;
  std::atomic<std::uint64_t>* next_ = nullptr;
  std::uint64_t bytes_ = 0;
  int under_way_ = 0;
  std::vector<char> memory_ = std::vector<char>(piece_bytes, 'x');
};

}  // namespace

int main(int count, char** arguments) {
  const std::string kind = count == 6 ? arguments[1] : "";
  const int connections = count == 6 ? std::atoi(arguments[2]) : 0;
  const int depth = count == 6 ? std::atoi(arguments[3]) : 0;
  const std::uint64_t bytes = count == 6 ? std::strtoull(arguments[4], nullptr, 10) : 0;
  if ((kind != "read" && kind != "write") || connections < 1 || depth < 1 || bytes == 0) {
    std::fprintf(stderr, "usage: bench_bare_nfs read|write CONNECTIONS DEPTH BYTES URL\n");
    return 2;
  }
  const bool writes = kind == "write";
  std::vector<std::unique_ptr<Connection>> all;
  for (int i = 0; i < connections; ++i)
    all.push_back(std::make_unique<Connection>(arguments[5]));
  std::atomic<std::uint64_t> next{0};
  const auto begin = ferry::benchmarks::Clock::now();
  for (const auto& connection : all)
    connection->open(writes, writes && connection == all.front());
  std::vector<std::thread> threads;
  for (const auto& connection : all)
    threads.emplace_back([&] { connection->move(next, bytes, depth); });
  for (std::thread& thread : threads)
    thread.join();
  if (writes) all.front()->commit();
  for (const auto& connection : all)
    connection->close();
  const std::chrono::duration<double> took = ferry::benchmarks::Clock::now() - begin;
  std::printf("%.6f\n", took.count());
  return 0;
}
