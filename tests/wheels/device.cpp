// Writes a file by a device program, and reads it back by another, through the host and through the
// page cache.
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>

#include <ferry/ferry.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  constexpr std::size_t bytes = 300'000;
  std::vector<char> wanted(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    wanted[i] = static_cast<char>(i * 7);
  for (const auto placement : {ferry::device::Placement::host, ferry::device::Placement::compute}) {
    ferry::RuntimeOptions options;
    options.placement = placement;
    ferry::Runtime runtime(options);
    const ferry::Buffer buffer = runtime.allocate(bytes);
    std::memcpy(buffer.data(), wanted.data(), bytes);
    std::int64_t written = 0;
    runtime.run([&](ferry::DeviceThread& self) {
      if (self.index != 0) return;
      const int file = self.files.open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
      written = self.files.pwrite(file, buffer.data(), bytes, 0);
      if (self.files.close(file) != 0) written = -1;
    });
    std::memset(buffer.data(), 0, bytes);
    std::int64_t got = 0;
    runtime.run([&](ferry::DeviceThread& self) {
      if (self.index != 0) return;
      const int file = self.files.open(argv[1], O_RDONLY);
      got = self.files.pread(file, buffer.data(), bytes, 0);
      self.files.close(file);
    });
    if (written != bytes || got != bytes || std::memcmp(buffer.data(), wanted.data(), bytes) != 0) {
      std::fprintf(stderr, "written %lld, read %lld\n", static_cast<long long>(written),
                   static_cast<long long>(got));
      return 1;
    }
  }
  std::printf("a device program wrote %zu bytes and read them back, twice\n", bytes);
  return 0;
}
