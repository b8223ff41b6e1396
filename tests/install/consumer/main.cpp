#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>

#include <ferry/ferry.hpp>

// Reads the given file through Ferry, on a device and without one, and prints it.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const ferry::bulk::File whole(argv[1]);
  std::vector<char> expected(whole.size());
  whole.read_at(expected.data(), expected.size(), 0);
  ferry::Runtime runtime;
  const ferry::Buffer buffer = runtime.allocate(4096);
  runtime.run([&](ferry::DeviceThread& self) {
    if (self.index != 0) return;
    const int file = self.files.open(argv[1], O_RDONLY);
    const auto got = self.files.read(file, buffer.data(), buffer.bytes());
    if (got > 0 && std::memcmp(buffer.data(), expected.data(), static_cast<std::size_t>(got)) == 0)
      std::fwrite(buffer.data(), 1, static_cast<std::size_t>(got), stdout);
    self.files.close(file);
  });
  return 0;
}
