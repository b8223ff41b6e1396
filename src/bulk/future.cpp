#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/futex.hpp"
#include "bulk/request.hpp"
#include "bulk/scheduler.hpp"

namespace ferry::bulk {
namespace {

constexpr std::chrono::hours for_ever{24 * 365 * 100};
constexpr std::chrono::nanoseconds longest_wait = for_ever;  // added to a time of the clock

std::string describe(const std::vector<Failure>& failures) {
  const Failure& first = failures.front();
  std::string text = first.path + ", bytes " + std::to_string(first.offset) + " to " +
                     std::to_string(first.offset + first.bytes);
  const std::size_t more = failures.size() - 1;
  if (more > 0)
    text += " (and " + std::to_string(more) + (more > 1 ? " more parts)" : " more part)");
  return text;
}

}  // namespace

TransferError::TransferError(std::vector<Failure> failures)
    : Error(failures.front().error_number, describe(failures)), failures_(std::move(failures)) {}

// In a child of fork() the transfer would never end, and its memory is the child's own copy.
void Future::settle() {
  if (request_ == nullptr || request_->ready() || !scheduler_->made_here()) return;
  scheduler_->cancel(*request_);
  request_->wait(for_ever);
}

Future::~Future() {
  settle();
}

Future& Future::operator=(Future&& other) noexcept {
  if (this == &other) return *this;
  settle();
  request_ = std::move(other.request_);
  scheduler_ = std::move(other.scheduler_);
  return *this;
}

bool Future::ready() const {
  return request_->ready();
}

void Future::check_mine() const {
  if (!scheduler_->made_here()) {
    throw Error(ECHILD, "the transfer belongs to the parent of this process");
  }
}

void Future::wait() const {
  if (request_->ready()) return;
  check_mine();
  scheduler_->help(request_);
  request_->wait(for_ever);
}

bool Future::wait_for(std::chrono::nanoseconds timeout) const {
  if (request_->ready()) return true;
  check_mine();
  const auto deadline = std::chrono::steady_clock::now() + std::min(timeout, longest_wait);
  scheduler_->help(request_, deadline);
  return request_->wait(std::max(deadline - std::chrono::steady_clock::now(),
                                 std::chrono::steady_clock::duration::zero()));
}

std::uint64_t Future::get(const ProgressFunction& progress,
                          std::chrono::milliseconds interval) const {
  if (progress) {
    while (!wait_for(interval))
      progress(this->progress());
    progress(this->progress());
  }
  wait();
  std::vector<Failure> failed = request_->failures();
  if (!failed.empty()) {
    if (request_->cancelled()) throw Error(ECANCELED, describe(failed));
    throw TransferError(std::move(failed));
  }
  std::uint64_t sum = 0;
  for (const std::int64_t result : request_->results())
    sum += static_cast<std::uint64_t>(result);
  return sum;
}

const std::vector<std::int64_t>& Future::results() const {
  wait();
  return request_->results();
}

std::vector<Failure> Future::failures() const {
  wait();
  return request_->failures();
}

Progress Future::progress() const {
  return Progress{request_->bytes_done(), request_->bytes_total()};
}

void Future::cancel() const {
  if (!request_->ready() && scheduler_->made_here()) scheduler_->cancel(*request_);
}

void Future::then(std::function<void()> callback) const {
  check_mine();
  request_->then(std::move(callback));
}

std::size_t wait_any(std::span<const Future* const> futures) {
  // Outlives this call: a later future may still hold it.
  const auto word = std::make_shared<std::uint32_t>(0);
  for (const Future* future : futures) {
    if (future->ready()) break;
    future->check_mine();
    future->request_->watch([word] { storage::Doorbell{word.get()}.ring(); });
    if (future->ready()) break;
  }
  for (;;) {
    const std::uint32_t seen = std::atomic_ref(*word).load(std::memory_order_acquire);
    const auto found = std::find_if(futures.begin(), futures.end(),
                                    [](const Future* future) { return future->ready(); });
    if (found != futures.end()) return static_cast<std::size_t>(found - futures.begin());
    futex_wait(word.get(), seen, std::chrono::nanoseconds(std::chrono::seconds(1)).count());
  }
}

void wait_all(std::span<const Future* const> futures) {
  for (const Future* future : futures)
    future->wait();
}

}  // namespace ferry::bulk
