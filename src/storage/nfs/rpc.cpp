#include "storage/nfs/rpc.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace ferry::storage {
namespace {

constexpr std::chrono::milliseconds poll_slice{100};

// A connection that only waits for an answer sends nothing: without this it would not notice that
// its server has lost it, by a loss of power say. It does within a minute.
void keep_alive(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace

int nfs_error(nfsstat3 status) {
  switch (status) {
    case NFS3ERR_NAMETOOLONG:
      return -ENAMETOOLONG;
    case NFS3ERR_NOTEMPTY:
      return -ENOTEMPTY;
    case NFS3ERR_DQUOT:
      return -EDQUOT;
    case NFS3ERR_STALE:
    case NFS3ERR_BADHANDLE:
      return -ESTALE;
    case NFS3ERR_REMOTE:
      return -EREMOTE;
    case NFS3ERR_NOTSUPP:
      return -EOPNOTSUPP;
    case NFS3ERR_JUKEBOX:
      return -EAGAIN;
    default:
      // Up to here the numbers are those of Linux.
      return status <= NFS3ERR_MLINK ? -static_cast<int>(status) : -EIO;
  }
}

void NfsRpc::on_reply(rpc_context*, int status, void* data, void* waiting_data) {
  auto& waiting = *static_cast<Waiting*>(waiting_data);
  if (waiting.done) return;
  waiting.done = true;
  waiting.status = status;
  if (status == rpc_success && waiting.use) {
    try {
      waiting.result = waiting.use(data);
    } catch (const std::bad_alloc&) {  // libnfs called this, and is C
      waiting.result = -ENOMEM;
    }
  }
}

int NfsRpc::connect(int program, int version, unsigned port, NfsClock::time_point deadline) {
  disconnect();
  context_ = library_.nfs_init_context();
  if (context_ == nullptr) return -ENOMEM;
  library_.nfs_set_autoreconnect(context_, 0);  // who retries, and for how long, is decided here
  rpc_ = library_.nfs_get_rpc_context(context_);
  library_.rpc_set_uid(rpc_, static_cast<int>(address_.user));
  library_.rpc_set_gid(rpc_, static_cast<int>(address_.group));
  const char* host = address_.host.c_str();
  const int result = call<void>(
      [&](rpc_context* rpc, rpc_cb callback, void* data) {
        return port != 0 ? library_.rpc_connect_port_async(rpc, host, static_cast<int>(port),
                                                           program, version, callback, data)
                         : library_.rpc_connect_program_async(rpc, host, program, version, callback,
                                                              data);
      },
      [] { return 0; }, deadline);
  if (result != 0) disconnect();
  if (result == 0) keep_alive(library_.rpc_get_fd(rpc_));
  return result == 0 || result == -ETIMEDOUT ? result : -ECONNREFUSED;
}

void NfsRpc::disconnect() {
  if (context_ == nullptr) return;
  nfs_context* context = context_;
  context_ = nullptr;
  rpc_ = nullptr;
  library_.nfs_destroy_context(context);
  late_.reset();
}

int NfsRpc::await(const Waiting& waiting, NfsClock::time_point deadline) {
  bool broken = false;
  while (!waiting.done && !broken) {
    const auto now = NfsClock::now();
    if (now >= deadline) return -ETIMEDOUT;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
    pollfd socket{library_.rpc_get_fd(rpc_), static_cast<short>(library_.rpc_which_events(rpc_)),
                  0};
    if (::poll(&socket, 1, static_cast<int>(std::min(left, poll_slice).count())) < 0) continue;
    broken = !service(socket.revents);
  }
  if (broken) disconnect();
  if (waiting.status == rpc_success && waiting.done) return waiting.result;
  return broken ? -ECONNRESET : -EIO;
}

}  // namespace ferry::storage
