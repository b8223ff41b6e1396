// Files and operations of storages whose client libraries only have blocking calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "storage/append_turn.hpp"
#include "storage/late_changes.hpp"
#include "storage/queue/bounded_pool.hpp"
#include "storage/storage.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {

// Makes a worker's memory hold so many bytes at least. Throws std::bad_alloc.
void make_room(std::vector<char>& memory, std::int64_t bytes);

// Its open flags, and what these forbid. Also of NFS, which has other calls.
class RemoteFile : public File {
 public:
  using File::File;
  // 0 or the negative errno that ends this operation on the file before it begins: the kernel's
  // checks of a transfer's arguments, and the file's late changes.
  int refusal(const Operation& operation) const;
  int late_change() const override { return changes == nullptr ? 0 : changes->error(); }
  // By its flags of open(2).
  void opened_with(int flags);

  bool readable = false;
  bool writable = false;
  bool append = false;
  bool directory = false;
  bool synchronous = false;  // O_SYNC, O_DSYNC: each write is durable when it is acknowledged
  std::shared_ptr<LateChanges> changes;   // null if none can be late
  std::shared_ptr<AppendTurn> appending;  // null if not yet open
  std::chrono::milliseconds timeout{0};   // of each call on it

 private:
  int refusal_of_transfer(const Operation& operation) const;
};

// The error of open(2) for a remote file of this mode that is neither regular nor a directory. 0:
// it can be opened.
int refusal_of_type(std::uint32_t mode);

// umask(2) can only be read by changing it for all threads; this asks the kernel in another way.
std::uint32_t umask_of_process();

// One operation, on the worker's memory.
class RemoteCall : public BoundedCall {
 public:
  RemoteCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout);
  std::int64_t work(std::vector<char>& memory) final;

 protected:
  // The operation, with calls of the library. May throw errors of paths and of libraries.
  virtual std::int64_t execute(std::vector<char>& memory) = 0;
  // The library's file is used no more by this call: to be said before it is answered, because a
  // close may follow.
  virtual void let_go() = 0;
  // One call of the library each: bytes, or a negative errno. The worker's memory has room for them
  // and may be made larger.
  virtual std::int64_t read_piece(std::vector<char>& memory, std::int64_t bytes,
                                  std::int64_t offset) = 0;
  virtual std::int64_t write_piece(char* memory, std::int64_t bytes, std::int64_t offset) = 0;
  // How many bytes a call of write_piece() moves at most.
  virtual std::int64_t write_piece_max() { return piece_bytes; }
  // Of the open file, or a negative errno.
  virtual std::int64_t size_now() = 0;

  std::int64_t read(std::vector<char>& memory);
  std::int64_t write(std::vector<char>& memory, std::int64_t offset);
  // At the file's current end, when no other append of this process is under way there.
  std::int64_t append(std::vector<char>& memory);

  // Makes a call of the library that changes a file: its result, or why it must not be made.
  template <class Change>
  auto change(const std::shared_ptr<LateChanges>& file, Change make) -> decltype(make()) {
    if (const int error = begin_change(file); error != 0) return error;
    const ChangeUnderWay until_it_returns(*this);
    return make();
  }

  static constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

  // Copies: the operation may be gone while the library still works on it.
  const Kind kind_;
  const std::string path_;
  const std::string new_path_;
  const std::string text_;
  const int flags_;
  const std::uint32_t mode_;
  const std::int64_t offset_;
  const Layout layout_;
  const NewAttributes attributes_;
  const bool has_layout_;
  std::int64_t bytes_ = 0;
  // For the open file, if any.
  bool appends_ = false;
  bool writable_ = false;
  bool directory_ = false;
  bool synchronous_ = false;
  std::shared_ptr<LateChanges> changes_;
  std::shared_ptr<AppendTurn> appending_;

 private:
  class ChangeUnderWay {
   public:
    explicit ChangeUnderWay(RemoteCall& call) : call_(call) {}
    ~ChangeUnderWay() { call_.end_change(); }
    ChangeUnderWay(const ChangeUnderWay&) = delete;
    ChangeUnderWay& operator=(const ChangeUnderWay&) = delete;

   private:
    RemoteCall& call_;
  };

  // Copies between `memory` and the operation's vectors, from its byte `done` on. Returns false if
  // it was ended early.
  bool copy(char* memory, std::int64_t done, std::int64_t bytes, bool out);
};

// Shared by storages whose calls are made like this.
Capabilities remote_capabilities(std::chrono::milliseconds timeout);

// How long this operation may take: as its file was opened, or as `address_of` finds in the URI.
// For a path that is none it does not matter.
template <class Address>
std::chrono::milliseconds timeout_of(const Operation& operation,
                                     Address (*address_of)(const Uri& uri)) {
  if (operation.file != nullptr) return static_cast<const RemoteFile*>(operation.file)->timeout;
  try {
    return address_of(parse_uri(operation.path)).timeout;
  } catch (const std::invalid_argument&) {
    return Address{}.timeout;
  }
}

}  // namespace ferry::storage
