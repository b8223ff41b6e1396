// One group of a measured kernel: executes the steps of a task. Compiled as CUDA, and as plain C++
// for threads that run a kernel.
//
// After a fault, a group records it, skips further measurements, and still closes its files.
#pragma once

#include <cstdint>

#include <ferry/device.hpp>

#include "harness/cuda/kernel_pattern.hpp"
#include "harness/cuda/kernel_task.hpp"

namespace ferry::bench {

template <class Group>
class KernelProgram {
 public:
  FERRY_DEVICE KernelProgram(const KernelTask& task, Group group, std::uint32_t index)
      : task_(task), self_(task.groups[index]), group_(group), files_(*task.context, group, index) {
    files_.use(task.placement);
  }

  FERRY_DEVICE void run() {
    if (asked(KernelStep::evict)) evict();
    if (asked(KernelStep::warm)) warm();
    if (asked(KernelStep::prepare)) prepare();
    timed(KernelStep::open, [&] { open(); });
    timed(KernelStep::transfer, [&] { transfer(); });
    timed(KernelStep::flush, [&] { check(KernelStep::flush, files_.flush(self_.file)); });
    timed(KernelStep::sync, [&] { check(KernelStep::sync, files_.fsync(self_.file)); });
    if (asked(KernelStep::close)) close();
    if (asked(KernelStep::cool)) cool();
    if (asked(KernelStep::read_back)) read_back();
    files_.drain();
  }

 private:
  static constexpr std::uint32_t file_mode = 0644;
  static constexpr unsigned char poison = 0xa5;

  FERRY_DEVICE bool asked(KernelStep step) const { return (task_.steps & bit_of(step)) != 0; }
  FERRY_DEVICE std::uint64_t now_ns() const {
    return group_.broadcast(device::clock_ns(task_.context->hooks));
  }
  FERRY_DEVICE bool leads() const { return group_.lane() == 0; }

  // What the leader has written there is seen by every lane.
  template <class T>
  FERRY_DEVICE void set(T& word, T value) {
    group_.sync();
    if (leads()) word = value;
    group_.sync();
  }
  FERRY_DEVICE bool failed() const { return self_.fault.kind != KernelFault::Kind::none; }
  FERRY_DEVICE void fail(KernelFault::Kind kind, KernelStep step, std::int64_t result,
                         std::uint64_t offset) {
    if (!failed()) set(self_.fault, KernelFault{kind, step, result, offset});
  }
  FERRY_DEVICE bool check(KernelStep step, std::int64_t result) {
    if (result < 0) fail(KernelFault::Kind::call, step, result, 0);
    return result >= 0;
  }
  FERRY_DEVICE bool check_moved(KernelStep step, std::int64_t moved, std::uint64_t offset) {
    if (moved == static_cast<std::int64_t>(task_.call_bytes)) return true;
    fail(moved < 0 ? KernelFault::Kind::call : KernelFault::Kind::short_transfer, step, moved,
         offset);
    return false;
  }

  template <class Work>
  FERRY_DEVICE void timed(KernelStep step, Work work) {
    if (!asked(step) || failed()) return;
    const std::uint64_t begin_ns = now_ns();
    work();
    set(self_.spans[static_cast<unsigned>(step)], Span{begin_ns, now_ns()});
  }

  FERRY_DEVICE std::uint64_t offset_of(std::uint64_t call) const {
    return self_.part.offset_of(self_.order[call]);
  }

  FERRY_DEVICE void evict() {
    const int file = files_.open(self_.path, task_.open_flags, file_mode);
    if (!check(KernelStep::open, file)) return;
    check(KernelStep::evict, files_.evict(file));
    files_.close(file);
  }

  // The calling core's placement puts every page there; `automatic` may choose to pass the cache.
  FERRY_DEVICE void warm() {
    const int file = files_.open(self_.path, task_.open_flags & ~access_mask, file_mode);
    if (!check(KernelStep::open, file)) return;
    set(self_.warm_file, file);
    files_.use(device::Placement::compute);
    for (std::uint64_t call = 0; call < task_.calls; ++call) {
      const std::uint64_t offset = self_.part.offset_of(call);
      if (!check_moved(KernelStep::warm, read(file, self_.buffer, offset), offset)) break;
    }
    files_.use(task_.placement);
  }
  FERRY_DEVICE void cool() {
    if (self_.warm_file <= 0) return;
    if (task_.drops_pages) files_.evict(self_.warm_file);  // what is lost shows in the contents
    files_.close(self_.warm_file);
    set(self_.warm_file, 0);
  }

  FERRY_DEVICE void prepare() {
    const std::uint64_t slots = task_.queue_depth < task_.calls ? task_.queue_depth : task_.calls;
    for (std::uint64_t slot = 0; slot < slots; ++slot) {
      unsigned char* data = self_.buffer + slot * task_.call_bytes;
      if (task_.writes) {
        fill_pattern(group_, data, task_.call_bytes, offset_of(slot), self_.pattern_seed);
        continue;
      }
      for (std::uint64_t i = group_.lane(); i < task_.call_bytes; i += group_.size())
        data[i] = poison;
    }
    group_.sync();
  }

  FERRY_DEVICE void open() {
    const int file = files_.open(self_.path, task_.open_flags, file_mode);
    if (check(KernelStep::open, file)) set(self_.file, file);
  }

  FERRY_DEVICE void close() {
    if (self_.file <= 0) return;
    const std::uint64_t begin_ns = now_ns();
    const int result = files_.close(self_.file);
    set(self_.spans[static_cast<unsigned>(KernelStep::close)], Span{begin_ns, now_ns()});
    set(self_.file, 0);
    check(KernelStep::close, result);
  }

  FERRY_DEVICE void transfer() {
    if (task_.queue_depth > 1) {
      stream_deep();
    } else {
      stream();
    }
  }

  FERRY_DEVICE std::int64_t read(int file, unsigned char* data, std::uint64_t offset) {
    return files_.pread(file, data, task_.call_bytes, static_cast<std::int64_t>(offset));
  }

  // Goes on after a short write, which does not say why it is one; the next one does.
  FERRY_DEVICE std::int64_t written(std::int64_t moved, unsigned char* data, std::uint64_t offset) {
    while (moved > 0 && moved < static_cast<std::int64_t>(task_.call_bytes)) {
      const auto done = static_cast<std::uint64_t>(moved);
      const std::int64_t more = files_.pwrite(self_.file, data + done, task_.call_bytes - done,
                                              static_cast<std::int64_t>(offset + done));
      if (more < 0) return more;
      if (more == 0) break;
      moved += more;
    }
    return moved;
  }

  FERRY_DEVICE bool is_timed(std::uint64_t call) const {
    return is_timed_call(call, task_.latency_mask);
  }
  // Notes a latency; whether the deadline has passed.
  FERRY_DEVICE bool note_latency(std::uint64_t begin_ns, std::uint64_t first_ns) {
    const std::uint64_t end_ns = now_ns();
    if (leads()) self_.latencies->note(end_ns - begin_ns);
    return task_.deadline_ns != 0 && end_ns - first_ns > task_.deadline_ns;
  }
  FERRY_DEVICE bool check_contents(const unsigned char* data, std::uint64_t offset) {
    if (!task_.checks || task_.writes) return true;
    const std::uint64_t at =
        first_difference(group_, data, task_.call_bytes, offset, self_.pattern_seed);
    if (at == task_.call_bytes) return true;
    fail(KernelFault::Kind::wrong_byte, KernelStep::transfer, 0, offset + at);
    return false;
  }

  // One call after the other.
  FERRY_DEVICE void stream() {
    const std::uint64_t first_ns = now_ns();
    std::uint64_t before = offset_of(0);
    std::uint64_t done = 0;
    for (bool late = false; done < task_.calls && !late; ++done) {
      const std::uint64_t offset = offset_of(done);
      if (task_.writes) {
        move_pattern(group_, self_.buffer, task_.call_bytes, before, offset, self_.pattern_seed);
        before = offset;
      }
      const bool timed_call = is_timed(done);
      const std::uint64_t begin_ns = timed_call ? now_ns() : 0;
      std::int64_t moved = task_.writes ? files_.pwrite(self_.file, self_.buffer, task_.call_bytes,
                                                        static_cast<std::int64_t>(offset))
                                        : read(self_.file, self_.buffer, offset);
      if (task_.writes) moved = written(moved, self_.buffer, offset);
      if (timed_call) late = note_latency(begin_ns, first_ns);
      if (!check_moved(KernelStep::transfer, moved, offset)) break;
      if (!check_contents(self_.buffer, offset)) break;
    }
    set(self_.operations, done);
    set(self_.deadline_reached, done < task_.calls && !failed());
  }

  // queue_depth calls in flight, waited for in the order they were started.
  FERRY_DEVICE void stream_deep() {
    const std::uint64_t first_ns = now_ns();
    std::uint64_t waited = 0;
    bool late = false;
    for (std::uint64_t started = 0;;) {
      if (started < task_.calls && started - waited < task_.queue_depth && !late) {
        start(started++);
        continue;
      }
      if (waited == started || !finish(waited, first_ns, late)) break;
      ++waited;
    }
    set(self_.operations, waited);
    set(self_.deadline_reached, waited < task_.calls && !failed());
  }
  FERRY_DEVICE void start(std::uint64_t call) {
    const std::uint64_t slot = call % task_.queue_depth;
    const std::uint64_t offset = offset_of(call);
    unsigned char* data = self_.buffer + slot * task_.call_bytes;
    if (task_.writes) {
      const std::uint64_t before =
          call < task_.queue_depth ? offset : offset_of(call - task_.queue_depth);
      move_pattern(group_, data, task_.call_bytes, before, offset, self_.pattern_seed);
    }
    if (is_timed(call)) set(self_.began_ns[slot], now_ns());
    const auto at = static_cast<std::int64_t>(offset);
    set(self_.pending[slot], task_.writes
                                 ? files_.pwrite_async(self_.file, data, task_.call_bytes, at)
                                 : files_.pread_async(self_.file, data, task_.call_bytes, at));
  }
  FERRY_DEVICE bool finish(std::uint64_t call, std::uint64_t first_ns, bool& late) {
    const std::uint64_t slot = call % task_.queue_depth;
    const std::uint64_t offset = offset_of(call);
    device::Pending pending = self_.pending[slot];
    unsigned char* data = self_.buffer + slot * task_.call_bytes;
    std::int64_t moved = files_.wait(pending);
    if (task_.writes) moved = written(moved, data, offset);
    if (is_timed(call)) late = note_latency(self_.began_ns[slot], first_ns) || late;
    return check_moved(KernelStep::transfer, moved, offset) && check_contents(data, offset);
  }

  // The host has put what must not be there into the places, and compares what it finds.
  FERRY_DEVICE void read_back() {
    const int file = files_.open(self_.path, task_.open_flags, file_mode);
    if (!check(KernelStep::open, file)) return;
    for (std::uint64_t i = 0; i < task_.calls; ++i) {
      const std::uint64_t offset = self_.part.offset_of(task_.first_call + i);
      unsigned char* data = self_.buffer + i * task_.call_bytes;
      if (!check_moved(KernelStep::read_back, read(file, data, offset), offset)) break;
    }
    check(KernelStep::close, files_.close(file));
  }

  static constexpr std::int32_t access_mask = 3;  // O_ACCMODE; what is left of it is O_RDONLY

  const KernelTask& task_;
  KernelGroup& self_;
  Group group_;
  device::FileCalls<Group> files_;
};

}  // namespace ferry::bench
