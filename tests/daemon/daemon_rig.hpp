// ferryd in this process, with a client that reads through it.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/client.hpp"
#include "daemon/daemon.hpp"
#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry::test {

class DaemonRig {
 public:
  explicit DaemonRig(std::uint64_t cache_bytes = 8 << 20,
                     std::chrono::milliseconds least_stay = std::chrono::milliseconds(0))
      : daemon_({.socket = folder_ / "run/ferryd.sock",
                 .cache_bytes = cache_bytes,
                 .least_stay = least_stay}),
        thread_([this] {
          try {
            daemon_.serve();
          } catch (const std::exception& error) {
            ADD_FAILURE() << "ferryd ended: " << error.what();
          }
          has_ended_ = true;
        }),
        client((folder_ / "run/ferryd.sock").c_str()) {}
  ~DaemonRig() { end(); }
  // Ends ferryd; its memory stays.
  void end() {
    if (!thread_.joinable()) return;
    daemon_.stop();
    thread_.join();
  }

  bool has_ended() const { return has_ended_; }

  std::string socket() const { return folder_ / "run/ferryd.sock"; }
  // A new file's path. Removed with the rig.
  std::string file(const std::string& name, const std::string& contents) const {
    const std::string path = files_ / name;
    write_file(path, contents);
    return path;
  }

 private:
  ScratchDirectory folder_;
  ScratchDirectory files_{build_folder()};  // on a disk
  daemon::Daemon daemon_;
  std::atomic<bool> has_ended_{false};
  std::thread thread_;

 public:
  daemon::Client client;
};

// An open file that may be served.
class OfferedFile {
 public:
  OfferedFile(daemon::Client& client, const std::string& path)
      : client_(client), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    EXPECT_GE(descriptor_, 0) << path;
    error_ = offer();
  }
  int error() const { return error_; }
  // Asks again where ferryd does not answer in time: other programs may keep the machine busy.
  int offer() {
    error_ = ETIMEDOUT;
    for (int tries = 0; tries < 5 && error_ == ETIMEDOUT; ++tries)
      error_ = client_.offer(descriptor_, file_);
    return error_;
  }

  // Without the kernel: bytes, or Client::missed or gone.
  std::int64_t try_read(std::string& to, std::uint64_t bytes, std::uint64_t offset) {
    to.assign(bytes, '\0');
    const std::int64_t got = client_.pread(file_, to.data(), bytes, offset);
    if (got >= 0) to.resize(static_cast<std::size_t>(got));
    return got;
  }
  // The same until it is not missed any more. Needs no thread, which a child of fork may not make
  // under the thread sanitizer.
  std::int64_t read(std::string& to, std::uint64_t bytes, std::uint64_t offset) {
    std::int64_t got = daemon::Client::missed;
    eventually([&] { return (got = try_read(to, bytes, offset)) != daemon::Client::missed; });
    return got;
  }
  const daemon::ServedFile& served() const { return file_; }
  int descriptor() const { return descriptor_; }

 private:
  daemon::Client& client_;
  const Descriptor descriptor_;
  daemon::ServedFile file_;
  int error_ = 0;
};

// What a status request answers.
inline daemon::DaemonStatus status_of(const std::string& socket_path) {
  const Descriptor socket(daemon::connect_to(socket_path.c_str(), 10'000));
  EXPECT_GE(socket, 0);
  daemon::DaemonRequest request;
  request.kind = daemon::RequestKind::status;
  daemon::DaemonAnswer answer;
  int received = -1;
  EXPECT_EQ(daemon::exchange(socket, request, -1, answer, received), 0);
  return answer.status;
}

}  // namespace ferry::test
