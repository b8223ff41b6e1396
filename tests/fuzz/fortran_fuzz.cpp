// Files of Fortran records: control words that anybody may have written.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <ferry/error.hpp>
#include <ferry/fortran_records.hpp>

#include "fuzz/bytes.hpp"

namespace ferry::fuzz {
namespace {

class MemoryFile final : public ByteFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    if (offset >= bytes_.size()) return 0;
    const std::uint64_t step = std::min<std::uint64_t>(bytes, bytes_.size() - offset);
    std::memcpy(data, bytes_.data() + offset, step);
    return static_cast<std::int64_t>(step);
  }
  std::int64_t write(const void*, std::uint64_t, std::uint64_t) override { return -EBADF; }
  std::int64_t size_bytes() override { return static_cast<std::int64_t>(bytes_.size()); }
  int resize(std::uint64_t) override { return -EBADF; }

 private:
  const std::string bytes_;
};

void read_all(BufferedFile& file, ByteOrder order, std::uint64_t file_bytes, std::uint8_t step) {
  FortranReader reader(file, {.order = order});
  std::uint64_t all = 0;
  std::vector<std::byte> data;
  while (reader.next()) {
    all += reader.record_bytes() + 8;
    require(all <= file_bytes, "more bytes in records than in their file");
    data.resize(std::min<std::uint64_t>(reader.record_bytes(), step));
    reader.read(data);
    data.resize(reader.record_bytes() - data.size());
    reader.read(data, data.size() % 8 == 0 ? 8 : 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  InputBytes input(data, bytes);
  const auto step = input.take<std::uint8_t>();
  MemoryFile memory(input.rest());
  BufferedFile file(memory, {.buffer_bytes = 4096, .buffers = 2});
  const auto size = static_cast<std::uint64_t>(memory.size_bytes());
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    try {
      read_all(file, order, size, step);
    } catch (const Error& error) {
      require(error.code().value() == EBADMSG, "an errno that is not documented");
    }
  }
  try {
    static_cast<void>(fortran_byte_order(file));
  } catch (const Error& error) {
    require(error.code().value() == EBADMSG, "an errno that is not documented");
  }
  return 0;
}

}  // namespace ferry::fuzz
