// What calls with descriptors share with bare system calls.
#pragma once

namespace ferry::run {

// Before fcntl(2).
void before_control(int descriptor, int command, long argument);

}  // namespace ferry::run
