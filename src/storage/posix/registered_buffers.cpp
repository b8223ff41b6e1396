#include "storage/posix/registered_buffers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/magic.hpp"
#include "storage/posix/file_systems.hpp"
#include "storage/posix/local_mounts.hpp"

namespace ferry::storage {
namespace {

constexpr std::size_t page_bytes = 4096;
// Folders may differ in permissions, so one attempt is not the last.
constexpr unsigned attempts_max = 8;

// ---- by io_uring

// A signal may arrive at any time; the transfer continues.
int uninterrupted(auto call) {
  for (;;) {
    if (const int result = call(); result != -EINTR) return result;
  }
}

class UringTransfers final : public RegisteredTransfers {
 public:
  ~UringTransfers() override {
    if (has_ring_) io_uring_queue_exit(&ring_);
    std::free(memory_);
  }

  // Returns false if the kernel refuses.
  bool set_up() {
    memory_ = static_cast<std::byte*>(std::aligned_alloc(page_bytes, bytes));
    if (memory_ == nullptr || io_uring_queue_init(1, &ring_, 0) != 0) return false;
    has_ring_ = true;
    const iovec all{memory_, bytes};
    return io_uring_register_buffers(&ring_, &all, 1) == 0;
  }

  std::span<std::byte, bytes> memory() override {
    return std::span<std::byte, bytes>(memory_, bytes);
  }
  std::int64_t read(int fd, std::span<std::byte> part, std::int64_t offset) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read_fixed(entry, fd, part.data(), static_cast<unsigned>(part.size()),
                             static_cast<std::uint64_t>(offset), 0);
    return result();
  }
  std::int64_t write(int fd, std::span<std::byte> part, std::int64_t offset) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_write_fixed(entry, fd, part.data(), static_cast<unsigned>(part.size()),
                              static_cast<std::uint64_t>(offset), 0);
    return result();
  }

 private:
  std::int64_t result() {
    io_uring_cqe* entry = nullptr;
    if (const int error = uninterrupted([&] { return io_uring_submit(&ring_); }); error < 0)
      return error;
    if (const int error = uninterrupted([&] { return io_uring_wait_cqe(&ring_, &entry); });
        error < 0)
      return error;
    const std::int64_t moved = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    return moved;
  }

  io_uring ring_{};
  bool has_ring_ = false;
  std::byte* memory_ = nullptr;
};

// ---- the comparison

struct Piece {
  std::size_t begin;  // in the registered memory
  std::size_t bytes;
  std::int64_t offset;
};
// All of the memory, and pieces that begin within it: a wrong step shows from the second page on.
constexpr std::array<Piece, 3> tested_pieces = {
    {{0, RegisteredTransfers::bytes, 0},
     {3 * page_bytes, 10 * page_bytes, static_cast<std::int64_t>(RegisteredTransfers::bytes)},
     {5 * page_bytes, 2 * page_bytes, static_cast<std::int64_t>(page_bytes)}}};

using Bytes = std::vector<std::byte>;

// Every page and every seed has distinct bytes.
void fill(std::span<std::byte> part, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::byte& byte : part) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
}

RegisteredBuffers compared(std::int64_t moved, const Piece& piece, std::span<const std::byte> got,
                           std::span<const std::byte> wanted) {
  if (moved != static_cast<std::int64_t>(piece.bytes)) return RegisteredBuffers::untestable;
  return std::equal(got.begin(), got.end(), wanted.begin(), wanted.end())
             ? RegisteredBuffers::right
             : RegisteredBuffers::wrong;
}

RegisteredBuffers try_write(RegisteredTransfers& transfers, int fd, int plain_fd,
                            const Piece& piece, std::uint64_t seed) {
  const std::span<std::byte> part = transfers.memory().subspan(piece.begin, piece.bytes);
  fill(transfers.memory(), ~seed);
  fill(part, seed);
  std::int64_t moved = transfers.write(fd, part, piece.offset);
  if (moved != static_cast<std::int64_t>(piece.bytes)) return RegisteredBuffers::untestable;
  Bytes got(piece.bytes);
  moved = ::pread(plain_fd, got.data(), got.size(), piece.offset);
  return compared(moved, piece, got, part);
}

RegisteredBuffers try_read(RegisteredTransfers& transfers, int fd, int plain_fd, const Piece& piece,
                           std::uint64_t seed) {
  Bytes wanted(piece.bytes);
  fill(wanted, seed);
  std::int64_t moved = ::pwrite(plain_fd, wanted.data(), wanted.size(), piece.offset);
  if (moved != static_cast<std::int64_t>(piece.bytes)) return RegisteredBuffers::untestable;
  const std::span<std::byte> part = transfers.memory().subspan(piece.begin, piece.bytes);
  fill(part, ~seed);
  moved = transfers.read(fd, part, piece.offset);
  return compared(moved, piece, part, wanted);
}

// A file system found wrong once stays wrong.
RegisteredBuffers worse(RegisteredBuffers one, RegisteredBuffers other) {
  if (one == RegisteredBuffers::wrong || other == RegisteredBuffers::wrong)
    return RegisteredBuffers::wrong;
  return one == RegisteredBuffers::right ? other : one;
}

// ---- scratch files

class ScratchFile {
 public:
  // Nameless, in this folder: it is never seen, and gone with the last descriptor.
  explicit ScratchFile(const std::string& folder)
      : fd_(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    if (fd_ < 0) return;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd_);
    direct_fd_ = ::open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
  }
  ~ScratchFile() {
    if (direct_fd_ >= 0) ::close(direct_fd_);
    if (fd_ >= 0) ::close(fd_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int fd() const { return fd_; }
  int direct_fd() const { return direct_fd_; }

 private:
  int fd_ = -1;
  int direct_fd_ = -1;
};

// For an open file, or the directory itself; empty if unknown.
std::string folder_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return "";
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  std::string path(4096, '\0');
  const ssize_t bytes = ::readlink(link, path.data(), path.size());
  if (bytes <= 0 || path[0] != '/') return "";
  path.resize(static_cast<std::size_t>(bytes));
  if (!S_ISDIR(status.st_mode)) path.resize(path.rfind('/') + 1);
  return path;
}

}  // namespace

std::unique_ptr<RegisteredTransfers> make_registered_transfers() {
  auto transfers = std::make_unique<UringTransfers>();
  if (!transfers->set_up()) return nullptr;
  return transfers;
}

RegisteredBuffers try_registered_buffers(RegisteredTransfers& transfers, int fd, int direct_fd) {
  RegisteredBuffers result = RegisteredBuffers::right;
  std::uint64_t seed = 0;
  for (const int by : {fd, direct_fd}) {
    if (by < 0) continue;
    for (const Piece& piece : tested_pieces) {
      result = worse(result, try_write(transfers, by, fd, piece, ++seed));
      result = worse(result, try_read(transfers, by, fd, piece, ++seed));
    }
  }
  return result;
}

RegisteredBuffers RegisteredBufferTrials::by_type(std::uint64_t type) const {
  switch (type) {
    case EXT4_SUPER_MAGIC:
    case xfs_magic:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case ramfs_magic:
      return RegisteredBuffers::right;
    case lustre_magic:
      return RegisteredBuffers::wrong;
    default:
      return RegisteredBuffers::untested;
  }
}

bool RegisteredBufferTrials::place_of(int fd, Place& place) {
  FileFacts facts;
  if (look_at(fd, facts) != 0) return false;
  const long type = file_system_types().of(fd, facts.mount);
  place = {facts.device, facts.mount, static_cast<std::uint64_t>(type)};
  return type != 0;
}

const RegisteredBufferTrials::Trial* RegisteredBufferTrials::find(const Place& place) const {
  const auto found = std::find_if(trials_.begin(), trials_.end(),
                                  [&](const Trial& trial) { return trial.place == place; });
  return found == trials_.end() ? nullptr : &*found;
}

void RegisteredBufferTrials::note(const Place& place, RegisteredBuffers result) {
  const std::lock_guard lock(mutex_);
  auto* trial = const_cast<Trial*>(find(place));
  if (trial == nullptr) trial = &trials_.emplace_back(Trial{place});
  // Several may have tried at once: a wrong one counts, and so does a proof.
  if (trial->attempts == 0 || trial->result == RegisteredBuffers::untestable) {
    trial->result = result;
  } else if (result != RegisteredBuffers::untestable) {
    trial->result = worse(trial->result, result);
  }
  ++trial->attempts;
}

RegisteredBuffers RegisteredBufferTrials::known(int fd) const {
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISBLK(status.st_mode)) return RegisteredBuffers::right;
  Place place;
  if (!place_of(fd, place)) return RegisteredBuffers::untestable;
  const RegisteredBuffers typical = by_type(place.type);
  if (typical != RegisteredBuffers::untested) return typical;
  const std::lock_guard lock(mutex_);
  const Trial* trial = find(place);
  if (trial == nullptr) return RegisteredBuffers::untested;
  const bool is_last =
      trial->result != RegisteredBuffers::untestable || trial->attempts >= attempts_max;
  return is_last ? trial->result : RegisteredBuffers::untested;
}

RegisteredBuffers RegisteredBufferTrials::of(int fd) {
  RegisteredBuffers result = known(fd);
  if (result != RegisteredBuffers::untested) return result;
  result = test_beside(fd);
  Place place;
  if (place_of(fd, place)) note(place, result);
  return result;
}

// Without the mutex: a file system that hangs must not hold up the others.
RegisteredBuffers RegisteredBufferTrials::test_beside(int fd) const {
  const std::string folder = folder_of(fd);
  if (folder.empty()) return RegisteredBuffers::untestable;
  const ScratchFile scratch(folder);
  Place here;
  Place there;
  if (scratch.fd() < 0 || !place_of(fd, here) || !place_of(scratch.fd(), there) || here != there)
    return RegisteredBuffers::untestable;
  const std::unique_ptr<RegisteredTransfers> by = transfers();
  if (!by) return RegisteredBuffers::untestable;
  return try_registered_buffers(*by, scratch.fd(), scratch.direct_fd());
}

std::string without_registered_buffers(RegisteredBuffers result, bool is_lustre) {
  const std::string what = "io_uring without registered buffers: ";
  if (result == RegisteredBuffers::right) return "";
  if (is_lustre) return what + "the client of Lustre moves wrong bytes through them";
  if (result == RegisteredBuffers::wrong) {
    return what + "a test with a nameless scratch file read other bytes than it had written";
  }
  return what +
         "whether this file system moves the right bytes through them cannot be tested here "
         "(it needs a nameless scratch file in the folder)";
}

}  // namespace ferry::storage
