// Keeps client libraries with threads alive at the end of the process: exit(3) destroys the
// library's static objects while its threads use them, which crashes.
#pragma once

namespace ferry::storage {

// Lives as long as a client whose threads may run. A process that calls exit(), or returns from
// main(), while there is any ends where it would have destroyed the library's objects: what the
// program wrote to its streams is flushed and the status is that of exit(), but what had been
// registered with atexit(3) before the library was loaded is not run. Thread-safe.
class ClientAtWork {
 public:
  // To be made after the library is loaded.
  ClientAtWork();
  ~ClientAtWork();
  ClientAtWork(const ClientAtWork&) = delete;
  ClientAtWork& operator=(const ClientAtWork&) = delete;

  // Says that the library may have made static objects since.
  static void more_objects();
};

}  // namespace ferry::storage
