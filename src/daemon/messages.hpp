// What travels between ferryd and its clients: one request and one answer on a connection, each
// with at most one descriptor. The calls of a reader are safe in signal handlers, since a handler
// may be where a thread first reads.
#pragma once

#include <cstdint>
#include <type_traits>

#include <sys/types.h>

#include "daemon/shared_table.hpp"

namespace ferry::daemon {

inline constexpr std::uint32_t messages_magic = 0x72'72'65'66;  // "ferr"
// Grows with any change of a layout, of a hash or of what is sent. Other cache lines make another
// layout, too.
inline constexpr std::uint32_t messages_version = 4 << 16 | device::cache_line_bytes;

enum class RequestKind : std::uint32_t { attach = 1, more_readers, offer, status, stop };

struct DaemonRequest {
  std::uint32_t magic = messages_magic;
  std::uint32_t version = messages_version;
  RequestKind kind = RequestKind::status;
  std::uint32_t reserved = 0;
};

inline constexpr std::uint32_t readers_at_once = 8;

struct DaemonStatus {
  std::int64_t pid = 0;
  std::uint64_t clients = 0;
  std::uint64_t files = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t hits = 0;
  std::uint64_t fills = 0;
  std::uint64_t breaks = 0;  // leases that ended because a process wanted to write
};

// The answer to every request; which members count depends on its kind.
struct DaemonAnswer {
  std::uint32_t magic = messages_magic;
  std::uint32_t version = messages_version;
  std::int32_t error = 0;  // an errno
  std::uint32_t reader_count = 0;
  std::uint32_t readers[readers_at_once]{};  // numbers, from 0
  ServedFile file;
  SharedMemory memory;  // of the descriptor that comes with it
  DaemonStatus status;
};
static_assert(std::is_trivially_copyable_v<DaemonRequest>);
static_assert(std::is_trivially_copyable_v<DaemonAnswer>);
// Where this fails, messages_version grows. The structures in the cache that clients use have such
// checks of their own (layout.hpp).
static_assert(sizeof(DaemonAnswer) == 296);

// Sends a request on a connection to ferryd and receives the answer: its errno, EPROTO if it is of
// another version, or what send and receive return. `received`: a descriptor that came with an
// answer without error, or -1.
int exchange(int socket, const DaemonRequest& request, int descriptor, DaemonAnswer& answer,
             int& received);

// Connects to `path`: a socket, or the negative of an errno. Every later call on it ends within
// `timeout_ms`. The other side must belong to this user (EPERM).
int connect_to(const char* path, int timeout_ms);
// The process at the other end; false unless it belongs to this user.
bool is_own_process(int socket, pid_t& pid);

}  // namespace ferry::daemon
