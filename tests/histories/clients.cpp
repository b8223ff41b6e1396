#include "histories/clients.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/bulk.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::histories {
namespace {

using device::Placement;
using Files = device::FileCalls<device::ThreadGroup>;

constexpr unsigned steps = 26;  // calls of a client in a round, about
constexpr std::uint64_t slot_bytes = file_bytes;
constexpr std::uint64_t long_record_bytes = 200'000;  // longer than what a group stages at once

test::Random random_of(const Round& round, unsigned client) {
  return test::Random(round.seed * clients + client);
}

// All clients begin together, as far as there are CPUs.
void arrive(SharedRecords& shared) {
  ++shared.arrived;
  while (shared.arrived < clients)
    std::this_thread::yield();
}

struct Range {
  std::uint64_t offset;
  std::uint64_t bytes;
};

// A few bytes, pages, or anything.
Range any_range(test::Random& random) {
  std::uint64_t offset = random.below(file_bytes);
  std::uint64_t bytes = random.between(1, random.one_in(2) ? 300 : 9000);
  if (random.one_in(4)) {
    offset = offset / 4096 * 4096;
    bytes = 4096 * random.between(1, 2);
  }
  return {offset, std::min(bytes, file_bytes - offset)};
}

std::uint64_t record_bytes(test::Random& random) {
  if (random.one_in(16)) return random.between(record_bytes_min, long_record_bytes);
  return random.between(record_bytes_min, random.one_in(2) ? 100 : 9000);
}

// A size to give a file: a few bytes less or more than a page, the first one, or anything.
std::uint64_t any_size(test::Random& random) {
  if (random.one_in(3)) return file_bytes;
  return random.one_in(3) ? 4096 * random.below(5) : random.below(file_bytes + 1);
}

// The value of the next write to a file; 0: there are none left.
unsigned next_value(SharedRecords& shared, FileName file) {
  const std::uint32_t value = ++shared.values[file];
  return value <= 255 ? value : 0;
}

// A handle, of whichever kind.
template <class Handle>
struct Opened {
  Handle handle{};
  Time at = 0;  // when the open began
  int flags = 0;
};

// What all kinds of clients have in common.
class Recorder {
 public:
  Recorder(SharedRecords& shared, unsigned client, Domain domain)
      : random(random_of(shared.round, client)),
        shared_(shared),
        client_(client),
        domain_(domain) {}

  ClientLog& log() { return shared_.logs[client_]; }
  // Notes what a call returned; false if that is not `wanted`.
  bool is(const std::string& call, std::int64_t got, std::int64_t wanted) {
    if (got == wanted) return true;
    log().fail("client " + std::to_string(client_) + ": " + call + " returned " +
               std::to_string(got) + " instead of " + std::to_string(wanted));
    return false;
  }
  // `call` returns the bytes that it moved to `data`.
  template <class Call>
  void read(FileName file, Range range, Time opened, const unsigned char* data, const Call& call) {
    if (!log().has_room(range.bytes)) return;
    RecordedCall event = event_of(CallKind::read, file, range);
    event.wanted = range.bytes;
    event.opened = opened;
    event.began = now();
    const std::int64_t got = call();
    event.ended = now();
    const bool may_be_short =
        shared_.round.cuts && got >= 0 && got < static_cast<std::int64_t>(range.bytes);
    if (may_be_short) event.bytes = static_cast<std::uint64_t>(got);
    if (is("a read", got, static_cast<std::int64_t>(event.bytes))) log().add(event, data);
  }
  // `call` gets the value to write.
  template <class Call>
  void write(FileName file, Range range, bool at_once, const Call& call) {
    if (!log().has_room(0)) return;
    const unsigned value = next_value(shared_, file);
    if (value == 0) return;
    RecordedCall event = event_of(CallKind::write, file, range);
    event.at_once = at_once;
    event.value = value;
    event.began = now();
    const std::int64_t got = call(value);
    event.ended = now();
    is("a write", got, static_cast<std::int64_t>(range.bytes));
    log().add(event);
  }
  // `call` gives the file this size.
  template <class Call>
  void cut(FileName file, std::uint64_t size, const Call& call) {
    if (!log().has_room(0)) return;
    RecordedCall event = event_of(CallKind::cut, file, {size, 0});
    event.began = now();
    const std::int64_t error = call();
    event.ended = now();
    if (is("a truncation", error, 0)) log().add(event);
  }
  // `call` returns the file's size.
  template <class Call>
  void look(FileName file, Time opened, const Call& call) {
    if (!log().has_room(0)) return;
    RecordedCall event = event_of(CallKind::look, file, {0, 0});
    event.opened = opened;
    event.began = now();
    const std::int64_t size = call();
    event.ended = now();
    event.offset = static_cast<std::uint64_t>(size);
    if (size < 0 || event.offset > file_bytes)
      log().fail("client " + std::to_string(client_) + " finds a size of " + std::to_string(size));
    log().add(event);
  }
  // `call` gets the record.
  template <class Call>
  void append(std::uint64_t bytes, const Call& call) {
    if (!log().has_room(0)) return;
    RecordedCall event = event_of(CallKind::append, log_of_all, {0, bytes});
    event.value = ++appended_;
    std::string record = record_contents(client_, appended_, bytes);
    event.began = now();
    const std::int64_t got = call(record);
    event.ended = now();
    is("an append", got, static_cast<std::int64_t>(bytes));
    log().add(event);
  }
  // What the domain wrote to the file before is in the storage when `call` returns.
  template <class Call>
  void publish(FileName file, const char* name, const Call& call) {
    RecordedCall event = event_of(CallKind::publish, file, {0, 0});
    event.began = now();
    const int error = call();
    event.ended = now();
    if (is(name + std::string(" of file ") + std::to_string(file), error, 0) && log().has_room(0))
      log().add(event);
  }

  // How the next transfers are made; for messages.
  void say(const std::string& how) { how_ = how; }

  test::Random random;

 private:
  RecordedCall event_of(CallKind kind, FileName file, Range range) const {
    RecordedCall event{};
    event.kind = kind;
    event.file = file;
    event.domain = domain_;
    event.offset = range.offset;
    event.bytes = range.bytes;
    std::snprintf(event.how, sizeof event.how, "%s", how_.c_str());
    return event;
  }

  SharedRecords& shared_;
  unsigned client_;
  Domain domain_;
  std::uint32_t appended_ = 0;
  std::string how_;
};

// ---- a device's thread -------------------------------------------------------------------------

class DeviceClient {
 public:
  // `memory` lies in the arena, and has slot_bytes.
  DeviceClient(SharedRecords& shared, unsigned client, Domain domain, Files& calls,
               unsigned char* memory, bool has_cache)
      : shared_(shared),
        record_(shared, client, domain),
        random_(record_.random),
        files_(calls),
        arena_(memory),
        outside_(slot_bytes),
        client_(client),
        domain_(domain),
        at_once_(shared.round.is_served() && !has_cache) {
    use(static_cast<unsigned>((client + shared.round.seed) % 4));
    changes_placement_ = shared.round.seed % 5 == 0;
  }

  void play() {
    for (const FileName file : {mine(), shared_by_all, log_of_all})
      open(file);
    arrive(shared_);
    for (unsigned i = 0; i < steps && !record_.log().failed(); ++i)
      step();
    end();
    ++shared_.finished;
  }
  // The same with a fault, when the others have closed their files.
  void play_wrong(ClientFault fault) {
    for (const FileName file : {mine(), shared_by_all, log_of_all})
      open(file);
    arrive(shared_);
    const bool shows_to_others = fault == ClientFault::stale_after_open ||
                                 fault == ClientFault::lost_flush ||
                                 fault == ClientFault::late_write;
    const FileName file = shows_to_others ? shared_by_all : mine();
    const Range all{0, file_bytes};
    use(1);
    std::string first(file_bytes, '\0');
    read_by(
        file, all, [&] { return read_all(file, first.data()); }, first.data());
    ++shared_.finished;
    while (shared_.finished < clients)
      std::this_thread::yield();
    write_all(file);
    do_wrong(fault, file, first);
    end();
  }

 private:
  Ways ways() const { return shared_.round.ways; }
  FileName mine() const { return domain_ == first_device ? of_first_device : of_second_device; }

  void open(FileName file, bool may_cut = false) {
    int flags = O_RDWR;
    if (file == log_of_all) flags = O_WRONLY | O_APPEND;
    // The log has no cuts: records are there once.
    const bool cuts = shared_.round.cuts && file != log_of_all && may_cut && random_.one_in(6);
    const bool is_cached = (file == mine() && ways() == Ways::through_the_cache) ||
                           shared_.round.fault != ClientFault::none;
    if (!is_cached && random_.one_in(8)) flags |= O_DSYNC;
    // Direct writes beside buffered ones by another process are not promised to work.
    if (file == mine() && !is_cached && random_.one_in(3)) flags |= O_DIRECT;
    auto& opened = opened_[file];
    opened.flags = flags;
    opened.at = now();
    if (cuts) return open_empty(file);
    opened.handle = files_.open(shared_.round.name(file).c_str(), flags);
    if (opened.handle == -EINVAL && (flags & O_DIRECT) != 0) {  // not on every file system
      opened.flags = flags & ~O_DIRECT;
      opened.handle = files_.open(shared_.round.name(file).c_str(), opened.flags);
    }
    if (opened.handle <= 0) record_.is("open", opened.handle, 1);
  }
  void open_empty(FileName file) {
    auto& opened = opened_[file];
    opened.flags &= ~O_DIRECT;
    record_.say("O_TRUNC");
    record_.cut(file, 0, [&] {
      opened.handle = files_.open(shared_.round.name(file).c_str(), opened.flags | O_TRUNC);
      return opened.handle > 0 ? 0 : opened.handle;
    });
  }
  void close(FileName file) {
    record_.publish(file, "close", [&] { return files_.close(opened_[file].handle); });
  }
  void end() {
    for (const FileName file : {mine(), shared_by_all, log_of_all})
      close(file);
    files_.drain();
  }

  void step() {
    if (changes_placement_ && random_.one_in(3)) use(static_cast<unsigned>(random_.below(4)));
    const std::uint64_t what = random_.below(100);
    if (what < 8 && shared_.round.may_append(domain_)) return append();
    const FileName file = random_.one_in(2) ? mine() : shared_by_all;
    if (shared_.round.cuts && random_.one_in(8)) return random_.one_in(2) ? cut(file) : look(file);
    const int handle = opened_[file].handle;
    if (what < 50) {
      read(file, any_range(random_));
    } else if (what < 80) {
      write(file, any_range(random_));
    } else if (what < 88) {
      record_.publish(file, "flush", [&] { return files_.flush(handle); });
    } else if (what < 90) {
      record_.publish(file, "fsync", [&] {
        return random_.one_in(2) ? files_.fsync(handle) : files_.fdatasync(handle);
      });
    } else if (what < 92) {
      record_.is("evict", files_.evict(handle), 0);
    } else if (what < 94) {
      const Range range = any_range(random_);
      files_.prefetch(handle, static_cast<std::int64_t>(range.offset), range.bytes);
    } else {
      close(file);
      open(file, true);
    }
  }

  void use(unsigned number) {
    if (ways() == Ways::through_the_cache) number = 1 + number % 2;  // compute or service
    constexpr Placement placements[] = {Placement::host, Placement::compute, Placement::service,
                                        Placement::automatic};
    constexpr const char* names[] = {"host", "compute", "service", "automatic"};
    files_.use(placements[number]);
    placement_ = names[number];
  }
  void say(FileName file) {
    const int flags = opened_[file].flags;
    record_.say(std::string(placement_) + ((flags & O_DIRECT) != 0 ? ", O_DIRECT" : "") +
                ((flags & O_DSYNC) == O_DSYNC ? ", O_DSYNC" : ""));
  }
  unsigned char* memory() { return random_.one_in(3) ? outside_.data() : arena_; }
  // Two pieces, at most, of `data`.
  static void cut(device::IoVector* pieces, unsigned char* data, Range range, std::uint64_t at) {
    pieces[0] = {data, at};
    pieces[1] = {data + at, range.bytes - at};
  }

  template <class Call, class Byte>
  void read_by(FileName file, Range range, const Call& call, const Byte* data) {
    record_.read(file, range, seen_since(file), reinterpret_cast<const unsigned char*>(data), call);
  }
  // What was published before then is found.
  Time seen_since(FileName file) const { return at_once_ ? now() : opened_[file].at; }
  void read(FileName file, Range range) {
    const int handle = opened_[file].handle;
    const auto offset = static_cast<std::int64_t>(range.offset);
    say(file);
    unsigned char* data = memory();
    const std::uint64_t how = random_.below(6);
    const std::uint64_t at = random_.below(range.bytes);
    read_by(
        file, range,
        [&] {
          if (how == 0) {
            device::Pending pending = files_.pread_async(handle, data, range.bytes, offset);
            return files_.wait(pending);
          }
          if (how > 1) return files_.pread(handle, data, range.bytes, offset);
          device::IoVector pieces[2];
          cut(pieces, data, range, at);
          return files_.preadv(handle, pieces, 2, offset);
        },
        data);
  }
  void write(FileName file, Range range) {
    const auto& opened = opened_[file];
    const auto offset = static_cast<std::int64_t>(range.offset);
    say(file);
    unsigned char* data = memory();
    const std::uint64_t how = random_.below(6);
    const std::uint64_t at = random_.below(range.bytes);
    const bool at_once = at_once_ || (opened.flags & O_DSYNC) != 0;
    record_.write(file, range, at_once, [&](unsigned value) {
      std::memset(data, static_cast<int>(value), range.bytes);
      if (how == 0) {
        device::Pending pending = files_.pwrite_async(opened.handle, data, range.bytes, offset);
        return files_.wait(pending);
      }
      if (how > 1) return files_.pwrite(opened.handle, data, range.bytes, offset);
      device::IoVector pieces[2];
      cut(pieces, data, range, at);
      return files_.pwritev(opened.handle, pieces, 2, offset);
    });
  }
  void cut(FileName file) { cut_to(file, any_size(random_)); }
  void cut_to(FileName file, std::uint64_t size) {
    say(file);
    record_.cut(file, size, [&] {
      return files_.ftruncate(opened_[file].handle, static_cast<std::int64_t>(size));
    });
  }
  void look(FileName file) {
    say(file);
    record_.look(file, seen_since(file), [&] {
      device::FileStatus status{};
      const int error = files_.fstat(opened_[file].handle, &status);
      return error != 0 ? std::int64_t{error} : static_cast<std::int64_t>(status.size_bytes);
    });
  }
  void append() {
    const int handle = opened_[log_of_all].handle;
    record_.append(record_bytes(random_), [&](std::string& record) {
      auto* data = reinterpret_cast<unsigned char*>(record.data());
      if (record.size() <= slot_bytes && random_.one_in(2)) {
        std::memcpy(arena_, record.data(), record.size());
        data = arena_;
      }
      switch (random_.below(3)) {
        case 0:
          return files_.write(handle, data, record.size());
        case 1:
          return files_.pwrite(handle, data, record.size(), 7);
        default: {
          device::IoVector pieces[2];
          cut(pieces, data, {0, record.size()}, record.size() / 3);
          return files_.pwritev(handle, pieces, 2, 7);
        }
      }
    });
  }

  // ---- faults ----------------------------------------------------------------------------------

  std::int64_t read_all(FileName file, void* data) {
    return files_.pread(opened_[file].handle, data, file_bytes, 0);
  }
  std::int64_t write_value(FileName file, unsigned value) {
    std::memset(arena_, static_cast<int>(value), file_bytes);
    return files_.pwrite(opened_[file].handle, arena_, file_bytes, 0);
  }
  void read_by_plain_calls(FileName file) {
    Recorder plain(shared_, 0, plain_domain);
    std::string found(file_bytes, '\0');
    const test::Descriptor descriptor(
        ::open(shared_.round.path(file).c_str(), O_RDONLY | O_CLOEXEC));
    plain.read(file, {0, file_bytes}, now(), reinterpret_cast<const unsigned char*>(found.data()),
               [&] { return ::pread(descriptor, found.data(), found.size(), 0); });
  }
  void write_all(FileName file) {
    record_.write(file, {0, file_bytes}, false,
                  [&](unsigned value) { return write_value(file, value); });
  }
  void do_wrong(ClientFault fault, FileName file, const std::string& first) {
    const Range all{0, file_bytes};
    const auto whole = static_cast<std::int64_t>(file_bytes);
    switch (fault) {
      case ClientFault::none:
        break;
      case ClientFault::stale_after_open:
        close(file);
        open(file);
        [[fallthrough]];
      case ClientFault::stale_read:
        read_by(
            file, all, [&] { return whole; }, first.data());
        break;
      case ClientFault::lost_write:
        record_.write(file, all, false, [&](unsigned) { return whole; });
        break;
      case ClientFault::lost_flush:
        record_.publish(file, "flush", [] { return 0; });
        read_by_plain_calls(file);
        break;
      case ClientFault::late_write: {
        unsigned late = 0;
        record_.write(file, all, true, [&](unsigned value) { return late = value, whole; });
        read_by_plain_calls(file);
        write_value(file, late);
        break;
      }
      case ClientFault::foreign_bytes:
        record_.write(file, {1000, 100}, false, [&](unsigned value) {
          std::string bytes = first;
          bytes.replace(1000, 100, 100, static_cast<char>(value));
          return files_.pwrite(opened_[file].handle, bytes.data(), bytes.size(), 0) == whole ? 100
                                                                                             : -EIO;
        });
        break;
      case ClientFault::double_append:
        record_.append(500, [&](std::string& record) {
          files_.write(opened_[log_of_all].handle, record.data(), record.size());
          return files_.write(opened_[log_of_all].handle, record.data(), record.size());
        });
        break;
      case ClientFault::lost_append:
        record_.append(500, [](const std::string& record) { return std::ssize(record); });
        break;
      case ClientFault::lost_cut:
        record_.cut(file, 5000, [] { return 0; });
        break;
      case ClientFault::revived_bytes: {
        std::string last(file_bytes, '\0');
        read_by(
            file, all, [&] { return read_all(file, last.data()); }, last.data());
        cut_to(file, 5000);
        cut_to(file, file_bytes);
        record_.publish(file, "flush", [&] {
          return files_.pwrite(opened_[file].handle, last.data() + 10'000, 10, 10'000) == 10
                     ? files_.flush(opened_[file].handle)
                     : -EIO;
        });
        break;
      }
      case ClientFault::stale_size:
        cut_to(file, 5000);
        record_.look(file, opened_[file].at, [] { return whole; });
        break;
    }
  }

  SharedRecords& shared_;
  Recorder record_;
  test::Random& random_;
  Files& files_;
  unsigned char* arena_;
  std::vector<unsigned char> outside_;
  unsigned client_;
  Domain domain_;
  bool at_once_;  // it finds at once what others without a cache have written, and they find its
  bool changes_placement_ = false;
  const char* placement_ = "";
  Opened<int> opened_[files];
};

// ---- bulk transfers ----------------------------------------------------------------------------

void play_bulk(SharedRecords& shared) {
  Recorder record(shared, bulk_client, bulk_domain);
  test::Random& random = record.random;
  arrive(shared);
  try {
    std::vector<unsigned char> data(file_bytes);
    const std::string path = shared.round.name(shared_by_all);
    const bool at_once = shared.round.is_served();
    const bulk::Engine engine;
    bulk::File log(engine, shared.round.name(log_of_all), O_WRONLY | O_APPEND);
    for (unsigned i = 0; i < steps;) {
      const Time opened = now();
      std::optional<bulk::File> opening;
      if (shared.round.cuts && random.one_in(6)) {
        record.say("O_TRUNC");
        record.cut(shared_by_all, 0,
                   [&] { return opening.emplace(engine, path, O_RDWR | O_TRUNC), 0; });
      } else {
        opening.emplace(engine, path, O_RDWR);
      }
      bulk::File& file = *opening;
      record.say("bulk");
      for (const unsigned until = i + static_cast<unsigned>(random.between(1, 8)); i < until; ++i) {
        const Range range = any_range(random);
        if (shared.round.cuts && random.one_in(8)) {
          if (random.one_in(2)) {
            const std::uint64_t size = any_size(random);
            record.cut(shared_by_all, size, [&] { return file.truncate(size), 0; });
          } else {
            record.look(shared_by_all, at_once ? now() : opened,
                        [&] { return static_cast<std::int64_t>(file.size()); });
          }
          continue;
        }
        switch (random.below(8)) {
          case 0:
            record.append(record_bytes(random), [&](const std::string& one) {
              log.append(one.data(), one.size());
              return std::ssize(one);
            });
            break;
          case 1:
            record.publish(shared_by_all, "sync", [&] { return file.sync(), 0; });
            break;
          case 2:
          case 3:
          case 4:
            record.write(shared_by_all, range, at_once, [&](unsigned value) {
              std::memset(data.data(), static_cast<int>(value), range.bytes);
              return static_cast<std::int64_t>(
                  file.write_at(data.data(), range.bytes, range.offset));
            });
            break;
          default:
            record.read(shared_by_all, range, at_once ? now() : opened, data.data(), [&] {
              return static_cast<std::int64_t>(
                  file.read_at(data.data(), range.bytes, range.offset));
            });
        }
      }
      record.publish(shared_by_all, "close", [&] { return file.close(), 0; });
    }
  } catch (const std::exception& error) {
    record.log().fail(std::string("bulk: ") + error.what());
  }
  ++shared.finished;
}

// ---- plain system calls ------------------------------------------------------------------------

void cut_or_look(const SharedRecords& shared, Recorder& record, int file) {
  const std::uint64_t size = any_size(record.random);
  switch (record.random.below(4)) {
    case 0:
      return record.cut(shared_by_all, size,
                        [&] { return test::plain(::ftruncate(file, static_cast<off_t>(size))); });
    case 1:
      return record.cut(shared_by_all, 0, [&] {
        const test::Descriptor other(
            ::open(shared.round.path(shared_by_all).c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
        return test::plain(other) < 0 ? -EIO : 0;
      });
    default:
      return record.look(shared_by_all, now(), [&] {
        struct stat status {};
        return ::fstat(file, &status) != 0 ? std::int64_t{-errno} : status.st_size;
      });
  }
}

void play_plain(SharedRecords& shared) {
  Recorder record(shared, plain_client, plain_domain);
  test::Random& random = record.random;
  const test::Descriptor file(::open(shared.round.path(shared_by_all).c_str(), O_RDWR | O_CLOEXEC));
  const test::Descriptor log(
      ::open(shared.round.path(log_of_all).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  std::vector<unsigned char> data(file_bytes);
  arrive(shared);
  for (unsigned i = 0; i < 2 * steps; ++i) {
    const Range range = any_range(random);
    const auto offset = static_cast<off_t>(range.offset);
    const std::uint64_t what = random.below(8);
    if (shared.round.cuts && random.one_in(12)) {
      cut_or_look(shared, record, file);
    } else if (what == 0 && shared.round.may_append(plain_domain)) {
      record.append(record_bytes(random), [&](const std::string& one) {
        return test::plain(::write(log, one.data(), one.size()));
      });
    } else if (what < 4) {
      record.write(shared_by_all, range, true, [&](unsigned value) {
        std::memset(data.data(), static_cast<int>(value), range.bytes);
        return test::plain(::pwrite(file, data.data(), range.bytes, offset));
      });
    } else {
      // ceph-fuse 16.2 reads wrong bytes where the file grows meanwhile (docs/reference/cephfs.md).
      if (shared.round.place == RoundPlace::ceph && shared.round.cuts) continue;
      record.read(shared_by_all, range, now(), data.data(),
                  [&] { return test::plain(::pread(file, data.data(), range.bytes, offset)); });
    }
    if (random.one_in(4)) std::this_thread::yield();
  }
  ++shared.finished;
}

}  // namespace

DeviceMember::DeviceMember(const RuntimeOptions& options, unsigned first_client, Domain domain,
                           bool with_bulk)
    : runtime_(options),
      memory_(runtime_.allocate(options.device_threads * slot_bytes)),
      first_client_(first_client),
      domain_(domain),
      with_bulk_(with_bulk),
      has_cache_(options.cache_bytes > 0) {}

void DeviceMember::play(SharedRecords& shared) {
  std::jthread bulk;
  if (with_bulk_) bulk = std::jthread([&shared] { play_bulk(shared); });
  runtime_.run([&](DeviceThread& self) {
    const unsigned client = first_client_ + self.index;
    DeviceClient one(shared, client, domain_, self.files,
                     memory_.as<unsigned char>() + self.index * slot_bytes, has_cache_);
    if (client == 0 && shared.round.fault != ClientFault::none) {
      one.play_wrong(shared.round.fault);
    } else {
      one.play();
    }
  });
}

void PlainMember::play(SharedRecords& shared) {
  play_plain(shared);
}

}  // namespace ferry::histories
