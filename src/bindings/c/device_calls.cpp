// The calls of device programs. They set no text: a hit in the page cache takes less time than
// that.
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "bindings/c/device_thread.hpp"

namespace ferry::c {
namespace {

using Files = device::FileCalls<device::ThreadGroup>;
using device::Pending;

constexpr std::uint32_t waited_max = 64;

// The states of a ferry_pending, in its first word. One of zeros, as a program may make it, is
// none.
constexpr std::uint64_t state_in_flight = 0xfe77'0001;
constexpr std::uint64_t state_finished = 0xfe77'0002;

int check(const ferry_thread* thread) {
  if (thread == nullptr) return -EINVAL;
  return thread == thread_of_program ? 0 : -EPERM;
}

// `call(files)`, or why that thread must not make it. The results of calls fit the type that
// ferry.h gives them.
template <class Call>
auto on(ferry_thread* thread, Call call) noexcept -> decltype(call(thread->self.files)) {
  if (const int error = check(thread); error != 0) return error;
  return call(thread->self.files);
}

// Whether there is no such memory. No call can return more bytes than INT64_MAX.
bool is_wrong(const void* memory, std::uint64_t bytes) {
  return (memory == nullptr && bytes > 0) || bytes > static_cast<std::uint64_t>(INT64_MAX);
}

void pack(const Pending& pending, ferry_pending& packed) {
  static_assert(sizeof(device::Ticket) == sizeof(std::uint64_t));
  const device::BatchTransfer& transfer = pending.transfer;
  packed = {{pending.finished ? state_finished : state_in_flight,
             std::bit_cast<std::uint64_t>(pending.ticket),
             static_cast<std::uint64_t>(pending.result), static_cast<std::uint64_t>(pending.opcode),
             static_cast<std::uint64_t>(transfer.file),
             reinterpret_cast<std::uintptr_t>(transfer.buffer), transfer.bytes,
             static_cast<std::uint64_t>(transfer.offset)}};
}

// Returns false for what is no transfer of this thread, or one that a copy was waited for.
bool unpack(const Files& files, const ferry_pending* packed, Pending& pending) {
  if (packed == nullptr) return false;
  const std::uint64_t state = packed->opaque[0];
  if (state != state_in_flight && state != state_finished) return false;
  pending.finished = state == state_finished;
  pending.ticket = std::bit_cast<device::Ticket>(packed->opaque[1]);
  pending.result = static_cast<std::int64_t>(packed->opaque[2]);
  pending.opcode = static_cast<device::Opcode>(packed->opaque[3]);
  pending.transfer = {static_cast<int>(packed->opaque[4]),
                      reinterpret_cast<void*>(packed->opaque[5]), packed->opaque[6],
                      static_cast<std::int64_t>(packed->opaque[7])};
  return files.knows(pending);
}

// A transfer that could not start is an error here, and not a transfer that has failed.
int started(const Pending& pending, ferry_pending* packed) {
  if (pending.finished && pending.result == -EAGAIN) return -EAGAIN;
  pack(pending, *packed);
  return 0;
}

template <class Call>
int64_t transfer_vector(ferry_thread* thread, const ferry_vector* pieces, int count, Call call) {
  static_assert(sizeof(ferry_vector) == sizeof(device::IoVector) &&
                offsetof(ferry_vector, bytes) == offsetof(device::IoVector, bytes));
  return on(thread, [&](Files& files) -> int64_t {
    if (count < 0 || count > static_cast<int>(device::extents_max)) return -EINVAL;
    if (pieces == nullptr && count > 0) return -EINVAL;
    for (int i = 0; i < count; ++i)
      if (is_wrong(pieces[i].base, pieces[i].bytes)) return -EINVAL;
    return call(files, reinterpret_cast<const device::IoVector*>(pieces));
  });
}

template <class Call>
int status(ferry_thread* thread, ferry_device_status* status, Call call) {
  return on(thread, [&](Files& files) {
    if (status == nullptr) return -EINVAL;
    device::FileStatus found{};
    const int error = call(files, &found);
    if (error == 0) {
      *status = {
          found.size_bytes, found.allocated_bytes, found.inode, found.device, found.modified_ns,
          found.mode,       found.links,           found.owner, found.group,  found.block_bytes,
          found.generated,  found.version,         {}};
    }
    return error;
  });
}

}  // namespace
}  // namespace ferry::c

using namespace ferry::c;

int64_t ferry_device_index(const ferry_thread* thread) {
  const int error = check(thread);
  return error != 0 ? error : int64_t{thread->self.index};
}

int64_t ferry_device_count(const ferry_thread* thread) {
  const int error = check(thread);
  return error != 0 ? error : int64_t{thread->self.count};
}

int ferry_device_use(ferry_thread* thread, uint32_t placement) {
  return on(thread, [&](Files& files) {
    if (placement > FERRY_PLACEMENT_AUTOMATIC) return -EINVAL;
    files.use(static_cast<ferry::device::Placement>(placement));
    return 0;
  });
}

int ferry_device_open(ferry_thread* thread, const char* path, int flags, uint32_t mode) {
  return on(thread, [&](Files& files) {
    return path != nullptr ? files.open(path, flags, mode) : -EINVAL;
  });
}

int ferry_device_close(ferry_thread* thread, int file) {
  return on(thread, [&](Files& files) { return files.close(file); });
}

int64_t ferry_device_pread(ferry_thread* thread, int file, void* buffer, uint64_t bytes,
                           int64_t offset_bytes) {
  return on(thread, [&](Files& files) -> int64_t {
    return is_wrong(buffer, bytes) ? -EINVAL : files.pread(file, buffer, bytes, offset_bytes);
  });
}

int64_t ferry_device_pwrite(ferry_thread* thread, int file, const void* buffer, uint64_t bytes,
                            int64_t offset_bytes) {
  return on(thread, [&](Files& files) -> int64_t {
    return is_wrong(buffer, bytes) ? -EINVAL : files.pwrite(file, buffer, bytes, offset_bytes);
  });
}

int64_t ferry_device_read(ferry_thread* thread, int file, void* buffer, uint64_t bytes) {
  return on(thread, [&](Files& files) -> int64_t {
    return is_wrong(buffer, bytes) ? -EINVAL : files.read(file, buffer, bytes);
  });
}

int64_t ferry_device_write(ferry_thread* thread, int file, const void* buffer, uint64_t bytes) {
  return on(thread, [&](Files& files) -> int64_t {
    return is_wrong(buffer, bytes) ? -EINVAL : files.write(file, buffer, bytes);
  });
}

int64_t ferry_device_preadv(ferry_thread* thread, int file, const ferry_vector* pieces, int count,
                            int64_t offset_bytes) {
  return transfer_vector(thread, pieces, count, [&](Files& files, const auto* own) {
    return files.preadv(file, own, count, offset_bytes);
  });
}

int64_t ferry_device_pwritev(ferry_thread* thread, int file, const ferry_vector* pieces, int count,
                             int64_t offset_bytes) {
  return transfer_vector(thread, pieces, count, [&](Files& files, const auto* own) {
    return files.pwritev(file, own, count, offset_bytes);
  });
}

int ferry_device_pread_async(ferry_thread* thread, int file, void* buffer, uint64_t bytes,
                             int64_t offset_bytes, ferry_pending* pending) {
  return on(thread, [&](Files& files) {
    if (pending == nullptr || is_wrong(buffer, bytes)) return -EINVAL;
    return started(files.pread_async(file, buffer, bytes, offset_bytes), pending);
  });
}

int ferry_device_pwrite_async(ferry_thread* thread, int file, const void* buffer, uint64_t bytes,
                              int64_t offset_bytes, ferry_pending* pending) {
  return on(thread, [&](Files& files) {
    if (pending == nullptr || is_wrong(buffer, bytes)) return -EINVAL;
    return started(files.pwrite_async(file, buffer, bytes, offset_bytes), pending);
  });
}

int64_t ferry_device_wait(ferry_thread* thread, ferry_pending* pending) {
  return on(thread, [&](Files& files) -> int64_t {
    Pending own;
    if (!unpack(files, pending, own)) return -EINVAL;
    const int64_t result = files.wait(own);
    pack(own, *pending);
    return result;
  });
}

int ferry_device_ready(ferry_thread* thread, const ferry_pending* pending) {
  return on(thread, [&](Files& files) {
    Pending own;
    if (!unpack(files, pending, own)) return -EINVAL;
    return files.ready(own) ? 1 : 0;
  });
}

int64_t ferry_device_wait_any(ferry_thread* thread, const ferry_pending* pending, uint32_t count) {
  return on(thread, [&](Files& files) -> int64_t {
    if (pending == nullptr || count == 0 || count > waited_max) return -EINVAL;
    std::array<Pending, waited_max> own;
    for (uint32_t i = 0; i < count; ++i)
      if (!unpack(files, pending + i, own[i])) return -EINVAL;
    return int64_t{files.wait_any(own.data(), count)};
  });
}

int ferry_device_flush(ferry_thread* thread, int file) {
  return on(thread, [&](Files& files) { return files.flush(file); });
}

int ferry_device_fsync(ferry_thread* thread, int file) {
  return on(thread, [&](Files& files) { return files.fsync(file); });
}

int ferry_device_fdatasync(ferry_thread* thread, int file) {
  return on(thread, [&](Files& files) { return files.fdatasync(file); });
}

int ferry_device_ftruncate(ferry_thread* thread, int file, int64_t size_bytes) {
  return on(thread, [&](Files& files) { return files.ftruncate(file, size_bytes); });
}

int ferry_device_stat(ferry_thread* thread, const char* path, ferry_device_status* status) {
  return ferry::c::status(thread, status, [&](Files& files, auto* found) {
    return path != nullptr ? files.stat(path, found) : -EINVAL;
  });
}

int ferry_device_fstat(ferry_thread* thread, int file, ferry_device_status* status) {
  return ferry::c::status(thread, status,
                          [&](Files& files, auto* found) { return files.fstat(file, found); });
}

int ferry_device_unlink(ferry_thread* thread, const char* path) {
  return on(thread, [&](Files& files) { return path != nullptr ? files.unlink(path) : -EINVAL; });
}

int ferry_device_prefetch(ferry_thread* thread, int file, int64_t offset_bytes, uint64_t bytes) {
  return on(thread, [&](Files& files) { return files.prefetch(file, offset_bytes, bytes); });
}

int ferry_device_evict(ferry_thread* thread, int file) {
  return on(thread, [&](Files& files) { return files.evict(file); });
}
