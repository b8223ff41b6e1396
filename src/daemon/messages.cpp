#include "daemon/messages.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace ferry::daemon {
namespace {

union DescriptorSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// The sockets block, so a call's EAGAIN means that its time ran out. One in ferryd's answer means
// something else.
int error_of_call() {
  return errno == EAGAIN ? ETIMEDOUT : errno;
}

// The first goes to `descriptor`. A message may bring more, as its space is padded; they are
// closed.
void take_descriptors(const cmsghdr& control, int& descriptor) {
  const unsigned char* at = CMSG_DATA(&control);
  const unsigned char* end = reinterpret_cast<const unsigned char*>(&control) + control.cmsg_len;
  for (; end - at >= static_cast<std::ptrdiff_t>(sizeof descriptor); at += sizeof descriptor) {
    int one = -1;
    std::memcpy(&one, at, sizeof one);
    if (descriptor < 0) {
      descriptor = one;
    } else {
      close(one);
    }
  }
}

}  // namespace

int send_message(int socket, const void* message, std::size_t bytes, int descriptor) {
  iovec piece{const_cast<void*>(message), bytes};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  DescriptorSpace space{};
  if (descriptor >= 0) {
    header.msg_control = &space;
    header.msg_controllen = sizeof space;
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  ssize_t sent = -1;
  do
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return error_of_call();
  return static_cast<std::size_t>(sent) == bytes ? 0 : EPROTO;
}

int receive_message(int socket, void* message, std::size_t bytes, int& descriptor) {
  descriptor = -1;
  iovec piece{message, bytes};
  msghdr header{};
  DescriptorSpace space{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = &space;
  header.msg_controllen = sizeof space;
  ssize_t got = -1;
  do
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return error_of_call();
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
      take_descriptors(*control, descriptor);
  }
  if (got == 0) return ENOTCONN;
  return static_cast<std::size_t>(got) == bytes ? 0 : EPROTO;
}

int exchange(int socket, const DaemonRequest& request, int descriptor, DaemonAnswer& answer,
             int& received) {
  received = -1;
  int error = send_message(socket, &request, sizeof request, descriptor);
  if (error == 0) error = receive_message(socket, &answer, sizeof answer, received);
  if (error == 0 && (answer.magic != messages_magic || answer.version != messages_version))
    error = EPROTO;
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
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  int error = 0;
  pid_t pid = 0;
  // A full queue of connections makes this wait, no longer than the time to send.
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    error = error_of_call();
  } else if (!is_own_process(socket, pid)) {
    error = EPERM;
  }
  if (error == 0) return socket;
  close(socket);
  return -error;
}

}  // namespace ferry::daemon
