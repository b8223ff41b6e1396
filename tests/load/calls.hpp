// The calls of a load: which kinds there are, how long each takes, and how long it may take.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "harness/latency_histogram.hpp"

namespace ferry::load {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

enum class LoadCall : std::uint8_t {
  open,
  close,
  read,
  write,
  append,
  flush,
  sync,
  truncate,
  status,
  unlink,
  rename
};
inline constexpr const char* kind_names[] = {"open",   "close",  "read",  "write",
                                             "append", "flush",  "sync",  "truncate",
                                             "status", "unlink", "rename"};
inline constexpr std::size_t kinds = std::size(kind_names);

// Where files are, and how long one request to it takes at most.
struct LoadPlace {
  std::string name;    // "tmpfs", "disk", "failing", "nfs", "ceph"
  std::string prefix;  // of paths
  std::string suffix;
  std::string directory;  // the same folder for plain system calls; empty: it has none
  std::chrono::milliseconds request_bound{0};
  std::string source;      // of that bound
  bool hangs = false;      // for longer than others
  bool is_served = false;  // by a server beyond the process: what failed may happen later

  std::string path_of(const std::string& file) const { return prefix + file + suffix; }
};

// How many requests, one after the other, a call of a kind waits for at most: its own, and those of
// others that it has to wait for or to make before, as docs/reference/bounds.md lists them.
constexpr unsigned requests_of(LoadCall kind) {
  switch (kind) {
    case LoadCall::read:   // a fill that another's change outdates, outside calls, its own
    case LoadCall::write:  // a write-back for room, a fill, outside calls, its own
    case LoadCall::append:
    case LoadCall::truncate:  // write-backs of the file before it
      return 4;
    case LoadCall::flush:
    case LoadCall::sync:   // write-backs under way, its own, once more after an error, the sync
    case LoadCall::close:  // likewise, with the close itself
    case LoadCall::open:   // the close of the same file before it
      return 5;
    case LoadCall::status:
    case LoadCall::unlink:
    case LoadCall::rename:
      return 2;
  }
  return 0;
}

// Of all callers together. Thread-safe.
class Latencies {
 public:
  Latencies(const std::vector<LoadPlace>& places, std::chrono::milliseconds scheduling);

  // `beside_hang`: the storage that hangs did so during the call.
  void note(std::size_t place, LoadCall kind, std::uint64_t ns, bool beside_hang);
  const bench::LatencyHistogram& of(std::size_t place, LoadCall kind) const {
    return cell(place, kind).histogram;
  }
  Nanoseconds bound_of(std::size_t place, LoadCall kind) const;
  // A line for each call that was beyond its bound: none is good.
  std::vector<std::string> beyond_bounds() const;
  // After all calls. `plain`: of system calls on the same file systems.
  std::string table(const Latencies& plain) const;

 private:
  struct Cell {
    std::mutex mutex;
    bench::LatencyHistogram histogram;
    std::uint64_t longest_alone_ns = 0;  // beside no hang
  };
  const Cell& cell(std::size_t place, LoadCall kind) const {
    return cells_[place * kinds + static_cast<std::size_t>(kind)];
  }
  const std::vector<LoadPlace>& places_;
  const std::chrono::milliseconds scheduling_;
  std::vector<Cell> cells_;
};

// The longest calls, with what tells whom they waited for. Thread-safe.
class SlowCalls {
 public:
  struct Call {
    std::uint64_t ns = 0;
    std::uint64_t beside_hang_ns = 0;   // of these
    std::uint64_t server_ready_ns = 0;  // in which the server waited for a CPU
    std::string what;
  };
  // Whether it is long enough to be kept.
  bool wants(std::uint64_t ns) const { return ns > least_ns_; }
  void note(Call call);
  std::string text() const;

 private:
  static constexpr std::size_t kept = 10;
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> least_ns_{0};
  std::vector<Call> calls_;  // the longest first
};

// Beside the requests: the watch of a server that stands still (RuntimeOptions::liveness_timeout)
// and as long again, and ten turns of 4 ms of each other caller on a CPU.
constexpr std::chrono::milliseconds scheduling_bound(unsigned callers, unsigned cpus) {
  return std::chrono::seconds(10) + callers * std::chrono::milliseconds(40) / cpus;
}

}  // namespace ferry::load
