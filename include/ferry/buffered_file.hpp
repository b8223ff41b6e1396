// A buffering layer: combines small reads and writes of a file into large aligned requests.
//
//   ferry::DescriptorFile below(fd);
//   ferry::BufferedFile file(below, {.buffer_bytes = 8 << 20});
//   file.pwrite(record, sizeof record, at);  // fills a buffer
//   if (const int error = file.flush()) ...  // the error that close(2) would report
//
// See docs/guide/unmodified-programs.md, also for its use under unmodified programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace ferry {

// The file below the buffers. Calls return negative errno values on errors.
class ByteFile {
 public:
  virtual ~ByteFile() = default;
  // Returns the bytes read, fewer than asked for only at the end of the file.
  virtual std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) = 0;
  // Writes all bytes or returns an error.
  virtual std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) = 0;
  virtual std::int64_t size_bytes() = 0;
  virtual int resize(std::uint64_t size_bytes) = 0;
};

// An open file, which the caller keeps. Its position is neither used nor changed.
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
  std::uint64_t buffer_bytes = 4 << 20;  // a multiple of 4096; requests are aligned to it
  unsigned buffers = 4;
};

struct BufferStatistics {
  std::uint64_t reads = 0;  // the program's calls, and the bytes they moved
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t requests_read = 0;  // requests to the file below
  std::uint64_t request_read_bytes = 0;
  std::uint64_t requests_written = 0;
  std::uint64_t request_written_bytes = 0;
};

// Thread-safe. Writes by others may be invisible until the buffers are dropped. Only bytes passed
// to pwrite are ever written.
class BufferedFile {
 public:
  // `below` must outlive it. Throws ferry::Error (EINVAL) for invalid options. Each buffer is
  // allocated on first use: buffers * buffer_bytes in all.
  BufferedFile(ByteFile& below, const BufferOptions& options);
  // Flushes, and ignores errors.
  ~BufferedFile();
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  // Return the bytes moved, fewer only at the end of the file, or a negative errno. Transfers of at
  // least buffer_bytes bypass the buffers, and so do all while there is no memory for one. If
  // evicting a buffer fails, the call that needed the space returns the error; the buffer keeps its
  // data for another try.
  std::int64_t pread(void* data, std::uint64_t bytes, std::uint64_t offset);
  std::int64_t pwrite(const void* data, std::uint64_t bytes, std::uint64_t offset);

  // These return 0 or a positive errno.
  int flush();
  int resize(std::uint64_t size_bytes);
  // Flushes and drops what was read: the next read sees others' writes.
  int drop();
  // Drops everything, also unwritten data.
  void discard();

  // The size including buffered data, or a negative errno.
  std::int64_t size_bytes();
  bool is_dirty();
  BufferStatistics statistics();

 private:
  struct Buffer;

  std::int64_t copy_in(const std::byte* data, std::uint64_t bytes, std::uint64_t offset);
  std::int64_t copy_out(std::byte* data, std::uint64_t bytes, std::uint64_t offset);
  bool passes_by(std::uint64_t bytes);
  bool add_buffer();
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
