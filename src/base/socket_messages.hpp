// Messages with a descriptor, on blocking sockets that keep messages apart (SOCK_SEQPACKET). Safe
// in signal handlers.
#pragma once

#include <cstddef>

namespace ferry {

// Sends `message`, and `descriptor` unless it is negative. 0 or an errno.
int send_message(int socket, const void* message, std::size_t bytes, int descriptor);
// Receives exactly `bytes`; EPROTO for another size, ENOTCONN at the end, EMFILE where this process
// has no room for the descriptor that came. `descriptor` gets it, close-on-exec, or -1.
int receive_message(int socket, void* message, std::size_t bytes, int& descriptor);
// What a failed call on such a socket means: its EAGAIN means that its time ran out.
int error_of_socket_call(int error);

}  // namespace ferry
