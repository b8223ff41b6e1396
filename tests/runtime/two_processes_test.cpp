// Close-to-open consistency: a second process uses the same file, with plain calls or its own
// runtime, in lock-step.
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"
#include "support/within.hpp"

namespace ferry::two_processes_test {
namespace {

using device::Placement;
using test::pattern;
using test::Random;
using test::same_bytes;

constexpr std::size_t file_bytes = 50'000;

// The commands for the other process; it answers with what it read, or nothing.
struct Command {
  // append: small records, until there is a file of this name and `.stop`
  enum Kind : int { read, write, truncate, replace, append, use, close } kind = read;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// A socket that carries whole messages.
class Link {
 public:
  explicit Link(int fd) : fd_(fd) {}
  void send(const Command& command, const std::string& data = "") const {
    std::string message(reinterpret_cast<const char*>(&command), sizeof command);
    message += data;
    if (::send(fd_, message.data(), message.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(message.size()))
      throw std::runtime_error("the other process is gone");
  }
  // Returns false if the other side has ended.
  bool receive(Command& command, std::string& data) const {
    std::string message(sizeof command + 2 * file_bytes, '\0');
    const ssize_t got = ::recv(fd_, message.data(), message.size(), 0);
    if (got < static_cast<ssize_t>(sizeof command)) return false;
    std::memcpy(&command, message.data(), sizeof command);
    data = message.substr(sizeof command, static_cast<std::size_t>(got) - sizeof command);
    return true;
  }

 private:
  int fd_;
};

// What the other process does with plain calls.
std::string plainly(const std::string& path, const Command& command, const std::string& data) {
  if (command.kind == Command::replace) {
    test::write_file(path + ".new", data);
    if (rename((path + ".new").c_str(), path.c_str()) != 0) return "rename";
    return "";
  }
  if (command.kind == Command::append) {
    const test::Descriptor end(::open(path.c_str(), O_WRONLY | O_APPEND));
    const std::string record(command.bytes, 'p');
    // At most this many.
    for (std::uint64_t i = 0; i < command.offset && access((path + ".stop").c_str(), F_OK) != 0;
         ++i)
      if (::write(end, record.data(), record.size()) != static_cast<ssize_t>(record.size()))
        return "append";
    return "";
  }
  const test::Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT, 0644));
  if (command.kind == Command::read) return test::read_file(path);
  if (command.kind == Command::truncate)
    return ftruncate(fd, static_cast<off_t>(command.bytes)) == 0 ? "" : "truncate";
  const ssize_t got = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(command.offset));
  return got == static_cast<ssize_t>(data.size()) ? "" : "write";
}

// And with a runtime, whose file stays open between the writes.
class Peer {
 public:
  std::string execute(const std::string& path, const Command& command, const std::string& data) {
    std::string answer;
    runtime_.run([&](DeviceThread& self) {
      if (file_ <= 0) file_ = self.files.open(path.c_str(), O_RDWR);
      if (command.kind == Command::close) {
        if (self.files.close(file_) != 0) answer = "close";
        file_ = 0;
      } else if (self.files.pwrite(file_, data.data(), data.size(),
                                   static_cast<std::int64_t>(command.offset)) != std::ssize(data)) {
        answer = "write";
      }
    });
    return answer;
  }

 private:
  Runtime runtime_{test::cached_options(16, Placement::compute)};
  int file_ = 0;
};

[[noreturn]] void other_process(const Link& link, const std::string& path) {
  Command command;
  std::string data;
  std::unique_ptr<Peer> peer;
  try {
    while (link.receive(command, data)) {
      if (command.kind == Command::use) {
        peer = std::make_unique<Peer>();
        link.send(command);
      } else {
        link.send(command, peer != nullptr ? peer->execute(path, command, data)
                                           : plainly(path, command, data));
      }
    }
  } catch (const std::exception& error) {
    link.send(command, error.what());
  }
  peer.reset();
  _exit(0);
}

class TwoProcesses : public testing::TestWithParam<Placement>, protected test::WithRuntime {
 protected:
  // The other process begins while this one has no threads.
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const pid_t parent = getpid();
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      other_process(Link(ends[1]), path);
    }
    ::close(ends[1]);
    end = ends[0];
    link = std::make_unique<Link>(end);
    runtime = std::make_unique<Runtime>(test::cached_options(16, GetParam()));
  }
  void TearDown() override {
    ::close(end);
    int status = 0;
    test::within_patience("the other process", [&] { waitpid(child, &status, 0); });
    EXPECT_EQ(status, 0);
    end_runtime();
  }
  std::string ask(Command command, const std::string& data = "") {
    std::string answer = "no answer";
    test::within_patience("the other process", [&] {
      link->send(command, data);
      if (!link->receive(command, answer)) answer = "it has ended";
    });
    return answer;
  }
  // What a new open sees.
  std::string look() {
    std::string got;
    on_file(path, O_RDONLY, [&](Files& files, int file) {
      got = test::read_at(files, file, 2 * file_bytes, 0);
      device::FileStatus status{};
      EXPECT_EQ(files.fstat(file, &status), 0);
      EXPECT_EQ(status.size_bytes, got.size());
    });
    return got;
  }

  void take_turns(bool beside_another_handle);

  test::ScratchDirectory directory;
  const std::string path = directory / "shared";
  pid_t child = -1;
  int end = -1;
  std::unique_ptr<Link> link;
};

// Random actions that a program may take between a close and an open; beside another open handle of
// the file, or not.
void TwoProcesses::take_turns(bool beside_another_handle) {
  Random random;
  std::string model;
  test::write_file(path, "");
  int other = 0;
  if (beside_another_handle)
    on_device([&](Files& files) { other = files.open(path.c_str(), O_RDONLY); });
  for (std::uint64_t step = 0; step < test::scaled(400); ++step) {
    const std::size_t offset = random.below(file_bytes / 2);
    const std::string data = pattern(random.between(1, file_bytes / 2), random.bits());
    switch (random.below(5)) {
      case 0:
        EXPECT_EQ(ask({Command::write, offset, 0}, data), "");
        test::write_to(model, data, offset);
        break;
      case 1:
        EXPECT_EQ(ask({Command::truncate, 0, offset}), "");
        model.resize(offset, '\0');
        break;
      case 2:
        EXPECT_EQ(ask({Command::replace, 0, 0}, data), "");
        model = data;
        break;
      default:
        on_file(path, O_RDWR, [&](Files& files, int file) {
          const auto at = static_cast<std::int64_t>(offset);
          EXPECT_EQ(files.pwrite(file, data.data(), data.size(), at), std::ssize(data));
        });
        test::write_to(model, data, offset);
        ASSERT_TRUE(same_bytes(ask({Command::read, 0, 0}), model)) << "step " << step;
    }
    // Long enough that the file's times can be trusted.
    if (random.one_in(16)) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    for (unsigned looks = random.one_in(4) ? 2 : 1; looks > 0; --looks)
      ASSERT_TRUE(same_bytes(look(), model)) << "step " << step;
  }
  if (beside_another_handle) on_device([&](Files& files) { EXPECT_EQ(files.close(other), 0); });
}

TEST_P(TwoProcesses, SeeWhatTheOtherOneDidAtCloseAndAtOpen) {
  take_turns(false);
}
TEST_P(TwoProcesses, SeeItAlsoWhereTheFileWasOpenAllTheTime) {
  take_turns(true);
}

// Both write their own bytes of the same pages while both have the file open.
TEST_P(TwoProcesses, KeepEachOthersBytesOfOnePage) {
  ASSERT_EQ(ask({Command::use, 0, 0}), "");
  Random random;
  for (std::uint64_t round = 0; round < test::scaled(60); ++round) {
    std::string model = pattern(20'000, random.bits());
    test::write_file(path, model);
    on_file(path, O_RDWR, [&](Files& files, int file) {
      std::size_t at = 0;
      for (bool ours = random.one_in(2); at + 1300 < model.size(); ours = !ours) {
        const std::string data = pattern(random.between(1, 1300), random.bits());
        model.replace(at, data.size(), data);
        if (ours) {
          EXPECT_EQ(files.pwrite(file, data.data(), data.size(), static_cast<std::int64_t>(at)),
                    std::ssize(data));
        } else {
          EXPECT_EQ(ask({Command::write, at, 0}, data), "");
        }
        at += data.size();
      }
    });
    EXPECT_EQ(ask({Command::close, 0, 0}), "");
    ASSERT_TRUE(same_bytes(test::read_file(path), model)) << "round " << round;
  }
}

// From memory outside the arena, and longer than what a group stages at once.
TEST_P(TwoProcesses, FindTheirAppendedRecordsWhole) {
  constexpr std::size_t record_bytes = 600'000;
  constexpr std::size_t records = 12;
  test::write_file(path, "");
  link->send({Command::append, 100'000, 100});
  test::within_patience("the other process's first record", [&] {
    while (test::file_size(path) == 0)
      std::this_thread::yield();
  });
  on_file(path, O_WRONLY | O_APPEND, [&](Files& files, int file) {
    for (std::size_t i = 0; i < records; ++i) {
      std::string record(record_bytes, static_cast<char>('A' + i));
      device::IoVector pieces[2] = {{record.data(), 100'000},
                                    {record.data() + 100'000, record_bytes - 100'000}};
      std::int64_t written = 0;
      if (i % 3 == 0) written = files.write(file, record.data(), record.size());
      if (i % 3 == 1) written = files.pwrite(file, record.data(), record.size(), 7);
      if (i % 3 == 2) written = files.pwritev(file, pieces, 2, 0);
      EXPECT_EQ(written, static_cast<std::int64_t>(record_bytes));
    }
  });
  test::write_file(path + ".stop", "");
  Command command;
  std::string answer = "none";
  test::within_patience("the other process", [&] { link->receive(command, answer); });
  EXPECT_EQ(answer, "");
  const std::string got = test::read_file(path);
  for (std::size_t i = 0; i < records; ++i) {
    const char letter = static_cast<char>('A' + i);
    const std::size_t first = got.find(letter);
    ASSERT_NE(first, std::string::npos) << letter;
    EXPECT_TRUE(same_bytes(got.substr(first, record_bytes), std::string(record_bytes, letter)));
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, TwoProcesses,
                         testing::Values(Placement::host, Placement::compute), [](const auto& one) {
                           return one.param == Placement::host ? "host" : "compute";
                         });

}  // namespace
}  // namespace ferry::two_processes_test
