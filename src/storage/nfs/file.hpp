// An NFS client's state of an open file.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "storage/nfs/library.hpp"
#include "storage/nfs/writes.hpp"
#include "storage/remote_call.hpp"

namespace ferry::storage {

// A server's name for a file.
class NfsHandle {
 public:
  NfsHandle() = default;
  explicit NfsHandle(const nfs_fh3& from) {
    bytes_ = std::min<std::uint32_t>(from.data.data_len, handle_bytes_max);
    std::memcpy(data_.data(), from.data.data_val, bytes_);
  }
  std::string bytes() const { return {data_.data(), bytes_}; }
  // For the arguments of a call; refers to this.
  nfs_fh3 argument() const {
    nfs_fh3 handle{};
    handle.data.data_len = bytes_;
    handle.data.data_val = const_cast<char*>(data_.data());
    return handle;
  }

 private:
  std::array<char, handle_bytes_max> data_{};
  std::uint32_t bytes_ = 0;
};

class NfsServer;

struct NfsFile final : RemoteFile {
  NfsFile() : RemoteFile(Scheme::nfs) {}

  std::shared_ptr<NfsServer> server;
  NfsHandle handle;
  std::uint32_t read_bytes_max = 0;  // in one request
  std::uint32_t write_bytes_max = 0;
  std::optional<NfsOpenWrites> writes;  // once it is open
};

}  // namespace ferry::storage
