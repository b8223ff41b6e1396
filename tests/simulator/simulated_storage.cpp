#include "simulator/simulated_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

namespace ferry::simulator {
namespace {

using storage::Kind;

constexpr std::uint64_t sector = 512;
constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

bool is_transfer(Kind kind) {
  return kind == Kind::read || kind == Kind::write || kind == Kind::append;
}
bool is_change(Kind kind) {
  return kind == Kind::write || kind == Kind::append || kind == Kind::truncate;
}

std::uint64_t bytes_of(const storage::Operation& operation) {
  std::uint64_t bytes = 0;
  for (const iovec& vector : operation.vectors)
    bytes += vector.iov_len;
  return bytes;
}

void put(std::string& bytes, std::uint64_t offset, const std::string& data) {
  if (bytes.size() < offset + data.size()) bytes.resize(offset + data.size(), '\0');
  std::copy(data.begin(), data.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

struct SimulatedStorage::OpenedFile final : storage::File {
  OpenedFile(std::shared_ptr<SimulatedStorage::File> of, int opened_with, bool hangs)
      : file(std::move(of)), flags(opened_with), hangs_at_times(hangs) {}
  bool may_hang() const override { return hangs_at_times; }
  int late_change() const override { return file->late > 0 ? -ETIMEDOUT : 0; }
  std::shared_ptr<SimulatedStorage::File> file;
  int flags;
  bool hangs_at_times;
};

class SimulatedStorage::DiskQueue final : public storage::InboxQueue {
 public:
  DiskQueue(SimulatedStorage& storage, const storage::QueueOptions& options)
      : InboxQueue(options), storage_(storage) {}
  ~DiskQueue() override { await_others(); }
  void flush() override {
    if (storage_.death_is_due_ && thread_name() == "ferry-server") {
      storage_.death_is_due_ = false;
      throw std::runtime_error("a loop is to die");
    }
    InboxQueue::flush();
  }
  void cancel(storage::Operation& operation) override { storage_.cancel(operation); }

 private:
  void start(storage::Operation& operation) override {
    Job job = storage_.make_job(operation);
    job.inbox = &inbox_;
    if (storage_.take(std::move(job))) {
      give_away();
      count_pool_operation();
    } else {
      finish(operation);
      count_inline_operation();
    }
  }

  SimulatedStorage& storage_;
};

SimulatedStorage::SimulatedStorage(const DiskSettings& settings)
    : settings_(settings), choices_(fork_choices()) {
  for (Disk& disk : disks_)
    disk.thread = std::thread([this, &disk] {
      pthread_setname_np(pthread_self(), "disk");
      work(disk);
    });
}

SimulatedStorage::~SimulatedStorage() {
  ends_ = true;
  for (Disk& disk : disks_) {
    notify(&disk);
    disk.thread.join();
  }
}

std::unique_ptr<storage::Queue> SimulatedStorage::make_queue(const storage::QueueOptions& options) {
  return std::make_unique<DiskQueue>(*this, options);
}

storage::Description SimulatedStorage::describe() const {
  storage::Description description{"simulated", "simulated", {}};
  description.capabilities.cancels_transfers = settings_.cancels;
  return description;
}

void SimulatedStorage::hang(std::size_t disk, std::uint64_t until_ns) {
  disks_[disk].hangs_until_ns = until_ns;
}

// ---- what comes in

std::size_t SimulatedStorage::disk_of(const storage::Operation& operation) const {
  const bool names_a_path = operation.kind == Kind::open || operation.kind == Kind::path_status ||
                            operation.kind == Kind::unlink;
  if (names_a_path) return disk_of(std::string(operation.path));
  if (operation.file == nullptr) return 0;
  return static_cast<OpenedFile*>(operation.file)->file->disk;
}

SimulatedStorage::Job SimulatedStorage::make_job(storage::Operation& operation) {
  const OneStep whole;
  Job job;
  job.operation = &operation;
  job.kind = operation.kind;
  job.offset = static_cast<std::uint64_t>(operation.offset);
  job.limit = is_transfer(operation.kind) ? bytes_of(operation) : 0;
  if (operation.file != nullptr) {
    const auto& opened = static_cast<const OpenedFile&>(*operation.file);
    job.file = opened.file;
    job.at_end = operation.kind == Kind::append ||
                 (operation.kind == Kind::write && (opened.flags & O_APPEND) != 0);
    job.syncs = is_change(operation.kind) && (opened.flags & O_DSYNC) != 0;
  }
  choose_fate(job);
  return job;
}

void SimulatedStorage::choose_fate(Job& job) {
  if (settings_.one_in_is_short > 0 && job.limit > 1 && !job.at_end &&
      choices_.one_in(settings_.one_in_is_short))
    job.limit = choices_.between(1, job.limit - 1);
  if (settings_.one_in_fails == 0 || !choices_.one_in(settings_.one_in_fails)) return;
  job.error = fault_errors[choices_.below(std::size(fault_errors))];
  const bool is_status = job.kind == Kind::file_status || job.kind == Kind::path_status;
  if (job.kind == Kind::close) {
    job.fate = Fate::done_and_failed;  // it always takes the file
  } else if (job.kind == Kind::open || is_status || job.kind == Kind::unlink) {
    job.fate = Fate::refused;
  } else if (is_change(job.kind) && choices_.one_in(4)) {
    job.fate = Fate::late;
    job.error = ETIMEDOUT;
  } else if (job.limit > 1 && choices_.one_in(3)) {
    job.fate = Fate::shortened;
    job.limit = choices_.between(1, job.limit - 1);
  } else {
    job.fate = choices_.one_in(2) ? Fate::refused : Fate::done_and_failed;
  }
}

std::uint64_t SimulatedStorage::due_time() {
  if (settings_.long_delay_ns > 0 && choices_.one_in(20))
    return now_ns() + choices_.below(settings_.long_delay_ns);
  return now_ns() + choices_.below(settings_.delay_ns + 1);
}

bool SimulatedStorage::take(Job job) {
  const OneStep whole;
  Disk& disk = disks_[disk_of(*job.operation)];
  const bool is_inline = settings_.one_in_is_inline > 0 && disk.hangs_until_ns <= now_ns() &&
                         job.fate != Fate::late && choices_.one_in(settings_.one_in_is_inline);
  if (is_inline) {
    while (!advance(job))
      continue;
    return false;
  }
  job.due_ns = due_time();
  disk.jobs.push_back(std::move(job));
  notify(&disk);
  return true;
}

bool SimulatedStorage::cancel(storage::Operation& operation) {
  if (!settings_.cancels || operation.kind == Kind::close) return false;
  storage::Inbox* inbox = nullptr;
  for (Disk& disk : disks_) {
    const OneStep whole;
    const auto found = std::find_if(disk.jobs.begin(), disk.jobs.end(), [&](const Job& job) {
      return job.operation == &operation && !job.begun;
    });
    if (found == disk.jobs.end()) continue;
    inbox = found->inbox;
    disk.jobs.erase(found);
  }
  if (inbox == nullptr) return false;
  operation.result = -ECANCELED;
  inbox->put(operation);
  return true;
}

// ---- a disk's thread

void SimulatedStorage::work(Disk& disk) {
  for (;;) {
    if (ends_ && disk.jobs.empty()) return;
    if (const std::uint64_t due = next_due_time(disk); due > now_ns()) {
      wait(&disk, due);
      continue;
    }
    if (const Answered answered = do_first_job(disk); answered.operation != nullptr)
      answered.inbox->put(*answered.operation);
    point();
  }
}

std::uint64_t SimulatedStorage::next_due_time(const Disk& disk) {
  const OneStep whole;
  std::uint64_t due = never;
  for (const Job& job : disk.jobs)
    due = std::min(due, std::max(job.due_ns, disk.hangs_until_ns));
  return due;
}

// A step of the job that is due first.
SimulatedStorage::Answered SimulatedStorage::do_first_job(Disk& disk) {
  const OneStep whole;
  const auto next =
      std::min_element(disk.jobs.begin(), disk.jobs.end(),
                       [](const Job& one, const Job& other) { return one.due_ns < other.due_ns; });
  if (!advance(*next)) {
    next->due_ns = now_ns() + choices_.below(20'000);
    return {};
  }
  const Answered answered{next->operation, next->inbox};
  note(static_cast<std::uint64_t>(next->kind) << 32 | next->done);
  disk.jobs.erase(next);
  return answered;
}

// A step of a job.
bool SimulatedStorage::advance(Job& job) {
  if (!job.begun) {
    job.begun = true;
    if (job.operation != nullptr) {
      const bool must_wait =
          is_change(job.kind) || job.kind == Kind::sync || job.kind == Kind::sync_data;
      if (must_wait && job.file->late > 0) {
        job.fate = Fate::refused;
        job.error = ETIMEDOUT;
      }
      if (job.fate == Fate::refused) {
        job.operation->result = -job.error;
        return true;
      }
      if (job.fate == Fate::late) {
        become_late(job);
        return true;
      }
    }
    if (job.file != nullptr && is_change(job.kind)) ++job.file->changes;
    if (job.at_end) job.offset = job.file->bytes.size();
  }
  if (!is_transfer(job.kind)) {
    execute(job);
  } else {
    const std::uint64_t left = job.limit - job.done;
    std::uint64_t step = left;
    if (settings_.tears && !job.at_end && left > sector && choices_.one_in(2))
      step = std::min(left, choices_.between(1, 8) * sector - (job.offset + job.done) % sector);
    move(job, step);
    if (job.done < job.limit) return false;
    finish_transfer(job);
  }
  if (job.file != nullptr && is_change(job.kind)) {
    --job.file->changes;
    ++job.file->version;
    if (job.syncs) job.file->sync();
  }
  if (job.operation == nullptr) {
    --job.file->late;
  } else if (job.fate == Fate::done_and_failed) {
    job.operation->opened.reset();
    job.operation->result = -job.error;
  }
  return true;
}

void SimulatedStorage::move(Job& job, std::uint64_t bytes) {
  File& file = *job.file;
  const std::uint64_t at = job.offset + job.done;
  if (job.kind != Kind::read) {
    std::string data;
    if (job.operation == nullptr) {
      data = job.data.substr(job.done, bytes);
    } else {
      std::uint64_t skip = job.done;
      for (const iovec& vector : job.operation->vectors) {
        const std::uint64_t first = std::min<std::uint64_t>(skip, vector.iov_len);
        const std::uint64_t count = std::min(vector.iov_len - first, bytes - data.size());
        data.append(static_cast<const char*>(vector.iov_base) + first, count);
        skip -= first;
      }
    }
    put(file.bytes, at, data);
    if (!data.empty()) file.unsynced.push_back({false, at, std::move(data)});
    job.done += bytes;
    return;
  }
  const std::uint64_t there = at < file.bytes.size() ? std::min(bytes, file.bytes.size() - at) : 0;
  std::uint64_t skip = job.done;
  std::uint64_t moved = 0;
  for (const iovec& vector : job.operation->vectors) {
    const std::uint64_t first = std::min<std::uint64_t>(skip, vector.iov_len);
    const std::uint64_t count = std::min(vector.iov_len - first, there - moved);
    std::copy_n(file.bytes.data() + at + moved, count, static_cast<char*>(vector.iov_base) + first);
    moved += count;
    skip -= first;
  }
  job.done += moved;
  if (moved < bytes) job.limit = job.done;  // the end of the file
}

void SimulatedStorage::finish_transfer(Job& job) {
  if (job.operation == nullptr) return;
  job.operation->result = static_cast<std::int64_t>(job.done);
  if (job.kind == Kind::append) job.operation->value = job.offset + job.done;
}

// Its caller has an answer, the disk a copy.
void SimulatedStorage::become_late(Job& job) {
  Job rest = job;
  rest.operation = nullptr;
  rest.inbox = nullptr;
  rest.fate = Fate::works;
  rest.begun = false;
  rest.due_ns = now_ns() + choices_.below(3'000'000);
  for (const iovec& vector : job.operation->vectors)  // none of a truncation
    rest.data.append(static_cast<const char*>(vector.iov_base), vector.iov_len);
  if (is_transfer(rest.kind)) rest.limit = rest.data.size();
  ++job.file->late;
  job.operation->result = -ETIMEDOUT;
  disks_[job.file->disk].jobs.push_back(std::move(rest));
}

void SimulatedStorage::execute(Job& job) {
  if (job.operation == nullptr || job.kind == Kind::truncate) {
    job.file->bytes.resize(job.offset, '\0');
    job.file->unsynced.push_back({true, job.offset, ""});
    if (job.operation != nullptr) job.operation->result = 0;
    return;
  }
  storage::Operation& operation = *job.operation;
  operation.result = 0;
  switch (operation.kind) {
    case Kind::open:
      open(job);
      break;
    case Kind::close:
      for (const Disk& disk : disks_)
        for (const Job& other : disk.jobs)
          if (other.operation != nullptr && other.operation != &operation &&
              other.operation->file == operation.file)
            fail("a file is closed while an operation uses it");
      delete operation.file;
      break;
    case Kind::file_status:
      describe_file(*job.file, operation.status);
      break;
    case Kind::path_status: {
      const auto found = files_->find(operation.path);
      if (found == files_->end()) {
        operation.result = -ENOENT;
      } else {
        describe_file(*found->second, operation.status);
      }
      break;
    }
    case Kind::sync:
    case Kind::sync_data:
      job.file->sync();
      break;
    case Kind::unlink:
      operation.result = files_->erase(operation.path) > 0 ? 0 : -ENOENT;
      break;
    default:
      operation.result = -EOPNOTSUPP;
      break;
  }
}

void SimulatedStorage::open(Job& job) {
  storage::Operation& operation = *job.operation;
  const std::string path = operation.path;
  std::shared_ptr<File>& file = (*files_)[path];
  if (file == nullptr) {
    file = std::make_shared<File>();
    file->number = ++numbers_;
    file->disk = disk_of(path);
  }
  if ((operation.flags & O_TRUNC) != 0) {
    file->bytes.clear();
    file->unsynced.push_back({true, 0, ""});
    ++file->version;
  }
  operation.opened = std::make_unique<OpenedFile>(file, operation.flags, settings_.may_hang);
}

void SimulatedStorage::describe_file(const File& file, storage::Status& status) const {
  status.size_bytes = file.bytes.size();
  status.inode = file.number;
  status.device = file.disk + 1;
  status.mode = S_IFREG | 0644;
  status.links = 1;
  status.block_bytes = 4096;
  const bool is_steady = file.changes == 0 && file.late == 0;
  status.version = settings_.tells_versions && is_steady ? file.version : 0;
}

void SimulatedStorage::File::sync() {
  durable = bytes;
  unsynced.clear();
}

std::string SimulatedStorage::File::after_power_cut(Choices& choices) const {
  std::string left = durable;
  for (const Change& change : unsynced) {
    if (choices.one_in(3)) continue;
    if (change.truncates) {
      left.resize(change.offset, '\0');
    } else if (choices.one_in(3)) {
      put(left, change.offset, change.data.substr(0, choices.below(change.data.size() + 1)));
    } else {
      put(left, change.offset, change.data);
    }
  }
  return left;
}

}  // namespace ferry::simulator
