// The mock driver's GPUs: their memory, the host's pinned memory, and faults for tests.
//
// Device memory has two addresses. Programs get one in an inaccessible range, so that host access
// faults, as with a real GPU; the bytes are in a second mapping at a fixed distance, which only the
// mock's copies use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "backend/cuda/abi.hpp"

namespace ferry::cuda::mock {

inline constexpr int devices_max = 4;

// One stretch of memory that the driver knows.
struct MockRange {
  enum class Kind { device, managed, pinned, registered };
  Kind kind = Kind::device;
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  int device = 0;
  unsigned pending_copies = 0;
};

class Machine {
 public:
  static Machine& instance();

  int devices() const { return devices_; }
  int version() const { return version_; }

  // Faults and counters by name, for tests: see control() in machine.cpp.
  long get(const std::string& name);
  void set(const std::string& name, long value);
  void count(const std::string& name, long amount = 1);
  // Whether this event is the n-th since `name` was set to n.
  bool falls_due(const std::string& name);
  // A fault after which every call on any GPU fails, as after an error of the hardware.
  bool lost() { return get("lost") != 0; }

  // For calls that a driver may delay until no kernel runs.
  void wait_for_kernels();

  Result allocate(MockRange::Kind kind, int device, std::size_t bytes, std::uintptr_t& address);
  Result add_registered(std::uintptr_t begin, std::size_t bytes, int device);
  Result remove(MockRange::Kind kind, std::uintptr_t address);
  // The range of an address; kind, begin and size are filled in. Returns false if there is none.
  bool find(std::uintptr_t address, MockRange& found);

  // Checks a copy when it is requested, and keeps its memory from being freed unnoticed.
  Result begin_copy(std::uintptr_t device_side, std::uintptr_t host_side, std::size_t bytes,
                    bool asynchronous = false);
  void end_copy(std::uintptr_t device_side, std::uintptr_t host_side);
  // The bytes of an address.
  std::byte* bytes_at(std::uintptr_t address) const;

 private:
  Machine();
  MockRange* locate(std::uintptr_t address, std::size_t bytes);
  // A free place in the window, or 0. Reuses freed places as late as possible.
  std::uintptr_t place(std::size_t bytes);

  int devices_ = 2;
  int version_ = 13000;
  std::uintptr_t window_ = 0;  // device addresses
  std::uintptr_t shadow_ = 0;  // where their bytes are
  std::uintptr_t next_ = 0;
  std::mutex mutex_;  // guards what follows and next_
  std::map<std::uintptr_t, MockRange> ranges_;
  std::map<std::string, long> values_;
};

}  // namespace ferry::cuda::mock
