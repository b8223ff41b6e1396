#include "daemon/messages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/socket_messages.hpp"

namespace ferry::daemon {
namespace {

// Of this version, with numbers that can be: they become indices.
bool is_believable(const DaemonAnswer& answer) {
  return answer.magic == messages_magic && answer.version == messages_version &&
         answer.error >= 0 && answer.reader_count <= readers_at_once &&
         std::all_of(answer.readers, answer.readers + answer.reader_count,
                     [](std::uint32_t reader) { return reader < readers_max; }) &&
         answer.file.entry < files_max;
}

}  // namespace

int exchange(int socket, const DaemonRequest& request, int descriptor, DaemonAnswer& answer,
             int& received) {
  received = -1;
  int error = send_message(socket, &request, sizeof request, descriptor);
  if (error == 0) error = receive_message(socket, &answer, sizeof answer, received);
  if (error == 0 && !is_believable(answer)) error = EPROTO;
  if (error == 0) error = answer.error;
  if (error != 0 && received >= 0) {
    close(received);
    received = -1;
  }
  return error;
}

bool is_own_process(int socket, pid_t& pid) {
  ucred other{};
  socklen_t bytes = sizeof other;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &bytes) != 0) return false;
  pid = other.pid;
  return other.uid == geteuid();
}

int connect_to(const char* path, int timeout_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length == 0 || length >= sizeof address.sun_path) return -ENAMETOOLONG;
  std::memcpy(address.sun_path, path, length);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket < 0) return -errno;
  const timeval timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  int error = 0;
  pid_t pid = 0;
  if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0) {
    error = errno;  // else nothing bounds the wait for an answer
    // A full queue of connections makes this wait, no longer than the time to send.
  } else if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    error = error_of_socket_call(errno);
  } else if (!is_own_process(socket, pid)) {
    error = EPERM;
  }
  if (error == 0) return socket;
  close(socket);
  return -error;
}

}  // namespace ferry::daemon
