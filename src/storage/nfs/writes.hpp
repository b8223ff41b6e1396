// What all openings of a file on an NFS server must know of its writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "storage/nfs/library.hpp"

namespace ferry::storage {

// Follows one file's writes that its server has acknowledged without making them durable. Each such
// answer carries a verifier, which changes when the server restarts: a commit with another one
// reveals that earlier writes may be lost. They are not kept for repetition, so that is an error of
// the file, like a commit's error. Each opening reports it once, whichever has written.
// Thread-safe.
class NfsWrites {
 public:
  void acknowledged(const char* verifier);
  // Call it before a commit is sent; pass its result to committed().
  std::uint64_t begin_commit();
  // The server's answer.
  void committed(const char* verifier, std::uint64_t begun);
  void commit_failed(int error);

  // After an acknowledged write before a sync: whether the server should start writing to its
  // medium, without a waiting call. If so, committed_ahead() must follow.
  bool begin_ahead(std::size_t bytes);
  // `verifier`: null without a good answer; `error`: the server's, or 0.
  void committed_ahead(const char* verifier, int error);

  // For a new opening: which errors it need not report, because another one has.
  std::uint64_t seen_by_others() const;
  // The last error, as a negative errno, if it is newer than `seen`, which it becomes part of; or
  // 0.
  int error_since(std::uint64_t& seen);
  // Whether nothing can be left to report.
  bool is_settled() const;

 private:
  void compare(const char* verifier);
  void fail(int error);

  // Some ten milliseconds of a fast disk: the cost of the commits themselves does not show.
  static constexpr std::size_t ahead_bytes_min = std::size_t{16} << 20;

  mutable std::mutex mutex_;
  std::array<char, write_verifier_bytes> verifier_{};
  std::uint64_t count_ = 0;
  bool any_ = false;    // the server may lose something
  bool ahead_ = false;  // a commit without a waiting call is in flight
  std::size_t ahead_bytes_ = 0;
  std::uint64_t errors_ = 0;
  int error_ = 0;          // the last of them
  bool reported_ = false;  // by some opening
};

// One opening's part in the record of its file. All openings in the process have the same record,
// which is kept after the last of them while the server may lose something.
class NfsOpenWrites {
 public:
  // `file`: the server and its handle of the file.
  explicit NfsOpenWrites(std::string file);
  ~NfsOpenWrites();
  NfsOpenWrites(const NfsOpenWrites&) = delete;
  NfsOpenWrites& operator=(const NfsOpenWrites&) = delete;

  const std::shared_ptr<NfsWrites>& of_file() const { return of_file_; }
  NfsWrites* operator->() const { return of_file_.get(); }
  // This opening's errors to report, once.
  int error();

 private:
  const std::string file_;
  const std::shared_ptr<NfsWrites> of_file_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t seen_;
};

}  // namespace ferry::storage
