#include "daemon/alive_word.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <future>
#include <system_error>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "base/futex.hpp"

namespace ferry::daemon {
namespace {

constexpr std::uint64_t nap_ns = 1'000'000'000;

// The list that the kernel walks when the thread ends, however that happens: one entry, whose futex
// word lies at `futex_offset` from it. It replaces the C library's list for robust mutexes; the
// thread uses none.
struct RobustList {
  robust_list_head head;
  robust_list entry;
};

}  // namespace

AliveWord::AliveWord(std::atomic<std::uint32_t>& word) : word_(word) {
  std::promise<int> started;  // 0: the word is held; else an errno
  std::future<int> start = started.get_future();
  thread_ = std::thread([this, started = std::move(started)]() mutable {
    RobustList list{};
    list.head.list.next = &list.entry;
    list.entry.next = &list.head.list;
    list.head.futex_offset =
        reinterpret_cast<std::intptr_t>(&word_) - reinterpret_cast<std::intptr_t>(&list.entry);
    const long failed = syscall(SYS_set_robust_list, &list.head, sizeof list.head);
    const int error = errno;
    word_.store(static_cast<std::uint32_t>(number_of_this_thread()));
    started.set_value(failed == 0 ? 0 : error);
    while (stopping_.load() == 0)
      futex_wait(reinterpret_cast<std::uint32_t*>(&stopping_), 0, nap_ns);
    // The kernel does the same where the process is killed.
    syscall(SYS_set_robust_list, nullptr, sizeof list.head);
    word_.store(FUTEX_OWNER_DIED);
  });
  if (const int error = start.get(); error != 0) {
    stopping_.store(1);
    futex_wake_all(reinterpret_cast<std::uint32_t*>(&stopping_));
    thread_.join();
    throw std::system_error(error, std::system_category(), "a robust futex");
  }
}

AliveWord::~AliveWord() {
  stopping_.store(1);
  futex_wake_all(reinterpret_cast<std::uint32_t*>(&stopping_));
  thread_.join();
}

}  // namespace ferry::daemon
