#include "simulator/bulk_client.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <ferry/bulk.hpp>

#include "bulk/scheduler.hpp"

namespace ferry::simulator {
namespace {

using Domain = FileHistory::Domain;

constexpr std::uint64_t buffer_bytes = file_bytes_max;

// The disks of a runtime, for an engine beside it.
class SharedDisks final : public storage::Storage {
 public:
  explicit SharedDisks(SimulatedStorage& both) : disks_(both) {}
  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return disks_.make_queue(options);
  }
  storage::Description describe() const override { return disks_.describe(); }

 private:
  SimulatedStorage& disks_;
};

class BulkClient {
 public:
  BulkClient(World& world, SimulatedStorage& both, Choices choices)
      : world_(world),
        choices_(choices),
        engine_(
            std::make_shared<bulk::Scheduler>(any_options(), std::make_unique<SharedDisks>(both))) {
    for (Transfer& transfer : transfers_)
      transfer.memory.fill(untouched);
  }

  void work(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (choices_.one_in(8)) sleep_for(choices_.below(300'000));
      make_a_call();
    }
    for (Transfer& transfer : transfers_)
      if (transfer.future.valid()) finish(transfer);
    for (std::size_t file = 0; file < files_.size(); ++file)
      close_file(file);
    for (const Transfer& transfer : transfers_)
      expect_untouched(transfer);
  }

 private:
  // Memory, and what is under way in it.
  struct Transfer {
    bulk::Future future;
    std::size_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    unsigned value = 0;  // 0: a read
    FileHistory::Call call{};
    bool is_cancelled = false;
    alignas(page) std::array<unsigned char, buffer_bytes> memory{};  // for direct transfers
  };

  bulk::EngineOptions any_options() {
    bulk::EngineOptions options;
    options.workers = static_cast<unsigned>(choices_.between(1, 3));
    options.depth = static_cast<unsigned>(choices_.between(1, 4));
    options.task_bytes = page * choices_.between(1, 3);
    options.route = choices_.one_in(2) ? bulk::Route::automatic : bulk::Route::direct;
    return options;
  }
  FileHistory& history(std::size_t file) { return world_.files[file]; }
  std::size_t disk_of(std::size_t file) const {
    return SimulatedStorage::disk_of(world_.files[file].name());
  }

  // Returns 0, or the negative errno that `call` threw.
  template <class Call>
  int make(const char* what, std::size_t disk, const Call& call) {
    int error = 0;
    world_.in_time_without_loops(what, disk, [&] {
      try {
        call();
      } catch (const Error& thrown) {
        error = thrown.code().value();
      }
    });
    note(static_cast<std::uint64_t>(error));
    expect(what, error);
    return -error;
  }
  void expect(const char* what, int error) const {
    if (error != 0 && !world_.is_of_a_disk(error))
      fail(std::string(what) + " in bulk fails with " + std::to_string(error) + "; " +
           world_.settings);
  }
  // Nothing writes to it after its transfer.
  static void expect_untouched(const Transfer& transfer) {
    for (std::uint64_t i = 0; i < buffer_bytes; i += 8)
      if (transfer.memory[i] != untouched) fail("memory of a bulk transfer changed after its end");
  }

  void make_a_call() {
    const std::size_t file = choices_.below(files_.size());
    const std::uint64_t what = choices_.below(100);
    if (what < 8) return read_files();
    if (!files_[file]) open_file(file);
    if (!files_[file]) return;
    if (what < 62) return transfer(file, what < 35);
    if (what < 80) return wait();
    if (what < 84) return truncate(file);
    if (what < 89) return sync(file);
    if (what < 92) return look(file);
    if (what < 95) return cancel();
    close_file(file);
  }

  void open_file(std::size_t file) {
    const bool cuts = choices_.one_in(10);
    const int flags = O_RDWR | O_CREAT | (choices_.one_in(8) ? O_DIRECT : 0) | (cuts ? O_TRUNC : 0);
    const auto call = history(file).begin(Domain::bulk);
    opened_[file] = call.began;
    const std::size_t truncation = cuts ? history(file).begin_truncate(0, Domain::bulk) : 0;
    const int error = make("open", disk_of(file),
                           [&] { files_[file].emplace(engine_, history(file).name(), flags); });
    if (cuts) history(file).end_truncate(truncation, error);
    if (error != 0) history(file).end_failed(call);
  }
  void close_file(std::size_t file) {
    if (!files_[file]) return;
    const auto call = history(file).begin(Domain::bulk);
    const int error = make("close", disk_of(file), [&] { files_[file]->close(); });
    if (error != 0) history(file).end_failed(call);
    files_[file].reset();
  }

  // Begins one, and waits for it at once or later.
  void transfer(std::size_t file, bool is_read) {
    Transfer& one = transfers_[choices_.below(transfers_.size())];
    if (one.future.valid()) finish(one);
    expect_untouched(one);
    one.file = file;
    one.bytes = choices_.one_in(3) ? page * choices_.between(1, 6) : choices_.between(1, 5 * page);
    one.offset = choices_.below(file_bytes_max - one.bytes + 1);
    if (choices_.one_in(3)) one.offset = one.offset / page * page;
    one.is_cancelled = false;
    one.value = is_read ? 0 : history(file).begin_write(one.offset, one.bytes, Domain::bulk);
    if (!is_read && one.value == 0) return;
    if (is_read) one.call = history(file).begin(Domain::bulk);
    one.call.opened = opened_[file];
    if (!is_read) std::memset(one.memory.data(), static_cast<int>(one.value), one.bytes);
    if (choices_.one_in(3)) return transfer_here(one);
    const int error = make("a transfer's begin", disk_of(file), [&] {
      const bulk::Part part{&*files_[file], one.memory.data(), one.bytes, one.offset};
      one.future = is_read ? engine_.read({&part, 1}) : engine_.write({&part, 1});
    });
    if (error != 0) return end(one, error);
    if (choices_.one_in(3)) finish(one);
  }
  // By a call that returns when it is made.
  void transfer_here(Transfer& one) {
    std::int64_t got = 0;
    const int error = make("a transfer", disk_of(one.file), [&] {
      const bulk::File& file = *files_[one.file];
      got = static_cast<std::int64_t>(
          one.value == 0 ? file.read_at(one.memory.data(), one.bytes, one.offset)
                         : file.write_at(one.memory.data(), one.bytes, one.offset));
    });
    end(one, error != 0 ? error : got);
  }
  void finish(Transfer& one) {
    std::int64_t result = 0;
    make("a transfer's end", disk_of(one.file), [&] { result = one.future.results()[0]; });
    one.future = bulk::Future();
    if (result < 0 && !(one.is_cancelled && result == -ECANCELED))
      expect("a transfer", static_cast<int>(-result));
    end(one, result);
  }
  void end(Transfer& one, std::int64_t result) {
    const bool may_be_short = world_.disks_fail || one.is_cancelled;
    if (result >= 0 && static_cast<std::uint64_t>(result) < one.bytes && one.value != 0 &&
        !may_be_short)
      fail("a bulk write is short");
    // What was cancelled says nothing of other calls.
    if (result == -ECANCELED) result = -ESHUTDOWN;
    if (one.value != 0) {
      history(one.file).end_write(one.value, result);
    } else {
      const std::uint64_t wanted =
          may_be_short && result >= 0 ? static_cast<std::uint64_t>(result) : one.bytes;
      history(one.file).end_read(one.call, one.offset, wanted, result, one.memory.data());
    }
    std::memset(one.memory.data(), untouched, one.bytes);
  }

  // For whichever is ready first: one on the disk that hangs does not hold up the other's.
  void wait() {
    std::vector<const bulk::Future*> futures;
    std::vector<Transfer*> transfers;
    std::size_t disk = 1;
    for (Transfer& one : transfers_) {
      if (!one.future.valid()) continue;
      futures.push_back(&one.future);
      transfers.push_back(&one);
      disk = std::min(disk, disk_of(one.file));
    }
    if (futures.empty()) return;
    std::size_t ready = 0;
    make("wait_any", disk, [&] { ready = bulk::wait_any(futures); });
    if (!transfers[ready]->future.ready()) fail("wait_any returns a transfer that is not ready");
    finish(*transfers[ready]);
  }
  void cancel() {
    Transfer& one = transfers_[choices_.below(transfers_.size())];
    if (!one.future.valid()) return;
    one.is_cancelled = true;
    make("cancel", disk_of(one.file), [&] { one.future.cancel(); });
    if (choices_.one_in(2)) finish(one);
  }

  void truncate(std::size_t file) {
    const std::uint64_t size = choices_.below(file_bytes_max);
    const std::size_t truncation = history(file).begin_truncate(size, Domain::bulk);
    history(file).end_truncate(
        truncation, make("truncate", disk_of(file), [&] { files_[file]->truncate(size); }));
  }
  void sync(std::size_t file) {
    const auto call = history(file).begin(Domain::bulk);
    history(file).end_sync(call, make("sync", disk_of(file), [&] { files_[file]->sync(); }));
  }
  void look(std::size_t file) {
    std::uint64_t size = 0;
    const auto call = history(file).begin(Domain::bulk);
    if (make("size", disk_of(file), [&] { size = files_[file]->size(); }) != 0)
      history(file).end_failed(call);
    if (size > file_bytes_max) fail("a size beyond all calls");
  }
  // All of them, on both disks.
  void read_files() {
    std::vector<std::string> paths;
    std::vector<FileHistory::Call> calls;
    for (FileHistory& file : world_.files) {
      paths.push_back(file.name());
      calls.push_back(file.begin(Domain::bulk));
      calls.back().opened = calls.back().began;
    }
    std::vector<bulk::Contents> contents;
    make("read_files", 1, [&] { contents = engine_.read_files(paths); });
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const bulk::Contents& one = contents[i];
      if (one.error_number == ENOENT) continue;  // not created yet
      expect("a read of a whole file", one.error_number);
      const auto got = one.error_number != 0 ? -std::int64_t{one.error_number}
                                             : static_cast<std::int64_t>(one.bytes);
      const std::uint64_t wanted = world_.disks_fail ? one.bytes : file_bytes_max;
      history(i).end_read(calls[i], 0, wanted, got,
                          reinterpret_cast<const unsigned char*>(one.data));
    }
  }

  World& world_;
  Choices choices_;
  bulk::Engine engine_;
  std::array<std::optional<bulk::File>, 3> files_;
  std::array<FileHistory::Time, 3> opened_{};
  std::array<Transfer, 4> transfers_;
};

}  // namespace

void run_bulk_client(World& world, SimulatedStorage& both, Choices choices) {
  // Not on the thread's stack, which is small.
  const auto client = std::make_unique<BulkClient>(world, both, choices);
  client->work(choices.between(10, 40));
}

}  // namespace ferry::simulator
