#include "load/bystander.hpp"

#include <atomic>
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ferry::load {
namespace {

constexpr std::size_t call_bytes = 1500;
constexpr int appends = 8;

std::uint64_t since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(Nanoseconds(Clock::now() - begin).count());
}

}  // namespace

Bystander::Bystander(const std::vector<LoadPlace>& places)
    : places_(places), calls_(places, std::chrono::milliseconds(0)) {}

void Bystander::start() {
  threads_.emplace_back([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (std::size_t place = 0; place < places_.size(); ++place)
        if (!places_[place].directory.empty() && !places_[place].is_served) make_calls(place);
    }
  });
  threads_.emplace_back([this](const std::stop_token& stop) { hand_over(stop); });
}

void Bystander::stop() {
  threads_.clear();
}

void Bystander::make_calls(std::size_t place) {
  const auto make = [&](LoadCall kind, const auto& call) {
    const auto begin = Clock::now();
    const auto result = call();
    calls_.note(place, kind, since(begin), false);
    return result;
  };
  const std::string path = places_[place].directory + "/bystander";
  const std::string other = path + "-renamed";
  const char data[call_bytes] = {};
  char read[call_bytes];
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  const int file = make(LoadCall::open, [&] { return ::open(path.c_str(), flags, 0644); });
  if (file < 0) return;
  make(LoadCall::write, [&] { return ::pwrite(file, data, call_bytes, 0); });
  for (int i = 1; i <= appends; ++i)
    make(LoadCall::append, [&] { return ::pwrite(file, data, call_bytes, i * off_t{call_bytes}); });
  make(LoadCall::sync, [&] { return ::fsync(file); });
  make(LoadCall::read, [&] { return ::pread(file, read, call_bytes, 0); });
  struct stat status {};
  make(LoadCall::status, [&] { return ::fstat(file, &status); });
  make(LoadCall::truncate, [&] { return ::ftruncate(file, off_t{call_bytes}); });
  make(LoadCall::close, [&] { return ::close(file); });
  make(LoadCall::rename, [&] { return std::rename(path.c_str(), other.c_str()); });
  make(LoadCall::unlink, [&] { return ::unlink(other.c_str()); });
}

void Bystander::hand_over(std::stop_token stop) {
  std::atomic<std::uint32_t> turn{0};  // odd: the other thread's
  std::atomic<bool> over{false};
  std::jthread other([&] {
    for (std::uint32_t next = 1;; next += 2) {
      turn.wait(next - 1);
      if (over) return;
      turn = next + 1;
      turn.notify_one();
    }
  });
  for (std::uint32_t next = 1; !stop.stop_requested(); next += 2) {
    const auto begin = Clock::now();
    turn = next;
    turn.notify_one();
    turn.wait(next);
    hand_overs_.note(since(begin));
  }
  over = true;
  ++turn;
  turn.notify_one();
}

}  // namespace ferry::load
