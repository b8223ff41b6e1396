#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "bulk/files_job.hpp"
#include "bulk/scheduler.hpp"

namespace ferry::bulk {
namespace {

// Up to this size a transfer is a blocking call on the caller's thread: a hand-over costs more.
constexpr std::uint64_t sync_bytes_max = 128 << 10;

// A file that one call uses.
class BriefUse {
 public:
  explicit BriefUse(EngineFile& file) : file_(file) {
    if (!file.begin_use()) throw Error(EBADF, file.path() + " is closed");
  }
  ~BriefUse() { file_.end_use(); }
  BriefUse(const BriefUse&) = delete;
  BriefUse& operator=(const BriefUse&) = delete;

 private:
  EngineFile& file_;
};

// A weak reference: only users keep the engine alive.
struct CommonScheduler {
  std::mutex mutex;
  std::weak_ptr<Scheduler> known;
};

// For a path, not an open file.
storage::Status execute_on_path(Scheduler& scheduler, storage::Operation operation) {
  scheduler.check_usable();
  const std::int64_t error = Lanes::Use(*scheduler.lanes())->run(operation);
  if (error < 0) throw error_on_path(scheduler.lanes()->storage(), error, operation.path);
  return operation.status;
}

PathStatus to_path_status(const storage::Status& status) {
  return {status.size_bytes, status.modified_ns, status.mode};
}

storage::Status control(EngineFile& file, storage::Operation operation) {
  const BriefUse use(file);
  storage::checked(file.control(operation), file.path());
  return operation.status;
}

bool is_on_gpu(Scheduler& scheduler, const void* memory) {
  return scheduler.gpus().owner_of(memory) != nullptr;
}

[[noreturn]] void fail(EngineFile& file, std::uint64_t bytes, std::uint64_t offset,
                       std::int64_t error) {
  throw TransferError({Failure{0, file.path(), offset, bytes, static_cast<int>(-error)}});
}

[[noreturn]] void refuse_gpu_memory(const EngineFile& file) {
  throw Error(ENOTSUP, file.path() + ": what is appended has to be in memory of the host");
}

// Executes a small transfer on the caller's thread.
std::uint64_t transfer_here(Scheduler& scheduler, EngineFile& file, Direction direction, void* data,
                            std::uint64_t bytes, std::uint64_t offset) {
  const BriefUse use(file);
  const Lanes::Use lane(*scheduler.lanes());
  const bool direct = direction == Direction::read && scheduler.options().route == Route::direct;
  storage::File* past_cache = direct ? file.direct() : nullptr;
  const std::int64_t result = lane->transfer(past_cache != nullptr ? *past_cache : file.buffered(),
                                             direction, data, bytes, offset);
  SchedulerCounters& counters = scheduler.counters();
  counters.add(&EngineStatistics::transfers);
  counters.add(&EngineStatistics::parts);
  if (result < 0) {
    counters.add(&EngineStatistics::failed_parts);
    fail(file, bytes, offset, result);
  }
  counters.add(&EngineStatistics::copied_tasks);
  counters.add_bytes(direction, static_cast<std::uint64_t>(result));
  return static_cast<std::uint64_t>(result);
}

}  // namespace

Engine::Engine(const EngineOptions& options) : scheduler_(Scheduler::make(options)) {}

Engine::Engine(std::shared_ptr<Scheduler> scheduler) : scheduler_(std::move(scheduler)) {}

Engine Engine::common() {
  auto& common = of_this_process<CommonScheduler>();
  const std::lock_guard lock(common.mutex);
  std::shared_ptr<Scheduler> scheduler = common.known.lock();
  if (scheduler == nullptr) common.known = scheduler = Scheduler::make(EngineOptions{});
  return Engine(std::move(scheduler));
}

Future Engine::read(std::span<const Part> parts) const {
  return transfer(Direction::read, parts);
}

Future Engine::write(std::span<const Part> parts) const {
  return transfer(Direction::write, parts);
}

Future Engine::transfer(Direction direction, std::span<const Part> parts) const {
  std::vector<std::shared_ptr<EngineFile>> files;
  files.reserve(parts.size());
  for (const Part& part : parts)
    files.push_back(part.file->file_);
  return {scheduler_, scheduler_->submit(direction, parts, files, false)};
}

std::vector<Contents> Engine::read_files(std::span<const std::string> paths) const {
  if (paths.empty()) return {};
  const auto job = std::make_shared<FilesJob>(paths);
  scheduler_->run_files(job);
  return std::move(job->contents());
}

PathStatus Engine::status(const std::string& path) const {
  return to_path_status(
      execute_on_path(*scheduler_, {.kind = storage::Kind::path_status, .path = path.c_str()}));
}

void Engine::unlink(const std::string& path) const {
  execute_on_path(*scheduler_, {.kind = storage::Kind::unlink, .path = path.c_str()});
}

void Engine::rename(const std::string& from, const std::string& to) const {
  execute_on_path(*scheduler_,
                  {.kind = storage::Kind::rename, .path = from.c_str(), .new_path = to.c_str()});
}

std::vector<PathEntry> Engine::list(const std::string& path) const {
  std::vector<storage::DirectoryEntry> found;
  execute_on_path(*scheduler_,
                  {.kind = storage::Kind::list_directory, .path = path.c_str(), .entries = &found});
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<PathEntry> entries;
  entries.reserve(found.size());
  for (storage::DirectoryEntry& entry : found)
    entries.push_back({std::move(entry.name), to_path_status(entry.status)});
  return entries;
}

void Engine::make_directory(const std::string& path, std::uint32_t mode) const {
  execute_on_path(*scheduler_,
                  {.kind = storage::Kind::make_directory, .path = path.c_str(), .mode = mode});
}

void Engine::remove_directory(const std::string& path) const {
  execute_on_path(*scheduler_, {.kind = storage::Kind::remove_directory, .path = path.c_str()});
}

EngineStatistics Engine::statistics() const {
  EngineStatistics statistics = scheduler_->counters().values();
  statistics.workers_started = scheduler_->made_here() ? scheduler_->workers_started() : 0;
  return statistics;
}

EngineOptions Engine::options() const {
  return scheduler_->options();
}

void Engine::shut_down() const {
  if (scheduler_->made_here()) scheduler_->stop();
}

File::File(const Engine& engine, const std::string& path, int flags, std::uint32_t mode)
    : scheduler_(engine.scheduler_), path_(path) {
  scheduler_->check_usable();
  file_ = std::make_shared<EngineFile>(scheduler_->lanes(), path, flags, mode);
}

File::File(const Engine& engine, const File& parents)
    : scheduler_(engine.scheduler_), path_(parents.path_) {
  scheduler_->check_usable();
  if (parents.file_ == nullptr) throw Error(EBADF, path_ + " is closed");
  file_ = std::make_shared<EngineFile>(scheduler_->lanes(), *parents.file_);
}

File::~File() {
  if (file_ == nullptr || !scheduler_->made_here()) return;
  try {
    close();
  } catch (const Error&) {  // call close() to see errors
  }
}

File& File::operator=(File&& other) noexcept {
  if (this == &other) return *this;
  File ended(std::move(*this));
  scheduler_ = std::move(other.scheduler_);
  file_ = std::move(other.file_);
  path_ = std::move(other.path_);
  return *this;
}

const std::string& File::path() const {
  return path_;
}

EngineFile& File::open_file() const {
  scheduler_->check_usable();
  return *file_;
}

int File::descriptor() const {
  const EngineFile& file = open_file();
  if (!file.local()) throw Error(ENOTSUP, path_ + ": a file of a server has no descriptor here");
  return file.descriptor();
}

std::uint64_t File::read_at(void* to, std::uint64_t bytes, std::uint64_t offset,
                            const ProgressFunction& progress) const {
  EngineFile& file = open_file();
  if (!progress && bytes <= sync_bytes_max && !is_on_gpu(*scheduler_, to)) {
    return transfer_here(*scheduler_, file, Direction::read, to, bytes, offset);
  }
  const Part part{this, to, bytes, offset};
  return Future(scheduler_, scheduler_->submit(Direction::read, {&part, 1}, {file_}, true))
      .get(progress);
}

std::uint64_t File::write_at(const void* from, std::uint64_t bytes, std::uint64_t offset,
                             const ProgressFunction& progress) const {
  EngineFile& file = open_file();
  void* data = const_cast<void*>(from);
  if (file.appends()) {  // its bytes get their places in the order of the calls
    if (is_on_gpu(*scheduler_, from)) refuse_gpu_memory(file);
    const std::uint64_t written =
        transfer_here(*scheduler_, file, Direction::write, data, bytes, offset);
    if (progress) progress({written, bytes});
    return written;
  }
  // Threads that write one file through the page cache take turns anyway.
  const bool here = !progress && (bytes <= sync_bytes_max || !file.always_direct());
  if (here && !is_on_gpu(*scheduler_, from)) {
    return transfer_here(*scheduler_, file, Direction::write, data, bytes, offset);
  }
  const Part part{this, data, bytes, offset};
  return Future(scheduler_, scheduler_->submit(Direction::write, {&part, 1}, {file_}, true))
      .get(progress);
}

Future File::read_at_async(void* to, std::uint64_t bytes, std::uint64_t offset) const {
  const Part part{this, to, bytes, offset};
  return {scheduler_, scheduler_->submit(Direction::read, {&part, 1}, {file_}, false)};
}

Future File::write_at_async(const void* from, std::uint64_t bytes, std::uint64_t offset) const {
  const Part part{this, const_cast<void*>(from), bytes, offset};
  return {scheduler_, scheduler_->submit(Direction::write, {&part, 1}, {file_}, false)};
}

std::uint64_t File::append(const void* from, std::uint64_t bytes) const {
  EngineFile& file = open_file();
  const BriefUse use(file);
  if (is_on_gpu(*scheduler_, from)) refuse_gpu_memory(file);
  std::uint64_t written = 0;
  std::uint64_t end = 0;
  do {  // nothing is appended, too: the file may refuse it
    iovec vector{static_cast<char*>(const_cast<void*>(from)) + written, bytes - written};
    storage::Operation operation{.kind = storage::Kind::append, .vectors = {&vector, 1}};
    const std::int64_t result = file.control(operation);
    if (result < 0 || (result == 0 && bytes > 0))
      fail(file, bytes - written, end, result == 0 ? -EIO : result);
    written += static_cast<std::uint64_t>(result);
    end = operation.value;
    scheduler_->counters().add_bytes(Direction::write, static_cast<std::uint64_t>(result));
  } while (written < bytes);
  return bytes == 0 ? size() : end;
}

std::uint64_t File::size() const {
  return status().size_bytes;
}

OpenStatus File::status() const {
  const storage::Status found = control(open_file(), {.kind = storage::Kind::file_status});
  return {found.size_bytes, found.device, found.inode};
}

void File::truncate(std::uint64_t bytes) const {
  control(open_file(),
          {.kind = storage::Kind::truncate, .offset = static_cast<std::int64_t>(bytes)});
}

void File::sync() const {
  control(open_file(), {.kind = storage::Kind::sync});
}

void File::close() {
  if (file_ == nullptr) return;
  scheduler_->check_made_here();
  const std::int64_t error = file_->close();
  // A worker's engine that has registered the file keeps its space until it lets go.
  if (file_->engine_used()) scheduler_->ring_all();
  if (error < 0) throw Error(static_cast<int>(-error), path_);
}

}  // namespace ferry::bulk
