// Random file calls against an in-memory model of the file, byte for byte (an idea of fsx): a
// device program for one group and one file. random_calls_host.hpp sets it up.
#pragma once

#include <cstdint>

#include <fcntl.h>

#include <ferry/device/file_calls.hpp>

#include "support/programs.hpp"

namespace ferry::test {

inline constexpr std::uint64_t calls_size_max = 300'000;  // of the file
inline constexpr std::uint64_t calls_memory_bytes = 1 << 20;
inline constexpr std::uint32_t calls_pieces_max = 200;
inline constexpr std::uint32_t calls_batch_max = 40;
inline constexpr std::uint32_t calls_kept = 12;

enum class Did : std::uint32_t {
  nothing,
  open,
  close,
  read,
  write,
  pread,
  pwrite,
  preadv,
  pwritev,
  pread_batch,
  pwrite_async,
  pread_each,
  hold,
  prefetch,
  evict,
  truncate,
  status,
  flush,
  fsync
};

struct CallRecord {
  Did did;
  std::uint32_t placement;
  std::uint64_t bytes;
  std::uint64_t offset;
};

// State kept between runs of the program, and its findings.
struct CallsState {
  std::uint64_t seed;
  std::uint64_t size;  // of the model; all bytes behind it are zero
  std::uint64_t position;
  std::int32_t file;
  std::uint32_t append;
  std::uint32_t history_count;
  CallRecord history[calls_kept];  // the latest ones, in turn
  // The first wrong call.
  std::uint32_t failed;
  std::int64_t got;
  std::int64_t wanted;
  std::uint32_t other_bytes;
};

// In the group's own memory, to spare threads' stacks.
struct CallsLists {
  device::IoVector pieces[calls_pieces_max];
  device::BatchTransfer transfers[calls_batch_max];
};

struct CallsPlan {
  const char* name;        // what the calls are given
  unsigned char* inside;   // memory whose transfers need no bounce buffer
  unsigned char* outside;  // and other memory, both calls_memory_bytes
  unsigned char* model;    // calls_size_max bytes
  CallsState* state;
  CallsLists* lists;
  bool mixed;  // every call by another placement
};

template <class Group>
class RandomCalls {
 public:
  FERRY_DEVICE RandomCalls(device::FileCalls<Group>& files, Group group, const CallsPlan& plan)
      : files_(files),
        group_(group),
        plan_(plan),
        state_(*plan.state),
        random_(state_.seed),
        size_(state_.size),
        position_(state_.position),
        file_(state_.file),
        append_(state_.append != 0) {}

  // `count` calls, and a flush. The first run opens the file, `last` closes it.
  FERRY_DEVICE void run(std::uint64_t count, bool last) {
    group_.sync();  // every lane has read the state
    if (file_ == 0) reopen(O_CREAT | O_TRUNC);
    for (; count > 0 && !failed_; --count)
      step();
    begin(Did::flush, 0, 0);
    check(files_.flush(file_), 0);
    if (last) {
      begin(Did::close, 0, 0);
      check(files_.close(file_), 0);
      file_ = 0;
    }
    if (group_.lane() == 0) {
      state_.seed = random_.bits();
      state_.size = size_;
      state_.position = position_;
      state_.file = file_;
      state_.append = append_ ? 1 : 0;
    }
  }

 private:
  // Written data: a seed's bytes, from the first one.
  struct Data {
    std::uint64_t seed;
    std::uint64_t bytes;
  };

  FERRY_DEVICE void step() {
    if (plan_.mixed) {
      placement_ = static_cast<device::Placement>(random_.below(4));
      files_.use(placement_);
    }
    const std::uint64_t choice = random_.below(26);
    if (choice < 5) return pread();
    if (choice < 9) return pwrite();
    if (choice < 11) return preadv();
    if (choice < 13) return pwritev();
    if (choice < 15) return read_batch();
    if (choice < 16) return write_batch();
    if (choice < 18) return read();
    if (choice < 20) return write();
    if (choice < 21) return truncate();
    if (choice < 22) return status();
    if (choice < 23) return hold();
    if (choice < 24) return each_lane();
    seldom();
  }
  FERRY_DEVICE_CALL void seldom() {
    const std::uint64_t choice = random_.below(400);
    if (choice < 20) return reopen(random_.one_in(4) ? O_TRUNC : 0);
    if (choice < 22) return simple(Did::fsync, [&] { return files_.fsync(file_); });
    if (choice < 35) return simple(Did::flush, [&] { return files_.flush(file_); });
    if (choice < 45) return simple(Did::evict, [&] { return files_.evict(file_); });
    if (choice < 65) {
      const auto offset = static_cast<std::int64_t>(edge(calls_size_max));
      const std::uint64_t bytes = length();
      return simple(Did::prefetch, [&] { return files_.prefetch(file_, offset, bytes); });
    }
    return choice % 2 == 0 ? pread() : pwrite();
  }
  template <class Call>
  FERRY_DEVICE void simple(Did did, Call call) {
    begin(did, 0, 0);
    check(call(), 0);
  }

  // ---- choosing --------------------------------------------------------------------------------

  FERRY_DEVICE static std::uint64_t smaller(std::uint64_t a, std::uint64_t b) {
    return a < b ? a : b;
  }
  FERRY_DEVICE std::uint64_t some_edge() {
    const std::uint64_t edges[] = {0, 512, size_, 4096, 8'192, 65'536, 131'072, 262'144};
    return edges[random_.below(8)];
  }
  // Near critical places: page and sector borders, the end of the file.
  FERRY_DEVICE_CALL std::uint64_t edge(std::uint64_t limit) {
    const std::uint64_t choice = random_.below(4);
    if (choice == 0) return random_.below(limit + 1);
    if (choice == 1) return smaller(some_edge(), limit);
    if (choice == 3) return random_.below(limit / 4096 + 1) * 4096;
    const std::uint64_t beside = some_edge() + random_.below(9);
    return smaller(beside - smaller(beside, 4), limit);
  }
  FERRY_DEVICE std::uint64_t length() {
    if (random_.one_in(12)) return edge(calls_size_max / 2);
    if (random_.one_in(2)) return smaller(edge(16'384), 16'384);
    return random_.below(3000);
  }
  FERRY_DEVICE unsigned char* memory(std::uint64_t bytes) {
    std::uint64_t at = random_.below(smaller(calls_memory_bytes - bytes, 20'000) + 1);
    if (random_.one_in(2)) at = at / 4096 * 4096;
    return (random_.one_in(3) ? plan_.outside : plan_.inside) + at;
  }
  FERRY_DEVICE bool fits(std::uint64_t offset, std::uint64_t bytes) const {
    return target(offset) + bytes <= calls_size_max;
  }
  // Where a write lands.
  FERRY_DEVICE std::uint64_t target(std::uint64_t offset) const { return append_ ? size_ : offset; }

  // ---- the model -------------------------------------------------------------------------------

  FERRY_DEVICE void fill(unsigned char* memory, const Data& data, std::uint64_t from,
                         std::uint64_t bytes) const {
    fill_bytes(group_, memory, data.seed, from, bytes);
  }
  FERRY_DEVICE_CALL void put(std::uint64_t offset, const Data& data) {
    if (data.bytes == 0) return;
    fill(plan_.model + offset, data, 0, data.bytes);
    if (offset + data.bytes > size_) size_ = offset + data.bytes;
    group_.sync();
  }
  FERRY_DEVICE void cut(std::uint64_t size) {
    if (group_.size() == 1 && size < size_)  // much faster than by bytes
      __builtin_memset(plan_.model + size, 0, size_ - size);
    else
      for (std::uint64_t at = size + group_.lane(); at < size_; at += group_.size())
        plan_.model[at] = 0;
    size_ = size;
    group_.sync();
  }
  FERRY_DEVICE std::uint64_t there(std::uint64_t offset, std::uint64_t bytes) const {
    return offset < size_ ? smaller(bytes, size_ - offset) : 0;
  }

  // ---- checking --------------------------------------------------------------------------------

  FERRY_DEVICE void begin(Did did, std::uint64_t bytes, std::uint64_t offset) {
    if (group_.lane() != 0 || failed_) return;
    state_.history[state_.history_count++ % calls_kept] =
        CallRecord{did, static_cast<std::uint32_t>(placement_), bytes, offset};
  }
  FERRY_DEVICE void check(std::int64_t got, std::int64_t wanted) {
    if (got == wanted || failed_) return;
    failed_ = true;
    if (group_.lane() != 0) return;
    state_.got = got;
    state_.wanted = wanted;
    state_.failed = 1;
  }
  // Whether every lane found correct bytes.
  FERRY_DEVICE_CALL void check_bytes(bool right) {
    if (!right) device::DeviceRef<std::uint32_t>(state_.other_bytes).store(1, device::relaxed);
    group_.sync();
    const bool wrong = group_.broadcast(
        group_.lane() == 0 &&
        device::DeviceRef<std::uint32_t>(state_.other_bytes).load(device::relaxed) != 0);
    if (!wrong) return;
    failed_ = true;
    if (group_.lane() == 0) state_.failed = 1;
  }
  FERRY_DEVICE_CALL bool same(const unsigned char* got, std::uint64_t offset,
                              std::uint64_t bytes) const {
    return lane_finds_same(group_, got, plan_.model + offset, bytes);
  }
  FERRY_DEVICE_CALL void check_read(const unsigned char* got, std::uint64_t offset,
                                    std::uint64_t bytes, std::int64_t result) {
    const std::uint64_t wanted = there(offset, bytes);
    check(result, static_cast<std::int64_t>(wanted));
    if (!failed_) check_bytes(same(got, offset, wanted));
  }

  // ---- calls -----------------------------------------------------------------------------------

  FERRY_DEVICE_CALL void pread() {
    const std::uint64_t offset = edge(calls_size_max);
    const std::uint64_t bytes = length();
    unsigned char* to = memory(bytes);
    begin(Did::pread, bytes, offset);
    check_read(to, offset, bytes, files_.pread(file_, to, bytes, at(offset)));
  }
  FERRY_DEVICE_CALL void pwrite() {
    const std::uint64_t offset = edge(calls_size_max);
    const Data data{random_.bits(), length()};
    if (!fits(offset, data.bytes)) return;
    unsigned char* from = memory(data.bytes);
    begin(Did::pwrite, data.bytes, offset);
    fill(from, data, 0, data.bytes);
    group_.sync();
    check(files_.pwrite(file_, from, data.bytes, at(offset)), at(data.bytes));
    put(target(offset), data);
  }
  // Pieces consecutive in memory, with gaps; their number and bytes.
  FERRY_DEVICE_CALL std::uint32_t pieces(std::uint64_t limit, std::uint64_t& bytes) {
    const auto count = static_cast<std::uint32_t>(
        random_.one_in(20) ? random_.below(calls_pieces_max) : random_.below(6));
    const bool all_inside = random_.one_in(2);
    std::uint64_t at = 0;
    bytes = 0;
    group_.sync();  // the last list is not read any more
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t step = random_.one_in(5) ? 0 : random_.below(limit / (count + 1) + 1);
      if (random_.one_in(2)) step = step / 4096 * 4096;
      const bool inside = all_inside || random_.one_in(2);
      if (group_.lane() == 0)
        plan_.lists->pieces[i] =
            device::IoVector{(inside ? plan_.inside : plan_.outside) + at, step};
      at += (step + 4095) / 4096 * 4096 + (random_.one_in(3) ? 17 : 0);
      bytes += step;
    }
    group_.sync();
    return count;
  }
  FERRY_DEVICE_CALL void preadv() {
    std::uint64_t bytes = 0;
    const std::uint32_t count = pieces(100'000, bytes);
    const std::uint64_t offset = edge(calls_size_max);
    begin(Did::preadv, bytes, offset);
    const device::IoVector* list = plan_.lists->pieces;
    const std::uint64_t wanted = there(offset, bytes);
    check(files_.preadv(file_, list, static_cast<int>(count), at(offset)), at(wanted));
    if (failed_) return;
    bool right = true;
    std::uint64_t done = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t step = smaller(list[i].bytes, wanted - done);
      right = same(static_cast<const unsigned char*>(list[i].base), offset + done, step) && right;
      done += step;
    }
    check_bytes(right);
  }
  FERRY_DEVICE_CALL void pwritev() {
    Data data{random_.bits(), 0};
    const std::uint32_t count = pieces(60'000, data.bytes);
    const std::uint64_t offset = edge(calls_size_max);
    if (!fits(offset, data.bytes)) return;
    begin(Did::pwritev, data.bytes, offset);
    const device::IoVector* list = plan_.lists->pieces;
    std::uint64_t done = 0;
    for (std::uint32_t i = 0; i < count; done += list[i].bytes, ++i)
      fill(static_cast<unsigned char*>(list[i].base), data, done, list[i].bytes);
    group_.sync();
    check(files_.pwritev(file_, list, static_cast<int>(count), at(offset)), at(data.bytes));
    put(target(offset), data);
  }
  FERRY_DEVICE void note(std::uint32_t index, const device::BatchTransfer& one) {
    if (group_.lane() == 0) plan_.lists->transfers[index] = one;
  }
  FERRY_DEVICE_CALL void read_batch() {
    const auto count = static_cast<std::uint32_t>(random_.below(calls_batch_max));
    std::uint64_t where = 0;
    group_.sync();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t bytes = random_.one_in(4) ? 4096 : random_.below(9000);
      unsigned char* base = random_.one_in(6) ? plan_.outside : plan_.inside;
      note(i, device::BatchTransfer{file_, base + where, bytes, at(edge(calls_size_max))});
      where += random_.one_in(2) ? bytes : (bytes + 4095) / 4096 * 4096;
    }
    group_.sync();
    begin(Did::pread_batch, count, 0);
    device::Pending pending[calls_batch_max];
    files_.pread_batch(plan_.lists->transfers, count, pending);
    finish_in_any_order(count, pending, true);
  }
  FERRY_DEVICE_CALL void write_batch() {
    if (append_) return;  // in which order they land is not said
    const auto most = static_cast<std::uint32_t>(random_.below(20));
    std::uint64_t offset = edge(calls_size_max / 2);
    std::uint64_t where = 0;
    std::uint32_t count = 0;
    group_.sync();
    for (; count < most; ++count) {
      const Data data{random_.bits(), random_.one_in(4) ? 4096 : random_.below(5000)};
      if (!fits(offset, data.bytes)) break;
      unsigned char* from = (random_.one_in(6) ? plan_.outside : plan_.inside) + where;
      fill(from, data, 0, data.bytes);
      note(count, device::BatchTransfer{file_, from, data.bytes, at(offset)});
      put(offset, data);
      offset += data.bytes + random_.below(3) * 100;  // disjoint
      where += (data.bytes + 4095) / 4096 * 4096;
    }
    group_.sync();
    begin(Did::pwrite_async, count, offset);
    device::Pending pending[calls_batch_max];
    if (random_.one_in(2)) {
      files_.pwrite_batch(plan_.lists->transfers, count, pending);
    } else {
      for (std::uint32_t i = 0; i < count; ++i) {
        const device::BatchTransfer one = plan_.lists->transfers[i];
        pending[i] = files_.pwrite_async(file_, one.buffer, one.bytes, one.offset);
      }
    }
    finish_in_any_order(count, pending, false);
  }
  // Starts at one of them, with a step unrelated to their number.
  FERRY_DEVICE_CALL void finish_in_any_order(std::uint32_t count, device::Pending* pending,
                                             bool reading) {
    constexpr std::uint32_t step = 41;  // a prime above calls_batch_max
    const auto first = static_cast<std::uint32_t>(random_.below(step));
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t index = (first + i * step) % count;
      const device::BatchTransfer one = plan_.lists->transfers[index];
      const std::int64_t got = files_.wait(pending[index]);
      if (reading) {
        check_read(static_cast<const unsigned char*>(one.buffer),
                   static_cast<std::uint64_t>(one.offset), one.bytes, got);
      } else {
        check(got, at(one.bytes));
      }
    }
  }
  FERRY_DEVICE_CALL void read() {
    const std::uint64_t bytes = length();
    unsigned char* to = memory(bytes);
    begin(Did::read, bytes, position_);
    const std::int64_t got = files_.read(file_, to, bytes);
    check_read(to, position_, bytes, got);
    if (got > 0) position_ += static_cast<std::uint64_t>(got);
  }
  FERRY_DEVICE_CALL void write() {
    const Data data{random_.bits(), length()};
    if (!fits(position_, data.bytes)) return;
    unsigned char* from = memory(data.bytes);
    begin(Did::write, data.bytes, position_);
    fill(from, data, 0, data.bytes);
    group_.sync();
    check(files_.write(file_, from, data.bytes), at(data.bytes));
    if (data.bytes == 0) return;
    const std::uint64_t where = target(position_);
    put(where, data);
    position_ = where + data.bytes;
  }
  FERRY_DEVICE_CALL void truncate() {
    const std::uint64_t size = edge(calls_size_max);
    begin(Did::truncate, size, 0);
    check(files_.ftruncate(file_, at(size)), 0);
    cut(size);
  }
  FERRY_DEVICE_CALL void status() {
    begin(Did::status, 0, 0);
    device::FileStatus got{};
    check(random_.one_in(2) ? files_.fstat(file_, &got) : files_.stat(plan_.name, &got), 0);
    check(at(got.size_bytes), at(size_));
  }
  FERRY_DEVICE_CALL void hold() {
    const std::uint64_t offset = edge(calls_size_max);
    const std::uint64_t bytes = random_.below(6000) + 1;
    begin(Did::hold, bytes, offset);
    device::cache::PinnedView view;
    const std::int64_t got = files_.hold(file_, at(offset), bytes, view);
    if (got == -EOPNOTSUPP || got == -EAGAIN) return;
    const std::uint64_t most = there(offset, bytes);
    if (got < (most > 0 ? 1 : 0) || got > at(most)) return check(got, at(most));
    check_bytes(same(view.data, offset, static_cast<std::uint64_t>(got)));
    files_.release(view);
  }
  // A row per lane, many of them in the same page.
  FERRY_DEVICE_CALL void each_lane() {
    if constexpr (requires { group_.ballot(true); }) {
      const std::uint64_t first = edge(calls_size_max);
      const std::uint64_t spread = random_.below(3000);
      const std::uint64_t bytes = random_.below(200);
      const std::uint64_t offset = first + group_.lane() * spread;
      unsigned char* to = plan_.inside + group_.lane() * std::uint64_t{256};
      begin(Did::pread_each, bytes, first);
      const std::int64_t got = files_.pread_each(file_, to, bytes, at(offset));
      const std::uint64_t wanted = there(offset, bytes);
      bool right = got == at(wanted);
      for (std::uint64_t i = 0; right && i < wanted; ++i)
        right = to[i] == plan_.model[offset + i];
      check_bytes(right);
    }
  }
  FERRY_DEVICE_CALL void reopen(int extra) {
    if (file_ > 0) {
      begin(Did::close, 0, 0);
      check(files_.close(file_), 0);
    }
    append_ = random_.one_in(4);
    const int flags = O_RDWR | extra | (append_ ? O_APPEND : 0);
    const int direct = random_.one_in(2) ? O_DIRECT : 0;
    begin(Did::open, static_cast<std::uint64_t>(flags | direct), 0);
    file_ = files_.open(plan_.name, flags | direct, 0644);
    if (file_ == -EINVAL) file_ = files_.open(plan_.name, flags, 0644);
    if (file_ <= 0) check(file_, 1);
    position_ = 0;
    if ((extra & O_TRUNC) != 0) cut(0);
  }

  FERRY_DEVICE static std::int64_t at(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
  }

  device::FileCalls<Group>& files_;
  Group group_;
  const CallsPlan& plan_;
  CallsState& state_;  // the leader writes it
  // Every lane's, and the same in all of them.
  DeviceRandom random_;
  std::uint64_t size_;
  std::uint64_t position_;
  std::int32_t file_;
  bool append_;
  bool failed_ = false;
  device::Placement placement_ = device::Placement::host;
};

// Group `index` makes `count` calls on plans[index].
struct RandomCallsProgram {
  const device::Context* context;
  const CallsPlan* plans;
  std::uint64_t count;
  bool last;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    device::FileCalls<Group> files(*context, group, index);
    (*this)(files, group, index);
  }
  template <class Group>
  FERRY_DEVICE void operator()(device::FileCalls<Group>& files, Group group,
                               std::uint32_t index) const {
    RandomCalls<Group>(files, group, plans[index]).run(count, last);
  }
};

}  // namespace ferry::test
