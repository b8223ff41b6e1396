// The minimal work to move a file to or from an NFS server: asynchronous calls of libnfs, --depth
// in flight over --threads connections with a thread each. Data read stays in libnfs's memory;
// writes repeat one buffer.
//
// Returns the seconds from opening to closing; a write ends with a commit. Connections exist
// before, and requests have 1 MiB (or the server's maximum).
#include <algorithm>
#include <atomic>
#include <memory>

#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <poll.h>
#include <sys/time.h>  // which nfsc/libnfs.h lacks

#include "micro/benchmark.hpp"

namespace {

using namespace ferry::benchmarks;

constexpr std::uint64_t piece_bytes = 1 << 20;

[[noreturn]] void fail(nfs_context* nfs, const std::string& what) {
  ferry::benchmarks::fail(what + ": " + nfs_get_error(nfs));
}

class Connection {
 public:
  explicit Connection(const std::string& text) : nfs_(nfs_init_context()) {
    nfs_url* url = nfs_parse_url_full(nfs_, text.c_str());
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
  void move(std::atomic<std::uint64_t>& next, std::uint64_t bytes, std::uint64_t depth) {
    next_ = &next;
    bytes_ = bytes;
    for (std::uint64_t i = 0; i < depth; ++i)
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

void bare_nfs(const BenchmarkOptions& options) {
  const bool writes = options.kind == "write";
  std::vector<std::unique_ptr<Connection>> all;
  for (std::uint64_t i = 0; i < options.threads; ++i)
    all.push_back(std::make_unique<Connection>(options.path));
  std::atomic<std::uint64_t> next{0};
  const auto begin = Clock::now();
  for (const auto& connection : all)
    connection->open(writes, writes && connection == all.front());
  seconds_on_threads(all.size(),
                     [&](std::uint64_t i) { all[i]->move(next, options.bytes, options.depth); });
  if (writes) all.front()->commit();
  for (const auto& connection : all)
    connection->close();
  report_figure(options.kind, "s", {seconds_since(begin)});
}

const Subcommand registered("bare-nfs", "URL read|write --threads --depth --bytes",
                            "a file of an NFS server by bare calls of libnfs", bare_nfs);

}  // namespace
