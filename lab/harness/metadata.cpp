#include "harness/metadata.hpp"

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/attempts.hpp"
#include "harness/interruption.hpp"
#include "harness/layout.hpp"
#include "harness/pattern.hpp"
#include "harness/programs.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

constexpr std::uint32_t mode_of_files = 0644;
constexpr int flags_to_create = O_WRONLY | O_CREAT | O_EXCL;

// Each returns what a system call would: bytes or 0, or a negative errno.
class WholeFiles {
 public:
  WholeFiles() = default;
  WholeFiles(const WholeFiles&) = delete;
  WholeFiles& operator=(const WholeFiles&) = delete;
  virtual ~WholeFiles() = default;

  virtual std::int64_t create(const char* path, const void* data, std::uint64_t bytes) = 0;
  virtual std::int64_t size(const char* path) = 0;
  virtual std::int64_t read(const char* path, void* data, std::uint64_t bytes) = 0;
  virtual std::int64_t remove(const char* path) = 0;

 protected:
  // The transfer's result, unless closing fails.
  static std::int64_t closed(std::int64_t moved, std::int64_t closing) {
    return moved >= 0 && closing < 0 ? closing : moved;
  }
};

class DeviceWholeFiles final : public WholeFiles {
 public:
  DeviceWholeFiles(device::FileCalls<device::ThreadGroup>& files, device::Placement placement)
      : files_(files) {
    files_.use(placement);
  }
  std::int64_t create(const char* path, const void* data, std::uint64_t bytes) override {
    const int file = files_.open(path, flags_to_create, mode_of_files);
    if (file < 0) return file;
    const std::int64_t moved = bytes == 0 ? 0 : files_.pwrite(file, data, bytes, 0);
    return closed(moved, files_.close(file));
  }
  std::int64_t size(const char* path) override {
    device::FileStatus status{};
    const int error = files_.stat(path, &status);
    return error != 0 ? error : static_cast<std::int64_t>(status.size_bytes);
  }
  std::int64_t read(const char* path, void* data, std::uint64_t bytes) override {
    const int file = files_.open(path, O_RDONLY);
    if (file < 0) return file;
    const std::int64_t moved = bytes == 0 ? 0 : files_.pread(file, data, bytes, 0);
    return closed(moved, files_.close(file));
  }
  std::int64_t remove(const char* path) override { return files_.unlink(path); }

 private:
  device::FileCalls<device::ThreadGroup>& files_;
};

class PlainWholeFiles final : public WholeFiles {
 public:
  std::int64_t create(const char* path, const void* data, std::uint64_t bytes) override {
    const int file = ::open(path, flags_to_create | O_CLOEXEC, mode_of_files);
    if (file < 0) return -errno;
    const std::int64_t moved = bytes == 0 ? 0 : or_errno(::pwrite(file, data, bytes, 0));
    return closed(moved, or_errno(::close(file)));
  }
  std::int64_t size(const char* path) override {
    struct stat status {};
    return ::stat(path, &status) != 0 ? -errno : static_cast<std::int64_t>(status.st_size);
  }
  std::int64_t read(const char* path, void* data, std::uint64_t bytes) override {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -errno;
    const std::int64_t moved = bytes == 0 ? 0 : or_errno(::pread(file, data, bytes, 0));
    return closed(moved, or_errno(::close(file)));
  }
  std::int64_t remove(const char* path) override { return or_errno(::unlink(path)); }

 private:
  static std::int64_t or_errno(std::int64_t result) { return result < 0 ? -errno : result; }
};

// The contents of the files: a pattern that begins with the file's number.
class Contents {
 public:
  Contents(unsigned char* data, std::uint64_t bytes, std::uint64_t seed)
      : data_(data), bytes_(bytes) {
    fill_pattern(data_, bytes_, 0, seed);
  }
  const unsigned char* of(std::uint64_t file) {
    std::memcpy(data_, &file, std::min<std::uint64_t>(bytes_, sizeof file));
    return data_;
  }

 private:
  unsigned char* data_;
  std::uint64_t bytes_;
};

struct FilesOfThread {
  std::optional<ScratchFiles> files;
  std::uint64_t first = 0;  // the number of the first
  Buffer written;
  Buffer read;
  MetadataSample sample;
  std::array<Span, metadata_phase_names.size()> spans;
};

class MetadataRepeat {
 public:
  MetadataRepeat(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped)
      : runtime_(runtime),
        cell_(run.cell),
        seed_(run.pattern_seed),
        stopped_(stopped),
        barrier_(static_cast<std::ptrdiff_t>(run.cell.threads)),
        workers_(run.cell.threads) {
    const std::uint64_t each = file_count(cell_) / cell_.threads;
    for (unsigned i = 0; i < cell_.threads; ++i) {
      workers_[i].first = i * each;
      std::vector<std::string> paths;
      for (std::uint64_t file = i * each; file < (i + 1) * each; ++file)
        paths.push_back(file_path(cell_, static_cast<unsigned>(file)));
      workers_[i].files.emplace(std::move(paths)).keep();
      workers_[i].written = runtime.allocate(cell_.transfer_bytes);
      workers_[i].read = runtime.allocate(cell_.transfer_bytes);
    }
  }

  MetadataSample run() {
    runtime_.run([this](DeviceThread& self) {
      if (self.index < cell_.threads) on_thread(self);
    });
    attempts_.rethrow();
    for (FilesOfThread& worker : workers_)  // they were removed
      worker.files->keep();
    MetadataSample all;
    for (std::size_t phase = 0; phase < all.phases.size(); ++phase) {
      std::uint64_t begin_ns = UINT64_MAX;
      std::uint64_t end_ns = 0;
      for (const FilesOfThread& worker : workers_) {
        begin_ns = std::min(begin_ns, worker.spans[phase].begin_ns);
        end_ns = std::max(end_ns, worker.spans[phase].end_ns);
        all.phases[phase].latencies.add(worker.sample.phases[phase].latencies);
        all.phases[phase].callers += worker.sample.phases[phase].callers;
      }
      all.phases[phase].elapsed_ns = end_ns - begin_ns;
    }
    all.files = file_count(cell_);
    return all;
  }

 private:
  std::uint64_t bytes() const { return cell_.empty_files ? 0 : cell_.transfer_bytes; }

  void on_thread(DeviceThread& self) {
    FilesOfThread& own = workers_[self.index];
    std::unique_ptr<WholeFiles> files;
    if (cell_.interface == Interface::ferry) {
      files = std::make_unique<DeviceWholeFiles>(self.files, cell_.placement);
    } else {
      files = std::make_unique<PlainWholeFiles>();
    }
    Contents contents(own.written.as<unsigned char>(), cell_.transfer_bytes, seed_);
    auto* const read = own.read.as<unsigned char>();
    const auto whole = static_cast<std::int64_t>(bytes());
    phase(own, MetadataPhase::create, [&](const std::string& path, std::uint64_t number) {
      const std::uint64_t before = number - own.first;
      own.files->keep_all_but(before + 1);
      const std::int64_t got = files->create(path.c_str(), contents.of(number), bytes());
      if (got == -EEXIST) own.files->keep_all_but(before);  // another has just made it
      expect(got, whole, "making", path);
    });
    look(own, [&](const std::string& path, std::uint64_t number) {
      compare(path, contents.of(number));
    });
    phase(own, MetadataPhase::stat, [&](const std::string& path, std::uint64_t) {
      expect(files->size(path.c_str()), whole, "the size of", path);
    });
    phase(own, MetadataPhase::read, [&](const std::string& path, std::uint64_t number) {
      expect(files->read(path.c_str(), read, bytes()), whole, "reading", path);
      if (std::memcmp(read, contents.of(number), bytes()) != 0)
        throw ContentsError(path + " holds other bytes than were written");
    });
    phase(own, MetadataPhase::remove, [&](const std::string& path, std::uint64_t) {
      expect(files->remove(path.c_str()), 0, "removing", path);
    });
    look(own, [](const std::string& path, std::uint64_t) {
      if (file_exists(path)) throw ContentsError(path + " is there after it was removed");
    });
  }

  // One call for each of the thread's files, timed; all threads begin together.
  template <class Call>
  void phase(FilesOfThread& own, MetadataPhase which, Call call) {
    const auto index = static_cast<std::size_t>(which);
    MetadataSample::Phase& timed = own.sample.phases[index];
    Span& span = own.spans[index];
    barrier_.arrive_and_wait();
    attempts_.attempt([&] {
      const Usage before = thread_usage();
      std::uint64_t last_ns = span.begin_ns = now_ns();
      each(own, [&](const std::string& path, std::uint64_t number) {
        call(path, number);
        const std::uint64_t done_ns = now_ns();
        timed.latencies.note(done_ns - last_ns);
        last_ns = done_ns;
      });
      span.end_ns = last_ns;
      timed.callers = thread_usage() - before;
    });
  }
  // The same, untimed, when all threads have ended the phase before.
  template <class Call>
  void look(FilesOfThread& own, Call call) {
    barrier_.arrive_and_wait();
    attempts_.attempt([&] { each(own, call); });
  }
  template <class Call>
  void each(FilesOfThread& own, Call call) {
    const std::vector<std::string>& paths = own.files->paths();
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (stopped_.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
      call(paths[i], own.first + i);
    }
  }

  static void expect(std::int64_t got, std::int64_t wanted, const char* doing,
                     const std::string& path) {
    if (got < 0) throw Error(static_cast<int>(-got), std::string(doing) + " " + path);
    if (got == wanted) return;
    throw ContentsError(std::string(doing) + " " + path + " gave " + std::to_string(got) +
                        " instead of " + std::to_string(wanted) + " bytes");
  }
  void compare(const std::string& path, const unsigned char* expected) const {
    const StoredFile file(path);
    if (file.size_bytes() != bytes())
      throw ContentsError(path + " has " + std::to_string(file.size_bytes()) + " bytes after " +
                          std::to_string(bytes()) + " were written");
    std::vector<unsigned char> found(bytes());
    if (!found.empty()) file.read(found.data(), found.size(), 0);
    if (std::memcmp(found.data(), expected, found.size()) != 0)
      throw ContentsError(path + " holds other bytes than were written");
  }

  Runtime& runtime_;
  const Cell& cell_;
  const std::uint64_t seed_;
  const std::atomic<bool>& stopped_;
  std::barrier<> barrier_;
  std::vector<FilesOfThread> workers_;
  Attempts attempts_;
};

}  // namespace

MetadataSample run_metadata(Runtime& runtime, const CellRun& run,
                            const std::atomic<bool>& stopped) {
  return MetadataRepeat(runtime, run, stopped).run();
}

}  // namespace ferry::bench
