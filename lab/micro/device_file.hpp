// A file by the calls of a device thread, and by the kernel's; each is closed at the end.
#pragma once

#include <cstdint>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "micro/benchmark.hpp"

namespace ferry::benchmarks {

struct DeviceFile {
  using Files = device::FileCalls<device::ThreadGroup>;

  DeviceFile(Files& its_files, const std::string& path, int flags = O_RDONLY)
      : files(its_files), number(opened(files.open(path.c_str(), flags), path)) {}
  ~DeviceFile() { files.close(number); }
  DeviceFile(const DeviceFile&) = delete;
  DeviceFile& operator=(const DeviceFile&) = delete;

  void read(void* to, std::uint64_t bytes, std::uint64_t at) const {
    check(files.pread(number, to, bytes, static_cast<std::int64_t>(at)), bytes);
  }
  void write(const void* from, std::uint64_t bytes, std::uint64_t at) const {
    check(files.pwrite(number, from, bytes, static_cast<std::int64_t>(at)), bytes);
  }

  Files& files;
  const int number;
};

struct KernelFile {
  explicit KernelFile(const std::string& path, int flags = O_RDONLY)
      : number(opened(::open(path.c_str(), flags), path)) {}
  ~KernelFile() { ::close(number); }
  KernelFile(const KernelFile&) = delete;
  KernelFile& operator=(const KernelFile&) = delete;

  void read(void* to, std::uint64_t bytes, std::uint64_t at) const {
    check(::pread(number, to, bytes, static_cast<off_t>(at)), bytes);
  }
  void write(const void* from, std::uint64_t bytes, std::uint64_t at) const {
    check(::pwrite(number, from, bytes, static_cast<off_t>(at)), bytes);
  }
  std::uint64_t size_bytes() const {
    struct stat status {};
    check(::fstat(number, &status), 0);
    return static_cast<std::uint64_t>(status.st_size);
  }

  const int number;
};

// From the beginning: what a device's file has is resident then.
template <class File>
void read_through(const File& file, char* memory, std::uint64_t call_bytes, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += call_bytes)
    file.read(memory, call_bytes, at);
}

// One device thread, whose cache (if any) its calls go through.
inline RuntimeOptions one_thread(std::uint64_t cache_bytes = 0) {
  RuntimeOptions options;
  options.device_threads = 1;
  if (cache_bytes == 0) return options;
  options.cache_bytes = cache_bytes;
  options.placement = device::Placement::compute;
  return options;
}

// Calls body(runtime, thread, memory) on the first device thread, with device memory.
template <class Body>
void on_device(const RuntimeOptions& options, std::uint64_t memory_bytes, Body body) {
  Runtime runtime(options);
  const Buffer buffer = runtime.allocate(memory_bytes);
  runtime.run([&](DeviceThread& self) {
    if (self.index == 0) body(runtime, self, buffer.as<char>());
  });
}

}  // namespace ferry::benchmarks
