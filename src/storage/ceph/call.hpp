// One operation on CephFS: blocking calls of libcephfs on the worker's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "storage/ceph/mounts.hpp"
#include "storage/ceph/readahead.hpp"
#include "storage/remote_call.hpp"

namespace ferry::storage {

struct Uri;

// Throws std::invalid_argument.
CephAddress ceph_address_of(const Uri& uri);

Status to_status(const ceph::Statx& from, const CephAddress& address);

// A file of the library, once it is open; calls that it keeps hold on to it. Destroying it closes
// the file, but never calls the library: see CephLeaving.
class CephHandle {
 public:
  explicit CephHandle(std::shared_ptr<CephMount> mount) : mount_(std::move(mount)) {}
  ~CephHandle();
  CephHandle(const CephHandle&) = delete;
  CephHandle& operator=(const CephHandle&) = delete;
  // To be said once, before others have it. `direct`: its reads want nothing from a cache.
  void opened(int number, bool direct) {
    number_.store(number, std::memory_order_relaxed);
    if (direct) windows_ = Windows::none;
  }
  CephReadahead& readahead() { return readahead_; }
  // Whether reads may be made in windows. While that is not known, they may, but a window waits
  // for fits_windows(), which asks the library for the layout once.
  bool may_have_windows() const { return windows_ != Windows::none; }
  bool fits_windows();
  // For a read of the file that has been slow until now: has a thread ask the servers for its size
  // if it is time to, which wakes reads that the library has forgotten (see CephCall::help). The
  // distance of questions grows with slow reads, whichever they are. Returns when the read is to
  // call it again. One caller at a time. Does not block.
  static BoundedCall::Clock::time_point wake(const std::shared_ptr<CephHandle>& file,
                                             BoundedCall::Clock::time_point now) noexcept;
  // From now on no question begins, or some may again. For the last user, or for its close.
  void end_questions() { questions_ |= no_more; }
  void allow_questions() { questions_ &= ~no_more; }
  // Whether a question is under way. If so, a use count that was loaded between end_questions() and
  // this has the question's reference. (This writes, so that the load is not moved behind it.)
  bool is_asked() { return (questions_.fetch_or(0) & asking) != 0; }
  // For its last user. 0 or a negative errno: earlier writes could not be stored.
  int close();
  int number() const { return number_.load(std::memory_order_relaxed); }
  const std::shared_ptr<CephMount>& mount() const { return mount_; }

  static constexpr std::chrono::milliseconds slow_time{100};  // of a read that may be forgotten

 private:
  static constexpr std::chrono::milliseconds distance_max{1600};
  static constexpr std::chrono::seconds calm_time{10};  // without slow reads all begins anew
  static constexpr unsigned asking = 1;                 // bits of questions_
  static constexpr unsigned no_more = 2;
  static bool ask_size(const std::shared_ptr<CephHandle>& file) noexcept;

  const std::shared_ptr<CephMount> mount_;
  // -1: closed. The last user may not have seen yet what others did before they let go.
  std::atomic<int> number_{-1};
  enum class Windows : std::uint8_t { unknown, fit, none };
  std::atomic<Windows> windows_{Windows::unknown};
  CephReadahead readahead_;
  std::list<int> place_{-1};  // in the list of its mount, if it is dropped
  std::atomic<unsigned> questions_{0};
  // Of wake().
  BoundedCall::Clock::duration distance_{slow_time};
  BoundedCall::Clock::time_point ask_at_;
  BoundedCall::Clock::time_point slow_at_;
};

struct CephFile final : RemoteFile {
  CephFile() : RemoteFile(Scheme::ceph) {}
  std::shared_ptr<CephHandle> handle;
};

class CephCall final : public RemoteCall {
 public:
  CephCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
           std::shared_ptr<CephMounts> mounts);

  // Wakes a read that the library has forgotten.
  //
  // libcephfs 16.2 lets a read wait while the servers take back the right to cache the file, until
  // other reads that use it have ended; then it tells the servers, but not the read.
  // It then sleeps until the servers send something about the file, maybe for ever. (Ceph's issue
  // 65971; mended in 20.2 and in later releases of 18.2 and 19.2.) Another client that writes the
  // file is enough for it. Asking for the size makes the servers send something: they stop the
  // writers for it, and the right to cache comes back with the answer. Asking for lazy I/O would do
  // as well, but then the library keeps what it has cached when it loses the right to.
  Clock::time_point help(Clock::time_point now) override;

 private:
  std::int64_t execute(std::vector<char>& memory) override;
  void let_go() override;
  std::int64_t execute_on_file(CephMount& mount, std::vector<char>& memory);
  std::int64_t execute_path(const std::shared_ptr<CephMount>& mount, const Uri& uri);
  std::int64_t open(const std::shared_ptr<CephMount>& mount, const std::string& path);
  bool truncates_opened() const;
  int open_number(CephMount& mount, const std::string& path);
  std::int64_t read_piece(std::vector<char>& memory, std::int64_t bytes,
                          std::int64_t offset) override;
  // What to read there in place of `bytes`: as much, or also what the reads that follow want.
  CephReadahead::Reach reach_of_read(std::int64_t bytes, std::int64_t offset);
  bool has_right(int right);
  std::int64_t read_at(char* memory, std::int64_t bytes, std::int64_t offset);
  std::int64_t write_piece(char* memory, std::int64_t bytes, std::int64_t offset) override;
  std::int64_t write_piece_max() override;
  std::int64_t size_now() override;
  int sync(bool only_data);
  std::int64_t close();
  int list_directory(CephMount& mount, const std::string& path);
  // The library's missing checks of a path: 0 or a negative errno.
  int refusal_of_name(CephMount& mount, const std::string& path);
  int read_link(CephMount& mount, const std::string& path);
  int make_link(CephMount& mount, const std::string& path);
  int add_name(CephMount& mount, const std::string& path, const std::string& new_path);
  int rename(CephMount& mount, const std::string& path, const std::string& new_path);
  int explained(CephMount& mount, const std::string& path, int error);
  int set_attributes(CephMount& mount, const std::string& path, int of_link);
  int status_of(CephMount& mount, Status& status, const char* path, unsigned flags = 0);

  const std::shared_ptr<CephMounts> mounts_;
  std::shared_ptr<CephHandle> handle_;
  std::weak_ptr<CephHandle> read_;  // for help(), as the next: beside the worker
  Clock::time_point help_at_;
};

}  // namespace ferry::storage
