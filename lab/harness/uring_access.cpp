#include "harness/uring_access.hpp"

#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

class UringAccess final : public FileAccess {
 public:
  UringAccess(const Cell& cell, std::string path)
      : FileAccess(std::move(path)), cell_(cell), slots_(cell.queue_depth) {}
  ~UringAccess() override {
    // No buffer may be released while the kernel still writes to it.
    while (in_flight_ > 0 && reap()) {
    }
    if (fd_ >= 0) ::close(fd_);
    drop_ring();
  }

  void open(int flags) override {
    check(io_uring_queue_init(cell_.queue_depth, &ring_, 0), "setting up io_uring for");
    has_ring_ = true;
    fd_ = open_plain(flags);
  }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    start(0, data, bytes, offset);
    return finish(0);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    start(0, const_cast<void*>(data), bytes, offset);  // only read from
    return finish(0);
  }
  void sync() override { check(or_errno(::fsync(fd_)), "syncing"); }
  void close() override {
    close_plain(std::exchange(fd_, -1));
    drop_ring();
  }

  void start(unsigned slot, void* data, std::uint64_t bytes, std::uint64_t offset) override {
    // Never null: no more are started than the ring has entries.
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const auto length = static_cast<unsigned>(bytes);
    if (cell_.operation == Operation::read) {
      io_uring_prep_read(entry, fd_, data, length, offset);
    } else {
      io_uring_prep_write(entry, fd_, data, length, offset);
    }
    io_uring_sqe_set_data64(entry, slot);
    slots_[slot].done = false;
    ++in_flight_;
  }
  std::int64_t finish(unsigned slot) override {
    if (slots_[slot].done && io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
    while (!slots_[slot].done) {
      if (!reap()) return -EIO;
    }
    return slots_[slot].result;
  }

 private:
  struct Slot {
    std::int64_t result = 0;
    bool done = true;
  };

  void drop_ring() {
    if (std::exchange(has_ring_, false)) io_uring_queue_exit(&ring_);
  }

  // Hands over what was started, waits for one transfer, and takes all that are done.
  bool reap() {
    const int error = io_uring_submit_and_wait(&ring_, 1);
    if (error < 0 && error != -EINTR) return false;
    io_uring_cqe* entry = nullptr;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      Slot& slot = slots_[io_uring_cqe_get_data64(entry)];
      slot.result = entry->res;
      slot.done = true;
      ++seen;
    }
    io_uring_cq_advance(&ring_, seen);
    in_flight_ -= seen;
    return true;
  }

  const Cell& cell_;
  io_uring ring_{};
  bool has_ring_ = false;
  int fd_ = -1;
  unsigned in_flight_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<FileAccess> make_uring_access(const Cell& cell, std::string path) {
  return std::make_unique<UringAccess>(cell, std::move(path));
}

}  // namespace ferry::bench
