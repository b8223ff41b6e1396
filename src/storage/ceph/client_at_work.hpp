// Keeps client libraries with threads alive at the end of the process: exit(3) destroys the
// library's static objects while its threads use them, which crashes.
#pragma once

namespace ferry::storage {

// Lives as long as a client whose threads may run. With any alive, a process that calls exit(), or
// returns from main(), ends before the library's objects are destroyed: the program's streams are
// flushed and the status is that of exit(), but handlers registered with atexit(3) before the
// library was loaded do not run. Thread-safe.
class ClientAtWork {
 public:
  // To be made after the library is loaded.
  ClientAtWork();
  ~ClientAtWork();
  ClientAtWork(const ClientAtWork&) = delete;
  ClientAtWork& operator=(const ClientAtWork&) = delete;

  // Records that the library may have made static objects since.
  static void more_objects();
};

}  // namespace ferry::storage
