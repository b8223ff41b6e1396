// One request of the kernel, and its answer.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ferry::fuse {

// A request as it was read; refers to the bytes.
class KernelRequest {
 public:
  explicit KernelRequest(std::span<const char> bytes) : bytes_(bytes) {
    std::memcpy(&header_, bytes.data(), sizeof header_);
  }
  const fuse_in_header& header() const { return header_; }
  std::uint64_t node() const { return header_.nodeid; }
  // The structure that the arguments begin with, zeros behind the end of a shorter one.
  template <class Structure>
  Structure arguments() const {
    static_assert(std::is_trivially_copyable_v<Structure>);
    Structure structure{};
    const std::span<const char> rest = bytes_.subspan(sizeof header_);
    std::memcpy(&structure, rest.data(), std::min(rest.size(), sizeof structure));
    return structure;
  }
  // What follows `bytes` of arguments.
  std::span<const char> after(std::size_t bytes) const {
    const std::span<const char> rest = bytes_.subspan(sizeof header_);
    return rest.subspan(std::min(bytes, rest.size()));
  }
  // The name that follows them, up to its end.
  std::string_view name(std::size_t bytes = 0) const {
    const std::span<const char> rest = after(bytes);
    return {rest.data(), strnlen(rest.data(), rest.size())};
  }

 private:
  std::span<const char> bytes_;
  fuse_in_header header_{};
};

// What answers a request: an error, or bytes.
class KernelAnswer {
 public:
  // A negative errno.
  void fail(std::int64_t error) {
    constexpr std::int64_t least = -511;  // the kernel takes no other for an answer
    error_ = error < 0 && error >= least ? static_cast<int>(error) : -EIO;
  }
  template <class Structure>
  void add(const Structure& structure) {
    static_assert(std::is_trivially_copyable_v<Structure>);
    add_bytes(&structure, sizeof structure);
  }
  void add_bytes(const void* from, std::size_t bytes) {
    const auto* first = static_cast<const char*>(from);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  // Bytes that lie elsewhere until the answer is sent. They come last.
  void refer(const void* from, std::size_t bytes) {
    data_ = {static_cast<const char*>(from), bytes};
  }
  // Before the answer, the kernel forgets a node's attributes. It waits for no request then.
  void outdate(std::uint64_t node) { outdated_ = node; }
  // For requests that have no answer.
  void leave_out() { is_wanted_ = false; }

  // The kernel may have dropped the request: an error here has no consequence.
  void send(int device, std::uint64_t request) const {
    if (!is_wanted_) return;
    if (outdated_ != 0) {
      fuse_notify_inval_inode_out node{};
      node.ino = outdated_;
      node.off = -1;  // no pages
      write_message(device, 0, FUSE_NOTIFY_INVAL_INODE,
                    {reinterpret_cast<const char*>(&node), sizeof node}, {});
    }
    const bool failed = error_ != 0;
    write_message(device, request, error_,
                  failed ? std::string_view() : std::string_view(bytes_.data(), bytes_.size()),
                  failed ? std::string_view() : data_);
  }

 private:
  static void write_message(int device, std::uint64_t request, int error, std::string_view first,
                            std::string_view second) {
    fuse_out_header header{};
    header.unique = request;
    header.error = error;
    header.len = static_cast<std::uint32_t>(sizeof header + first.size() + second.size());
    const iovec pieces[] = {{&header, sizeof header},
                            {const_cast<char*>(first.data()), first.size()},
                            {const_cast<char*>(second.data()), second.size()}};
    while (writev(device, pieces, 3) < 0 && errno == EINTR) {
    }
  }

  int error_ = 0;
  bool is_wanted_ = true;
  std::uint64_t outdated_ = 0;
  std::vector<char> bytes_;
  std::string_view data_;
};

}  // namespace ferry::fuse
