// Files in memory on two disks, which take their time: operations are executed late, in any order
// and in parts, and fail in all the ways that storage/storage.hpp allows. Nothing is durable that
// was not synced.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "simulator/simulator.hpp"
#include "storage/queue/inbox_queue.hpp"
#include "storage/storage.hpp"

namespace ferry::simulator {

inline constexpr std::size_t disks = 2;
inline constexpr int fault_errors[] = {EIO, ENOSPC, EDQUOT, ESTALE, EINTR};

struct DiskSettings {
  std::uint64_t delay_ns = 100'000;    // most take up to this
  std::uint64_t long_delay_ns = 0;     // and one in 20 this
  std::uint64_t one_in_is_inline = 0;  // executed by the server's thread; 0: none
  std::uint64_t one_in_fails = 0;      // 0: none
  // Of reads and writes, where none fails: they move a part, and what is behind it by the next one.
  std::uint64_t one_in_is_short = 0;
  bool tears = true;  // executes long transfers in parts
  bool cancels = true;
  bool tells_versions = true;
  bool may_hang = true;  // so that bulk transfers do not make blocking calls on it
};

class SimulatedStorage final : public storage::Storage {
 public:
  explicit SimulatedStorage(const DiskSettings& settings);
  // Waits for both disks.
  ~SimulatedStorage() override;

  // A path that begins with a digit lies on that disk.
  static std::size_t disk_of(const std::string& path) { return path[0] == '1' ? 1 : 0; }

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override;
  storage::Description describe() const override;

  // What lives on when the runtime and its storage are gone.
  struct File {
    std::uint64_t number = 0;
    std::size_t disk = 0;
    std::string bytes;
    std::string durable;
    std::uint64_t version = 1;
    unsigned changes = 0;  // that have begun and not ended
    unsigned late = 0;     // changes that were answered and are still to come
    struct Change {
      bool truncates;
      std::uint64_t offset;
      std::string data;
    };
    std::vector<Change> unsynced;
    // The bytes that a power cut now leaves: any of the changes that were not synced, torn.
    std::string after_power_cut(Choices& choices) const;
    void sync();
  };
  using Files = std::map<std::string, std::shared_ptr<File>>;
  std::shared_ptr<Files> files() const { return files_; }

  void stop_failing() { settings_.one_in_fails = 0; }
  // Until then this disk does nothing.
  void hang(std::size_t disk, std::uint64_t until_ns);
  // The next queue that is asked to work throws.
  void let_a_loop_die() { death_is_due_ = true; }
  bool death_is_due() const { return death_is_due_; }

 private:
  enum class Fate : std::uint8_t { works, refused, done_and_failed, shortened, late };
  struct Job {
    storage::Operation* operation = nullptr;
    storage::Inbox* inbox = nullptr;
    std::shared_ptr<File> file;
    Fate fate = Fate::works;
    int error = 0;
    bool begun = false;
    bool at_end = false;  // appends
    bool syncs = false;   // O_DSYNC
    std::uint64_t due_ns = 0;
    std::uint64_t done = 0;
    std::uint64_t limit = 0;  // bytes to move
    // Of a late change, which no operation belongs to any more.
    storage::Kind kind = storage::Kind::read;
    std::uint64_t offset = 0;
    std::string data;
  };
  struct Disk {
    std::list<Job> jobs;
    std::uint64_t hangs_until_ns = 0;
    std::thread thread;
  };
  struct OpenedFile;
  class DiskQueue;

  struct Answered {
    storage::Operation* operation = nullptr;
    storage::Inbox* inbox = nullptr;
  };
  void work(Disk& disk);
  static std::uint64_t next_due_time(const Disk& disk);
  Answered do_first_job(Disk& disk);
  std::size_t disk_of(const storage::Operation& operation) const;
  Job make_job(storage::Operation& operation);
  void choose_fate(Job& job);
  std::uint64_t due_time();
  bool take(Job job);  // false: it is done already
  bool cancel(storage::Operation& operation);
  bool advance(Job& job);  // true: it is over
  void execute(Job& job);
  void move(Job& job, std::uint64_t bytes);
  void finish_transfer(Job& job);
  void become_late(Job& job);
  void open(Job& job);
  std::shared_ptr<File> find(const std::string& path);
  void describe_file(const File& file, storage::Status& status) const;

  DiskSettings settings_;
  Choices choices_;
  std::shared_ptr<Files> files_ = std::make_shared<Files>();
  std::array<Disk, disks> disks_;
  std::uint64_t numbers_ = 0;
  bool ends_ = false;
  bool death_is_due_ = false;
};

}  // namespace ferry::simulator
