#include "simulator/clients.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

#include <ferry/runtime.hpp>

#include "simulator/bulk_client.hpp"
#include "simulator/environment.hpp"
#include "simulator/history.hpp"
#include "simulator/simulator.hpp"
#include "simulator/world.hpp"

namespace ferry::simulator {
namespace {

using device::Placement;
using Files = device::FileCalls<device::ThreadGroup>;

constexpr std::uint64_t buffer_bytes = 4 * page;

constexpr const char* log_path = "0log";

class Client {
 public:
  Client(World& world, DeviceThread& self, Choices choices, unsigned char* arena)
      : world_(world),
        calls_(self.files),
        choices_(choices),
        outside_(2 * buffer_bytes, untouched),
        buffers_{arena, arena + buffer_bytes, outside_.data(), outside_.data() + buffer_bytes} {
    std::memset(arena, untouched, 2 * buffer_bytes);
  }

  void work(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count && !buffers_are_lost_; ++i) {
      if (choices_.one_in(8)) sleep_for(choices_.below(300'000));
      calls_.use(some_placement());
      make_a_call();
    }
    for (std::size_t file = 0; file < own_.size(); ++file)
      close_file(file);
    if (log_handle_ > 0) close_log();
    for (unsigned char* buffer : buffers_)
      expect_untouched(buffer);
  }

 private:
  // ---- results

  // Makes a call on a file of this disk.
  template <class Call>
  std::int64_t make(const char* what, std::size_t disk, const Call& call) {
    std::int64_t result = 0;
    world_.in_time(what, disk, [&] { result = static_cast<std::int64_t>(call()); });
    note(static_cast<std::uint64_t>(result));
    // What a frozen loop still has in the storage may use the buffer later: the one exception in
    // docs/internals/architecture.md.
    if (result == -EIO && world_.trouble == Trouble::loop_freezes && world_.is_disturbed)
      buffers_are_lost_ = true;
    if (result < 0 && !may_fail(static_cast<int>(-result)))
      fail(std::string(what) + " returns " + std::to_string(result) + "; " + world_.settings);
    return result;
  }
  bool may_fail(int error) const {
    if (world_.is_of_a_disk(error)) return true;
    if (error == EIO && world_.is_disturbed) return true;
    if (error == EBADF && world_.is_disturbed) return true;  // of a handle whose close failed
    return error == ESHUTDOWN && world_.shuts_down;
  }

  // ---- memory

  unsigned char* some_buffer() {
    unsigned char* buffer = buffers_[choices_.below(buffers_.size())];
    expect_untouched(buffer);
    return buffer;
  }
  // Nothing writes to it after its call has returned.
  void expect_untouched(const unsigned char* buffer) const {
    if (buffers_are_lost_) return;
    for (std::uint64_t i = 0; i < buffer_bytes; i += 8)
      if (buffer[i] != untouched) fail("a buffer changed after its call had returned");
  }
  // Whoever still reads it finds a value that nobody writes.
  static void give_up(unsigned char* buffer, std::uint64_t bytes) {
    std::memset(buffer, untouched, bytes);
  }

  // ---- calls

  Placement some_placement() {
    constexpr Placement all[] = {Placement::host, Placement::compute, Placement::automatic,
                                 Placement::service};
    return all[choices_.below(4)];
  }
  std::uint64_t some_bytes() {
    if (choices_.one_in(6)) return page * choices_.between(1, 3);
    if (choices_.one_in(4)) return choices_.between(1, 3 * page);
    return choices_.between(1, 700);
  }
  std::uint64_t some_offset(std::uint64_t bytes) {
    const std::uint64_t last = file_bytes_max - bytes;
    if (choices_.one_in(3)) return std::min(last, choices_.below(8) * page);
    return choices_.below(last + 1);
  }
  std::size_t disk_of(std::size_t file) const {
    return SimulatedStorage::disk_of(world_.files[file].name());
  }

  void make_a_call() {
    const std::size_t file = choices_.below(world_.files.size());
    const std::uint64_t what = choices_.below(100);
    if (what < 12) return use_log();
    if (own_[file] <= 0) open_file(file);
    const int handle = choices_.one_in(3) ? world_.shared[file] : own_[file];
    if (handle <= 0) return;
    if (what < 45) return read(file, handle);
    if (what < 75) return write(file, handle);
    if (what < 82) return transfer_asynchronously(file, handle);
    if (what < 85) return truncate(file, handle);
    if (what < 91) return sync(file, handle);
    if (what < 94) return advise(file, handle);
    if (what < 96) return look(file, handle);
    close_file(file);
  }

  void open_file(std::size_t file) {
    const bool cuts = choices_.one_in(10);
    const int flags = O_RDWR | O_CREAT | (choices_.one_in(10) ? O_DSYNC : 0) | (cuts ? O_TRUNC : 0);
    const auto call = world_.files[file].begin();
    const std::size_t truncation = cuts ? world_.files[file].begin_truncate(0) : 0;
    const std::int64_t got = make("open", disk_of(file), [&] {
      return calls_.open(world_.files[file].name().c_str(), flags, 0644);
    });
    if (cuts) world_.files[file].end_truncate(truncation, got < 0 ? static_cast<int>(got) : 0);
    if (got < 0 && got != -ESHUTDOWN) world_.files[file].end_failed(call);
    own_[file] = static_cast<int>(got);
    opened_[file] = call.began;
  }
  void close_file(std::size_t file) {
    if (own_[file] <= 0) return;
    const auto call = world_.files[file].begin();
    const std::int64_t got = make("close", disk_of(file), [&] { return calls_.close(own_[file]); });
    world_.files[file].end_publication(call, static_cast<int>(got));
    own_[file] = 0;
  }

  void read(std::size_t file, int handle) {
    const std::uint64_t bytes = some_bytes();
    const std::uint64_t offset = some_offset(bytes);
    unsigned char* buffer = some_buffer();
    const auto call = world_.files[file].begin();
    const std::int64_t got = make("pread", disk_of(file), [&] {
      if (bytes > 2 && choices_.one_in(8)) {
        const device::IoVector pieces[] = {{buffer, bytes / 2},
                                           {buffer + bytes / 2, bytes - bytes / 2}};
        return calls_.preadv(handle, pieces, 2, static_cast<std::int64_t>(offset));
      }
      return calls_.pread(handle, buffer, bytes, static_cast<std::int64_t>(offset));
    });
    end_read(call, file, handle, offset, bytes, got, buffer);
  }
  void end_read(FileHistory::Call call, std::size_t file, int handle, std::uint64_t offset,
                std::uint64_t bytes, std::int64_t got, unsigned char* buffer) {
    // The shared handles are opened before all else.
    if (handle == own_[file]) call.opened = opened_[file];

    // Of a shortened read, what it did not get says nothing.
    const bool may_be_short = got >= 0 && world_.calls_may_be_short();
    const std::uint64_t wanted = may_be_short ? static_cast<std::uint64_t>(got) : bytes;
    world_.files[file].end_read(call, offset, wanted, got, buffer);
    give_up(buffer, bytes);
  }

  void write(std::size_t file, int handle) {
    const std::uint64_t bytes = some_bytes();
    const std::uint64_t offset = some_offset(bytes);
    const unsigned value = world_.files[file].begin_write(offset, bytes);
    if (value == 0) return;
    unsigned char* buffer = some_buffer();
    std::memset(buffer, static_cast<int>(value), bytes);
    const std::int64_t got = make("pwrite", disk_of(file), [&] {
      if (bytes > 2 && choices_.one_in(8)) {
        const device::IoVector pieces[] = {{buffer, bytes / 2},
                                           {buffer + bytes / 2, bytes - bytes / 2}};
        return calls_.pwritev(handle, pieces, 2, static_cast<std::int64_t>(offset));
      }
      return calls_.pwrite(handle, buffer, bytes, static_cast<std::int64_t>(offset));
    });
    end_write(file, value, bytes, got);
    give_up(buffer, bytes);
  }
  void end_write(std::size_t file, unsigned value, std::uint64_t bytes, std::int64_t got) {
    world_.files[file].end_write(value, got);
    if (got >= 0 && static_cast<std::uint64_t>(got) < bytes && !world_.calls_may_be_short())
      fail("a write is short");
  }

  void transfer_asynchronously(std::size_t file, int handle) {
    const std::uint64_t bytes = choices_.between(1, 3000);
    const std::uint64_t offset = some_offset(2 * bytes);
    unsigned char* reads_to = buffers_[0];
    unsigned char* writes_from = buffers_[1];
    expect_untouched(reads_to);
    expect_untouched(writes_from);
    const unsigned value = world_.files[file].begin_write(offset, bytes);
    if (value == 0) return;
    std::memset(writes_from, static_cast<int>(value), bytes);
    const auto call = world_.files[file].begin();
    device::Pending pending[2] = {
        calls_.pwrite_async(handle, writes_from, bytes, static_cast<std::int64_t>(offset)),
        calls_.pread_async(handle, reads_to, bytes, static_cast<std::int64_t>(offset + bytes))};
    std::uint32_t next = static_cast<std::uint32_t>(choices_.below(2));
    if (choices_.one_in(2))
      make("wait_any", disk_of(file), [&] { return next = calls_.wait_any(pending, 2); });
    for (int i = 0; i < 2; ++i, next = 1 - next) {
      const std::int64_t got =
          make("wait", disk_of(file), [&] { return calls_.wait(pending[next]); });
      if (next == 0) {
        end_write(file, value, bytes, got);
        give_up(writes_from, bytes);
      } else {
        end_read(call, file, handle, offset + bytes, bytes, got, reads_to);
      }
    }
  }

  void truncate(std::size_t file, int handle) {
    const std::uint64_t size =
        choices_.one_in(3) ? choices_.below(8) * page : choices_.below(file_bytes_max);
    const std::size_t truncation = world_.files[file].begin_truncate(size);
    const std::int64_t got = make("ftruncate", disk_of(file), [&] {
      return calls_.ftruncate(handle, static_cast<std::int64_t>(size));
    });
    world_.files[file].end_truncate(truncation, static_cast<int>(got));
  }

  void sync(std::size_t file, int handle) {
    const std::uint64_t which = choices_.below(3);
    const auto call = world_.files[file].begin();
    const std::int64_t got = make("fsync", disk_of(file), [&] {
      return which == 0   ? calls_.fsync(handle)
             : which == 1 ? calls_.fdatasync(handle)
                          : calls_.flush(handle);
    });
    if (which < 2) {
      world_.files[file].end_sync(call, static_cast<int>(got));
    } else {
      world_.files[file].end_publication(call, static_cast<int>(got));
    }
  }

  void advise(std::size_t file, int handle) {
    const auto call = world_.files[file].begin();
    const std::int64_t got = make("prefetch or evict", disk_of(file), [&] {
      return choices_.one_in(2) ? calls_.evict(handle)
                                : calls_.prefetch(handle, 0, choices_.below(file_bytes_max));
    });
    if (got < 0 && got != -ESHUTDOWN) world_.files[file].end_failed(call);
  }

  void look(std::size_t file, int handle) {
    device::FileStatus status{};
    const auto call = world_.files[file].begin();
    const std::int64_t got =
        make("fstat", disk_of(file), [&] { return calls_.fstat(handle, &status); });
    if (got < 0 && got != -ESHUTDOWN) world_.files[file].end_failed(call);
    if (got == 0 && status.size_bytes > file_bytes_max) fail("a size beyond all calls");
  }

  // ---- appended records

  void use_log() {
    if (log_handle_ <= 0) {
      log_handle_ = static_cast<int>(make(
          "open", 0, [&] { return calls_.open(log_path, O_RDWR | O_CREAT | O_APPEND, 0644); }));
      if (log_handle_ <= 0) return;
    }
    const std::uint64_t what = choices_.below(10);
    unsigned char* buffer = some_buffer();
    if (what < 6) {
      const std::uint64_t bytes = choices_.between(1, 900);
      const unsigned value = world_.log.begin_append(bytes);
      if (value == 0) return;
      std::memset(buffer, static_cast<int>(value), bytes);
      world_.log.end_append(
          value, make("append", 0, [&] { return calls_.write(log_handle_, buffer, bytes); }));
      give_up(buffer, bytes);
    } else if (what < 8) {
      const std::uint64_t bytes = choices_.between(1, 3 * page);
      const std::int64_t got = make("pread", 0, [&] {
        return calls_.pread(log_handle_, buffer, bytes,
                            static_cast<std::int64_t>(choices_.below(4 * page)));
      });
      const std::string problem = world_.log.check_read(buffer, got);
      if (!problem.empty()) fail(problem);
      give_up(buffer, bytes);
    } else if (what < 9) {
      const auto began = world_.log.begin();
      const std::int64_t got = make("fsync", 0, [&] { return calls_.fsync(log_handle_); });
      world_.log.end_sync(began, static_cast<int>(got));
    } else {
      close_log();
    }
  }
  void close_log() {
    make("close", 0, [&] { return calls_.close(log_handle_); });
    log_handle_ = 0;
  }

  World& world_;
  Files& calls_;
  Choices choices_;
  std::vector<unsigned char> outside_;
  std::array<unsigned char*, 4> buffers_;
  std::array<int, 3> own_{};
  std::array<FileHistory::Time, 3> opened_{};
  int log_handle_ = 0;
  bool buffers_are_lost_ = false;
};

class Simulation {
 public:
  Simulation() : choices_(fork_choices()) {
    choose_trouble();
    choose_disks();
    choose_runtime();
    describe();
  }

  void run() {
    expect_no_stall([this] { return no_stall_is_expected(); });
    Runtime runtime(options_);
    const device::ArenaView& arena = runtime.context().arena;
    delay_stores_in(arena.base, arena.layout.geometry.arena_bytes);
    storage_ = current_storage;
    files_ = storage_->files();
    std::thread trouble([&] { make_trouble(runtime); });
    std::thread bulk;
    if (has_bulk_) bulk = std::thread([&] { run_bulk_client(world_, *storage_, fork_choices()); });
    runtime.run([&](DeviceThread& self) { run_client(runtime, self); });
    trouble.join();
    if (bulk.joinable()) bulk.join();
    storage_->stop_failing();
    end(runtime);
    delay_stores_in(nullptr, 0);
  }
  // After the runtime.
  void check() {
    become_quiet();
    Choices cut = fork_choices();
    for (FileHistory& file : world_.files) {
      expect_none(file.check_reads());
      const auto found = files_->find(file.name());
      if (found == files_->end()) continue;
      expect_none(file.check_contents(found->second->bytes));
      expect_none(file.check_after_power_cut(found->second->after_power_cut(cut)));
    }
    const auto log = files_->find(log_path);
    if (log == files_->end()) return;
    expect_none(world_.log.check_contents(log->second->bytes));
    expect_none(world_.log.check_after_power_cut(log->second->after_power_cut(cut)));
  }

 private:
  void expect_none(const std::string& problem) const {
    if (!problem.empty()) fail(problem + "\n" + world_.settings);
  }
  void describe() {
    constexpr const char* names[] = {"no trouble",     "a disk hangs", "a loop starves",
                                     "a loop freezes", "a loop dies",  "a shutdown"};
    world_.settings = std::string(names[static_cast<std::size_t>(world_.trouble)]) +
                      (world_.disks_fail ? ", disks fail" : "") +
                      (world_.disks_shorten ? ", disks shorten" : "") + ", " +
                      std::to_string(options_.device_threads) + " clients, " +
                      std::to_string(options_.server_threads) + " loops, " +
                      std::to_string(options_.service_threads) + " services, " +
                      std::to_string(options_.cache_bytes / page) + " pages" +
                      (has_bulk_ ? ", bulk transfers" : "");
  }
  void choose_trouble() {
    constexpr Trouble all[] = {Trouble::none,         Trouble::none,       Trouble::none,
                               Trouble::disk_hangs,   Trouble::disk_hangs, Trouble::loop_starves,
                               Trouble::loop_freezes, Trouble::loop_dies,  Trouble::shutdown,
                               Trouble::shutdown};
    world_.trouble = all[choices_.below(std::size(all))];
    world_.trouble_ns = choices_.below(15 * millisecond);
    world_.disks_fail = choices_.one_in(3);
    world_.disks_shorten = !world_.disks_fail && choices_.one_in(3);
    has_bulk_ = choices_.one_in(2);
  }
  void choose_disks() {
    constexpr std::uint64_t delays[] = {2'000, 50'000, 400'000};
    next_disks.delay_ns = delays[choices_.below(3)];
    next_disks.long_delay_ns = choices_.below(3) * 3 * millisecond;
    next_disks.one_in_is_inline = choices_.below(4);
    next_disks.one_in_fails = world_.disks_fail ? choices_.between(8, 80) : 0;
    next_disks.one_in_is_short = world_.disks_shorten ? choices_.between(2, 20) : 0;
    next_disks.tears = choices_.one_in(2);
    next_disks.cancels = choices_.one_in(2);
    next_disks.tells_versions = choices_.one_in(2);
    next_disks.may_hang = world_.trouble == Trouble::disk_hangs || choices_.one_in(2);
  }
  void choose_runtime() {
    options_.device_threads = static_cast<unsigned>(choices_.between(2, 4));
    options_.server_threads = static_cast<unsigned>(choices_.between(1, 2));
    options_.rings = options_.server_threads;
    options_.device_cpus = "0-4";
    options_.server_cpus = "5-7";
    options_.arena_bytes = options_.device_threads * 3 * buffer_bytes;
    options_.cache_bytes = choices_.one_in(6) ? 0 : choices_.between(3, 24) * page;
    options_.page_bytes = page;
    options_.service_threads = choices_.one_in(3) ? 1 : 0;
    options_.files_max = 32;
    constexpr unsigned spins_us[] = {0, 0, 2, 20};
    options_.device_spin = std::chrono::microseconds(spins_us[choices_.below(4)]);
    options_.server_spin = std::chrono::microseconds(spins_us[choices_.below(4)]);
    options_.liveness_timeout = std::chrono::milliseconds(1000);
    options_.readahead_bytes_max = static_cast<std::uint32_t>(choices_.between(1, 8) * page);
    device::Crossovers crossovers;
    crossovers.host_write_bytes_min = choices_.one_in(2) ? 1000 : crossovers.host_write_bytes_min;
    crossovers.service_read_bytes_min = choices_.one_in(2) ? 2000 : crossovers.never;
    options_.crossovers = crossovers;
    auto& switches = options_.cache_switches;
    for (bool* one : {&switches.batched_allocation, &switches.batched_insertion,
                      &switches.precomputed_hash, &switches.quiet_wakeups, &switches.readahead})
      *one = !choices_.one_in(5);
  }

  bool no_stall_is_expected() const {
    return world_.clients_in_calls > 0 && !world_.is_disturbed && !world_.shuts_down && !hangs_;
  }

  void run_client(Runtime& runtime, DeviceThread& self) {
    const Buffer buffer = runtime.allocate(2 * buffer_bytes);
    Choices choices = fork_choices();
    if (self.index == 0) {
      for (std::size_t file = 0; file < world_.shared.size(); ++file)
        world_.shared[file] = self.files.open(world_.files[file].name().c_str(), O_RDWR | O_CREAT);
    }
    Client(world_, self, choices, static_cast<unsigned char*>(buffer.data()))
        .work(choices.between(15, 60));
  }

  void make_trouble(Runtime& runtime) {
    sleep_for(world_.trouble_ns);
    switch (world_.trouble) {
      case Trouble::none:
        break;
      case Trouble::disk_hangs:
        hangs_ = true;
        world_.hung_ns = choices_.between(200, 3000) * millisecond;
        storage_->hang(1, now_ns() + world_.hung_ns);
        sleep_for(world_.hung_ns);
        hangs_ = false;
        break;
      case Trouble::loop_starves:
        world_.is_disturbed = true;
        hold_up("ferry-server", choices_.between(1, 3000) * millisecond, true);
        break;
      case Trouble::loop_freezes:
        lose_the_rest();
        hold_up("ferry-server", choices_.between(1, 3000) * millisecond, false);
        break;
      case Trouble::loop_dies:
        lose_the_rest();
        storage_->let_a_loop_die();
        break;
      case Trouble::shutdown:
        shut_down(runtime,
                  std::chrono::milliseconds(choices_.one_in(2) ? 5000 : choices_.below(20)));
        break;
    }
  }
  // Errors of a loop that is dead are not those of a file.
  void lose_the_rest() {
    world_.is_disturbed = true;
    for (FileHistory& file : world_.files) {
      file.may_lose();
      // As above: from memory that its caller has given up.
      if (world_.trouble == Trouble::loop_freezes) file.may_hold(untouched);
    }
  }
  ShutdownReport shut_down(Runtime& runtime, std::chrono::milliseconds deadline) {
    world_.shuts_down = true;
    const std::uint64_t began = now_ns();
    ShutdownReport report = runtime.shutdown(deadline);
    const std::uint64_t took = now_ns() - began;
    if (took > (static_cast<std::uint64_t>(deadline.count()) + 250) * millisecond && !is_held_up())
      fail("a shutdown takes " + std::to_string(took / millisecond) + " ms");
    return report;
  }
  void end(Runtime& runtime) {
    const bool may_have_errors = world_.disks_fail || world_.is_disturbed;
    const ShutdownReport report = shut_down(runtime, std::chrono::seconds(10));
    const bool is_written = report.finished && report.errors.empty();
    for (FileHistory& file : world_.files) {
      if (is_written) file.end_publication(file.begin(), 0);
      if (!is_written) file.may_lose();
    }
    if (is_written) return;
    if (may_have_errors) return;
    std::string text = "the last shutdown reports:";
    for (const std::string& error : report.errors)
      text += " " + error + ";";
    fail(text + " " + world_.settings);
  }

  Choices choices_;
  World world_;
  RuntimeOptions options_;
  SimulatedStorage* storage_ = nullptr;
  std::shared_ptr<SimulatedStorage::Files> files_;
  bool has_bulk_ = false;
  bool hangs_ = false;
};

}  // namespace

void run_clients() {
  Simulation simulation;
  simulation.run();
  simulation.check();
}

}  // namespace ferry::simulator
