// The CUDA driver, loaded at run time: its functions, why it is absent where it is, and its errors
// as text and as errno.
//
//   const cuda::Driver& driver = cuda::Driver::get();           // throws where there is none
//   driver.check(driver.cuMemAlloc(&memory, bytes), "cuMemAlloc");
//
// $FERRY_CUDA_LIBRARY names another library in the place of libcuda.so.1, a mock for example.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ferry/error.hpp>

#include "backend/cuda/abi.hpp"

namespace ferry::cuda {

// The functions by their names in cuda.h.
struct Functions {
#define FERRY_DECLARE(name, symbol, ...) Result (*name)(__VA_ARGS__) = nullptr;
  FERRY_CUDA_FUNCTIONS(FERRY_DECLARE)
#undef FERRY_DECLARE
};

// A GPU, as the driver describes it.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  std::string pci_address;  // "0000:17:00.0"
  std::uint64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int copy_engines = 0;
};

// Loaded and initialised by the first call of find() or get(), for the whole process; it stays
// until the process ends. Thread-safe. The driver does not work in a child of fork() whose parent
// has used it: every call then fails with not_initialized.
class Driver : public Functions {
 public:
  // Null where there is no driver, or no GPU that it knows.
  static const Driver* find();
  // Throws ferry::Error (ENODEV) with why_absent().
  static const Driver& get();
  // For those who only want to know whether memory may be a GPU's: null while nobody in this
  // process has loaded the driver's library, which this does not do either. Takes 13 ns then.
  static const Driver* in_use();
  // One line: why find() gives nothing, and what to do; empty where there is a driver.
  static const std::string& why_absent();

  // The newest CUDA that the driver supports, as 1000 * major + 10 * minor.
  int version() const { return version_; }
  const std::string& file_name() const { return file_name_; }
  int device_count() const { return device_count_; }
  // These throw ferry::Error (ENODEV: there is no such GPU).
  DeviceInfo device_info(int ordinal) const;
  int attribute(int ordinal, DeviceAttribute attribute) const;
  DeviceIndex device(int ordinal) const;

  // Throws ferry::Error unless it is a success: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, out of
  // memory".
  void check(Result result, const char* call) const;
  // "CUDA_ERROR_OUT_OF_MEMORY, out of memory".
  std::string text(Result result) const;

  // For tests: a driver in a library of this name, initialised. Throws ferry::Error (ENODEV).
  explicit Driver(const std::string& file_name);

 private:
  std::string file_name_;
  int version_ = 0;
  int device_count_ = 0;
};

// What a result is as an errno: ENOMEM, ENODEV, EINVAL, EPERM or ENOTSUP where it says so, else
// EIO.
int error_number(Result result);

}  // namespace ferry::cuda
