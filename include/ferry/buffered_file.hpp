// A buffering layer: gathers small reads and writes of a file into large aligned requests.
//
//   ferry::DescriptorFile below(fd);
//   ferry::BufferedFile file(below, {.buffer_bytes = 8 << 20});
//   file.pwrite(record, sizeof record, at);  // fills a buffer
//   if (const int error = file.flush()) ...  // what close(2) would have to tell
//
// docs/guide/unmodified-programs.md explains it, and the library that puts it under programs as
// they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace ferry {

// What lies below the buffers. Calls return negative errno values for errors.
class ByteFile {
 public:
  virtual ~ByteFile() = default;
  // Bytes read: fewer than asked for only at the end of the file.
  virtual std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) = 0;
  // All bytes or an error.
  virtual std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) = 0;
  virtual std::int64_t size_bytes() = 0;
  virtual int resize(std::uint64_t size_bytes) = 0;
};

// A file that is open already; it stays the caller's. Its position is neither used nor changed.
class DescriptorFile final : public ByteFile {
 public:
  explicit DescriptorFile(int descriptor) : descriptor_(descriptor) {}
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override;
  std::int64_t size_bytes() override;
  int resize(std::uint64_t size_bytes) override;

 private:
  int descriptor_;
};

struct BufferOptions {
  std::uint64_t buffer_bytes = 4 << 20;  // a multiple of 4096; requests begin at multiples of it
  unsigned buffers = 4;
};

struct BufferStatistics {
  std::uint64_t reads = 0;  // calls of the program, and what they moved
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t requests_read = 0;  // requests below
  std::uint64_t request_read_bytes = 0;
  std::uint64_t requests_written = 0;
  std::uint64_t request_written_bytes = 0;
};

// Thread-safe. What others write to the file meanwhile may not be seen until the buffers are
// dropped. No byte is written that was not passed to pwrite.
class BufferedFile {
 public:
  // `below` must outlive it. ferry::Error (EINVAL) for options that make no sense. Buffers are
  // allocated when they are first used: buffers * buffer_bytes in all.
  BufferedFile(ByteFile& below, const BufferOptions& options);
  // Flushes, without telling errors.
  ~BufferedFile();
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  // Bytes moved, fewer only at the end of the file, or a negative errno. Transfers of buffer_bytes
  // and more go past the buffers. An error of writing a buffer that has to make room is returned
  // by the call that needs the room; what is in the buffer stays there, to be tried again.
  std::int64_t pread(void* data, std::uint64_t bytes, std::uint64_t offset);
  std::int64_t pwrite(const void* data, std::uint64_t bytes, std::uint64_t offset);

  // These return 0 or an errno (positive).
  int flush();
  int resize(std::uint64_t size_bytes);
  // Flushes and forgets what was read: the next read sees what others have written.
  int drop();
  // Forgets everything, what was not written too.
  void discard();

  // With what is still in the buffers, or a negative errno.
  std::int64_t size_bytes();
  bool is_dirty();
  BufferStatistics statistics();

 private:
  struct Buffer;

  std::int64_t copy_in(const std::byte* data, std::uint64_t bytes, std::uint64_t offset);
  std::int64_t copy_out(std::byte* data, std::uint64_t bytes, std::uint64_t offset);
  int buffer_for(std::uint64_t block, Buffer*& found);
  int load(Buffer& buffer);
  int write_back(Buffer& buffer);
  int write_back_overlapping(std::uint64_t offset, std::uint64_t bytes, bool forget);
  int write_back_all();
  std::int64_t refresh_size();

  ByteFile& below_;
  const BufferOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::uint64_t uses_ = 0;
  std::uint64_t size_ = 0;
  bool size_known_ = false;
  BufferStatistics statistics_;
};

}  // namespace ferry
