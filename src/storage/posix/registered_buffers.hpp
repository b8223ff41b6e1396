// Decides whether io_uring may use registered buffers on a file system.
//
// A file system gets such a transfer as an iterator over pages instead of addresses, which few are
// tested with: the client of Lustre (2.17) advances the iterator wrongly, and everything behind the
// first page of a direct transfer is silently another page's data. So registered buffers are used
// only on file systems known to be right, or just tested: an unnamed scratch file in the folder of
// the first opened file is written through them and read back without, and the reverse.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ferry::storage {

enum class RegisteredBuffers : std::uint8_t {
  untested,
  right,
  wrong,
  untestable,  // as `wrong`, for lack of proof
};

// Moves bytes at an offset of a file by way of memory that is registered. The results are those of
// pread(2), with a negative errno.
class RegisteredTransfers {
 public:
  static constexpr std::size_t bytes = 64 << 10;

  RegisteredTransfers() = default;
  virtual ~RegisteredTransfers() = default;
  RegisteredTransfers(const RegisteredTransfers&) = delete;
  RegisteredTransfers& operator=(const RegisteredTransfers&) = delete;
  // The registered memory: `bytes` at an address that suits direct I/O.
  virtual std::span<std::byte, bytes> memory() = 0;
  virtual std::int64_t read(int fd, std::span<std::byte> part, std::int64_t offset) = 0;
  virtual std::int64_t write(int fd, std::span<std::byte> part, std::int64_t offset) = 0;
};

// With io_uring. Null if the kernel refuses it.
std::unique_ptr<RegisteredTransfers> make_registered_transfers();

// Overwrites an empty scratch file through registered buffers and without, reads it back the other
// way, and compares. `direct_fd` is the same file with O_DIRECT, or -1.
RegisteredBuffers try_registered_buffers(RegisteredTransfers& transfers, int fd, int direct_fd);

// Knowledge of the file systems seen. Thread-safe.
class RegisteredBufferTrials {
 public:
  RegisteredBufferTrials() = default;
  virtual ~RegisteredBufferTrials() = default;
  RegisteredBufferTrials(const RegisteredBufferTrials&) = delete;
  RegisteredBufferTrials& operator=(const RegisteredBufferTrials&) = delete;

  // By its type (statfs(2)) alone.
  virtual RegisteredBuffers by_type(std::uint64_t type) const;
  // Without a test.
  RegisteredBuffers known(int fd) const;
  // With one, if possible. Blocks as long as the file system takes.
  RegisteredBuffers of(int fd);

 protected:
  // The transfers of a test.
  virtual std::unique_ptr<RegisteredTransfers> transfers() const {
    return make_registered_transfers();
  }

 private:
  struct Place {
    dev_t device = 0;
    std::uint64_t mount = 0;
    std::uint64_t type = 0;
    bool operator==(const Place&) const = default;
  };
  struct Trial {
    Place place;
    RegisteredBuffers result = RegisteredBuffers::untested;
    unsigned attempts = 0;
  };
  static bool place_of(int fd, Place& place);
  const Trial* find(const Place& place) const;
  void note(const Place& place, RegisteredBuffers result);
  RegisteredBuffers test_beside(int fd) const;

  mutable std::mutex mutex_;  // guards trials_
  std::vector<Trial> trials_;
};

// Why registered buffers are not used, for people; empty if they are.
std::string without_registered_buffers(RegisteredBuffers result, bool is_lustre);

}  // namespace ferry::storage
