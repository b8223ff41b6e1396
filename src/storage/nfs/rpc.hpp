// One connection to an NFS server, and blocking calls over it.
#pragma once

#include <cerrno>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <sys/types.h>

#include "base/cpus.hpp"
#include "storage/nfs/library.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {

using NfsClock = std::chrono::steady_clock;

// A server's address and settings, from a URI.
struct NfsAddress {
  std::string host;
  unsigned nfs_port = 0;    // 0: ask the server's portmapper
  unsigned mount_port = 0;  // the same
  uid_t user = 0;
  gid_t group = 0;
  unsigned connections = 4;
  std::chrono::milliseconds timeout{timeout_default};  // for each request

  // For the threads of its connections: not the CPU of the polling thread.
  CpuSet cpus = {};

  auto operator<=>(const NfsAddress&) const = default;  // NOLINT: a null pointer is seen in it
};

// A negative errno for the status that a server gave.
int nfs_error(nfsstat3 status);

// Not thread-safe. The function passed with a call reads the reply's data before it is freed.
class NfsRpc {
 public:
  NfsRpc(const NfsLibrary& library, const NfsAddress& address)
      : library_(library), address_(address) {}
  ~NfsRpc() { disconnect(); }
  NfsRpc(const NfsRpc&) = delete;
  NfsRpc& operator=(const NfsRpc&) = delete;

  // 0, -ETIMEDOUT, or -ECONNREFUSED for any other failure to connect.
  int connect(int program, int version, unsigned port, NfsClock::time_point deadline);
  bool connected() const { return context_ != nullptr; }
  // Ends calls in flight and runs their callbacks now.
  void disconnect();

  // For those who drive the connection themselves.
  rpc_context* context() const { return rpc_; }
  // Handles poll()'s events. Returns false if the connection is broken; call disconnect() next.
  bool service(int events) { return library_.rpc_service(rpc_, events) == 0; }

  // Makes one call and waits for its reply: issue(context, callback, data) starts it, and
  // use(reply) returns a result. Returns that, -ETIMEDOUT (and drops the connection, as the reply
  // may still arrive), -ECONNRESET if the connection broke, or -EIO if the server's RPC layer
  // refused the call. With `keeps`, a connection with a late reply stays; see waits().
  template <class Reply, class Issue, class Use>
  int call(Issue issue, Use use, NfsClock::time_point deadline, bool keeps = false) {
    auto owned = std::make_unique<Waiting>();
    Waiting& waiting = *owned;
    waiting.use = [&use](void* reply) {
      if constexpr (std::is_void_v<Reply>) {
        return use();
      } else {
        return use(*static_cast<const Reply*>(reply));
      }
    };
    if (!connected()) return -ECONNRESET;
    if (late_ != nullptr) return -ETIMEDOUT;
    if (issue(rpc_, &NfsRpc::on_reply, static_cast<void*>(&waiting)) != 0) {
      disconnect();
      return -ECONNRESET;
    }
    const int result = await(waiting, deadline);
    if (result != -ETIMEDOUT) return result;
    if (keeps) {
      waiting.use = nullptr;
      late_ = std::move(owned);
    } else {
      disconnect();
    }
    return result;
  }

  // Whether the reply to a call that has timed out may still arrive. No other call is made
  // meanwhile.
  bool waits() const { return late_ != nullptr && !late_->done; }

 private:
  struct Waiting {
    bool done = false;
    int status = 0;
    int result = 0;
    std::function<int(void* reply)> use;  // empty once no call waits
  };
  static void on_reply(rpc_context* rpc, int status, void* data, void* waiting);
  int await(const Waiting& waiting, NfsClock::time_point deadline);

  const NfsLibrary& library_;
  const NfsAddress& address_;
  nfs_context* context_ = nullptr;
  rpc_context* rpc_ = nullptr;  // belongs to context_
  std::unique_ptr<Waiting> late_;
};

}  // namespace ferry::storage
