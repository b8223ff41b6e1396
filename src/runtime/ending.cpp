#include "runtime/ending.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include <ferry/device/cache/cached_files.hpp>

#include "base/cpus.hpp"

namespace ferry {
namespace {

// Time beyond the deadline, for nearly finished work; the server has the same.
constexpr std::chrono::milliseconds grace{100};

template <class Word>
Word load(const Word& word) {
  return device::DeviceRef<Word>(const_cast<Word&>(word)).load(device::acquire);
}

}  // namespace

Ending::Ending(const device::Context& context, std::uint32_t group, server::Server& server,
               std::function<void()> stop_services)
    : context_(context), group_(group), server_(server), stop_services_(std::move(stop_services)) {}

Ending::~Ending() {
  if (!writer_.joinable()) return;
  try {
    server_.stop(std::chrono::milliseconds(0));  // ends what it waits for
  } catch (const std::bad_alloc&) {              // of the report
  }
  writer_.join();
}

ShutdownReport Ending::shutdown(std::chrono::milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, until + grace, [this] { return !busy_; }))
    return ShutdownReport{false, 0, {"another shutdown is under way"}};
  busy_ = true;
  try {
    ShutdownReport report = end(lock, until);
    no_longer_busy(lock);
    return report;
  } catch (...) {  // for want of memory; another call can go on
    no_longer_busy(lock);
    throw;
  }
}

void Ending::no_longer_busy(std::unique_lock<std::mutex>& lock) {
  if (!lock.owns_lock()) lock.lock();
  busy_ = false;
  changed_.notify_all();
}

ShutdownReport Ending::end(std::unique_lock<std::mutex>& lock, Clock::time_point until) {
  std::vector<std::string> unwritten = write_back(lock, until);
  lock.unlock();
  if (stop_services_) stop_services_();
  ShutdownReport report;
  if (unwritten.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    server::StopReport stopped = server_.stop(std::max(left, std::chrono::milliseconds(0)));
    report = ShutdownReport{stopped.finished, stopped.files_closed, std::move(stopped.errors)};
  } else {
    server_.serve_only(group_, until);
    report.errors = std::move(unwritten);
  }
  return report;
}

std::vector<std::string> Ending::write_back(std::unique_lock<std::mutex>& lock,
                                            Clock::time_point until) {
  if (written_ || context_.cache.base == nullptr) return {};
  // Work of an earlier call may have ended since, and failures are retried.
  if (!writing_) start_writer(lock);
  if (!changed_.wait_until(lock, until + grace, [this] { return !writing_; })) {
    std::vector<std::string> list = unwritten();
    if (list.empty()) list.emplace_back("writing back the page cache outlasted the deadline");
    return list;
  }
  if (writer_.joinable()) writer_.join();
  written_ = error_ == 0;
  if (written_) return {};
  std::vector<std::string> list = unwritten();
  if (list.empty())
    list.push_back(std::string("writing back the page cache: ") + std::strerror(-error_));
  return list;
}

void Ending::start_writer(std::unique_lock<std::mutex>& lock) {
  if (writer_.joinable()) writer_.join();
  writing_ = true;
  try {
    writer_ = std::thread([this] {
      name_this_thread("ferry-flush");
      write_dirty_pages();
    });
  } catch (const std::exception&) {  // rather beyond the deadline than not at all
    lock.unlock();
    write_dirty_pages();
    lock.lock();
  }
}

void Ending::write_dirty_pages() {
  device::Requester requester(context_, group_);
  const int error = device::cache::CachedFiles(requester).stop();
  const std::lock_guard lock(mutex_);
  error_ = error;
  writing_ = false;
  changed_.notify_all();
}

std::vector<std::string> Ending::unwritten() const {
  std::vector<std::string> list;
  for (std::uint32_t i = 0; i < context_.cache.layout.geometry.inodes; ++i) {
    const device::cache::Inode& inode = context_.cache.inode(i);
    const std::uint64_t pages = load(inode.dirty_pages);
    if (pages > 0) list.push_back(describe(inode, pages));
  }
  return list;
}

std::string Ending::describe(const device::cache::Inode& inode, std::uint64_t pages) const {
  const std::int32_t error = load(inode.failing);
  return "writing back " + server_.path_of(load(inode.write_handle)) + ": " +
         (error != 0 ? std::strerror(error) : "it outlasted the deadline") + " (" +
         std::to_string(pages) + (pages == 1 ? " page)" : " pages)");
}

}  // namespace ferry
