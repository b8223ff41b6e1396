// What calls with descriptors share with bare system calls.
#pragma once

#include <sys/socket.h>

namespace ferry::run {

// Before fcntl(2).
void before_control(int descriptor, int command, long argument);

// A message that has arrived, perhaps with descriptors.
void received(const msghdr& message);

}  // namespace ferry::run
