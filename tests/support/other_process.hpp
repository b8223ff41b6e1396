// A second process that changes files with plain system calls, one command at a time: whole writes,
// long writes that run in parallel, stores through shared mappings, truncations, and new files
// under old names.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/files.hpp"
#include "support/programs.hpp"
#include "support/within.hpp"

namespace ferry::test {

class OtherProcess {
 public:
  enum class Command : int {
    write,       // `bytes` bytes of `seed` at `offset`
    begin_long,  // the same, without waiting for its end
    end_long,
    append,
    truncate,  // to `offset`
    replace,   // a new file of `bytes` bytes takes the name
    unlink,
    map,    // keeps a mapping of the first `bytes` bytes and no descriptor
    store,  // through the mapping
    unmap,
    quit,
  };
  static constexpr int mappings_max = 4;

  // Make it before this process has threads.
  OtherProcess() {
    void* shared =
        mmap(nullptr, sizeof(Box), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("mmap");
    box_ = new (shared) Box;
    sem_init(&box_->asked, 1, 0);
    sem_init(&box_->done, 1, 0);
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("fork");
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) serve();
      _exit(0);
    }
  }
  ~OtherProcess() {
    if (child_ > 0)
      within_patience("the end of the other process", [this] {
        ask(Command::quit, "");
        waitpid(child_, nullptr, 0);
      });
    munmap(box_, sizeof(Box));
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  // 0 or a negative errno. Throws std::runtime_error if the process is not there any more.
  int ask(Command command, const std::string& path, std::uint64_t offset = 0,
          std::uint64_t bytes = 0, std::uint64_t seed = 0, int mapping = 0) {
    box_->command = command;
    std::snprintf(box_->path, sizeof box_->path, "%s", path.c_str());
    box_->offset = offset;
    box_->bytes = bytes;
    box_->seed = seed;
    box_->mapping = mapping;
    sem_post(&box_->asked);
    while (!is_done()) {
      int status = 0;
      if (waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        throw std::runtime_error("the other process has ended, with status " +
                                 std::to_string(status));
      }
    }
    return box_->result;
  }
  // What such a command writes.
  static std::string data_of(std::uint64_t seed, std::uint64_t bytes) {
    std::string data(bytes, '\0');
    for (std::uint64_t at = 0; at < bytes; ++at)
      data[at] = static_cast<char>(byte_of(seed, at));
    return data;
  }

 private:
  struct Box {
    sem_t asked;
    sem_t done;
    Command command;
    char path[256];
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t seed;
    int mapping;
    int result;
  };
  struct Mapping {
    char* data = nullptr;
    std::uint64_t bytes = 0;
  };

  // Waits a second at most.
  bool is_done() {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    ++until.tv_sec;
    return sem_timedwait(&box_->done, &until) == 0;
  }
  void serve() {
    for (;;) {
      while (sem_wait(&box_->asked) != 0) {
      }
      const bool last = box_->command == Command::quit;
      if (!last) box_->result = execute(*box_);
      sem_post(&box_->done);
      if (last) return;
    }
  }
  int execute(const Box& box) {
    switch (box.command) {
      case Command::write:
        return write(box.path, O_RDWR, box.offset, data_of(box.seed, box.bytes));
      case Command::begin_long:
        long_write_ = std::thread(
            [path = std::string(box.path), offset = box.offset,
             data = data_of(box.seed, box.bytes)] { write(path.c_str(), O_RDWR, offset, data); });
        return 0;
      case Command::end_long:
        long_write_.join();
        return 0;
      case Command::append:
        return write(box.path, O_WRONLY | O_APPEND, 0, data_of(box.seed, box.bytes));
      case Command::truncate:
        return ::truncate(box.path, static_cast<off_t>(box.offset)) == 0 ? 0 : -errno;
      case Command::replace:
        return replace(box);
      case Command::unlink:
        return ::unlink(box.path) == 0 ? 0 : -errno;
      case Command::map:
        return map(box);
      case Command::store: {
        const std::string data = data_of(box.seed, box.bytes);
        std::memcpy(mappings_[box.mapping].data + box.offset, data.data(), data.size());
        return 0;
      }
      case Command::unmap:
        munmap(mappings_[box.mapping].data, mappings_[box.mapping].bytes);
        return 0;
      case Command::quit:
        break;
    }
    return -EINVAL;
  }
  static int write(const char* path, int flags, std::uint64_t offset, const std::string& data) {
    const Descriptor fd(::open(path, flags | O_CLOEXEC));
    if (fd < 0) return -errno;
    const ssize_t got = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    return got == static_cast<ssize_t>(data.size()) ? 0 : -EIO;
  }
  static int replace(const Box& box) {
    const std::string beside = std::string(box.path) + ".new";
    {
      const Descriptor fd(::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      const std::string data = data_of(box.seed, box.bytes);
      if (fd < 0 || ::write(fd, data.data(), data.size()) != static_cast<ssize_t>(data.size()))
        return -EIO;
    }
    return ::rename(beside.c_str(), box.path) == 0 ? 0 : -errno;
  }
  int map(const Box& box) {
    const Descriptor fd(::open(box.path, O_RDWR | O_CLOEXEC));
    if (fd < 0) return -errno;
    void* data = mmap(nullptr, box.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return -errno;
    mappings_[box.mapping] = Mapping{static_cast<char*>(data), box.bytes};
    return 0;
  }

  Box* box_ = nullptr;
  pid_t child_ = -1;
  Mapping mappings_[mappings_max];  // the other process's
  std::thread long_write_;          // likewise
};

}  // namespace ferry::test
