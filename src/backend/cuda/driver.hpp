// The CUDA driver, loaded at run time: its functions, why it is absent, and its errors.
//
//   const cuda::Driver& driver = cuda::Driver::get();           // throws without a driver
//   driver.check(driver.cuMemAlloc(&memory, bytes), "cuMemAlloc");
//
// $FERRY_CUDA_LIBRARY names a library to load instead of libcuda.so.1, for example a mock.
#pragma once

#include <cstdint>
#include <string>

#include <ferry/error.hpp>

#include "backend/cuda/abi.hpp"

namespace ferry::cuda {

// The functions, with their names in cuda.h.
struct DriverFunctions {
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

// The first call of find() or get() loads and initialises the driver for the whole process.
// Thread-safe. After fork(), a child whose parent has used the driver cannot: every call fails with
// not_initialized.
class Driver : public DriverFunctions {
 public:
  // Null without a driver or a GPU.
  static const Driver* find();
  // Throws ferry::Error (ENODEV) with why_absent().
  static const Driver& get();
  // Only tells whether memory may be a GPU's: null unless this process has loaded the driver's
  // library already. Takes 13 ns then.
  static const Driver* in_use();
  // One line: why find() returns null, and what to do; empty if there is a driver.
  static const std::string& why_absent();

  // The newest CUDA that the driver supports, as 1000 * major + 10 * minor.
  int version() const { return version_; }
  const std::string& file_name() const { return file_name_; }
  int device_count() const { return device_count_; }
  // These throw ferry::Error (ENODEV: there is no such GPU).
  DeviceInfo device_info(int ordinal) const;
  int attribute(int ordinal, DeviceAttribute attribute) const;
  DeviceIndex device(int ordinal) const;

  // Throws ferry::Error unless successful: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, out of memory".
  void check(Result result, const char* call) const;
  // "CUDA_ERROR_OUT_OF_MEMORY, out of memory".
  std::string text(Result result) const;

  // For tests: loads and initialises a driver by name. Throws ferry::Error (ENODEV).
  explicit Driver(const std::string& file_name);

 private:
  std::string file_name_;
  int version_ = 0;
  int device_count_ = 0;
};

// A result as errno: ENOMEM, ENODEV, EINVAL, EPERM or ENOTSUP if they fit, else EIO.
int error_number(Result result);

}  // namespace ferry::cuda
