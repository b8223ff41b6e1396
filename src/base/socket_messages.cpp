#include "base/socket_messages.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry {
namespace {

union DescriptorSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

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

int error_of_socket_call(int error) {
  return error == EAGAIN ? ETIMEDOUT : error;
}

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
  // Not the C library's, which `ferry run` stands in for.
  long sent = -EINTR;
  while (sent == -EINTR)
    sent = kernel_call(SYS_sendmsg, socket, &header, MSG_NOSIGNAL);
  if (sent < 0) return error_of_socket_call(static_cast<int>(-sent));
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
  if (got < 0) return error_of_socket_call(errno);
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
      take_descriptors(*control, descriptor);
  }
  if (descriptor < 0 && (header.msg_flags & MSG_CTRUNC) != 0) return EMFILE;
  if (got == 0) return ENOTCONN;
  return static_cast<std::size_t>(got) == bytes ? 0 : EPROTO;
}

}  // namespace ferry
