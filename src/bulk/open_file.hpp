// An open file for transfers: buffered, and direct where possible.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <fcntl.h>

#include "backend/cuda/gpus.hpp"
#include "base/forks.hpp"
#include "bulk/lanes.hpp"
#include "storage/storage.hpp"

namespace ferry::bulk {

// Thread-safe. Every user holds a use; the last one after begin_close() closes.
class EngineFile {
 public:
  // Throws ferry::Error.
  EngineFile(std::shared_ptr<Lanes> lanes, std::string path, int flags, std::uint32_t mode);
  // In a child of fork(): the parent's open file. Throws ferry::Error, ESTALE if neither the
  // parent's descriptor nor the name leads to it.
  EngineFile(std::shared_ptr<Lanes> lanes, const EngineFile& parents);
  ~EngineFile();
  EngineFile(const EngineFile&) = delete;
  EngineFile& operator=(const EngineFile&) = delete;

  // Returns false while it is being closed.
  bool begin_use();
  void end_use();
  // Refuses new uses, waits for current ones, closes: 0 or a negative errno. May be repeated.
  std::int64_t close();

  const std::string& path() const { return path_; }
  int flags() const { return flags_; }
  Lanes& lanes() { return *lanes_; }
  const MadeHere& made_here() const { return made_here_; }

  // For all buffered transfers; for direct ones too if opened with O_DIRECT.
  storage::File& buffered() { return *buffered_; }
  // A mounted file: the host has a page cache for it, and direct I/O bypasses that.
  bool local() const { return buffered_->scheme() == storage::Scheme::posix; }
  // It has a server or process that may not answer: a blocking call may last for any time.
  bool may_hang() const { return buffered_->may_hang(); }
  // Files of one place wait for the same disk or server: its file system, or the scheme and host of
  // its URI.
  std::uint64_t place() const;
  // The descriptor of buffered(), if local().
  int descriptor() const { return buffered_->descriptor(); }
  // Opened on first use; null without direct I/O.
  storage::File* direct();
  // The kernel writes at its end, whatever the offset: the pieces of one write must not overtake
  // each other.
  bool appends() const { return (flags_ & O_APPEND) != 0; }
  bool always_direct() const { return (flags_ & O_DIRECT) != 0 && local(); }
  // A worker's engine may have registered it, and must let go of it after close.
  void note_engine_use() { engine_used_.store(true, std::memory_order_relaxed); }
  bool engine_used() const { return engine_used_.load(std::memory_order_relaxed); }
  // The descriptor of direct() for GPUDirect Storage. Made on first use; null if that does not
  // work, for the reason in why_no_gpu_direct().
  const cuda::GpuDirectFile* gpu_direct(cuda::Gpus& gpus);
  const std::string& why_no_gpu_direct() const { return why_no_gpu_direct_; }
  // cuFile has refused a transfer.
  void give_up_gpu_direct() { gpu_direct_refused_.store(true, std::memory_order_relaxed); }
  // The kernel has refused a direct transfer.
  void give_up_direct() { direct_refused_.store(true, std::memory_order_relaxed); }

  // Cached bytes of [offset, offset + bytes); nothing if unknown.
  std::optional<std::uint64_t> resident_bytes(std::uint64_t offset, std::uint64_t bytes);

  // One operation on the open file: 0 or a positive result, or a negative errno.
  std::int64_t control(storage::Operation& operation);

 private:
  static constexpr std::uint64_t closing = std::uint64_t{1} << 63;

  std::unique_ptr<storage::File> open(const std::string& path, int flags, std::uint32_t mode,
                                      std::int64_t& error);
  void open_same(const EngineFile& parents);
  // A name for the open file that survives renaming.
  std::string path_of_descriptor() const;
  std::int64_t status(storage::Status& found);
  std::int64_t close_one(storage::File* file);
  std::unique_ptr<const cuda::GpuDirectFile> make_gpu_direct(cuda::Gpus& gpus);
  int probe();

  const std::shared_ptr<Lanes> lanes_;
  const std::string path_;
  const int flags_;
  const MadeHere made_here_;
  std::unique_ptr<storage::File> buffered_;
  // Identifies a local() file.
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::once_flag direct_once_;
  std::unique_ptr<storage::File> direct_;
  std::atomic<bool> direct_refused_{false};
  std::once_flag gpu_direct_once_;
  std::unique_ptr<const cuda::GpuDirectFile> gpu_direct_;  // destroyed before direct_ is closed
  std::string why_no_gpu_direct_;
  std::atomic<bool> gpu_direct_refused_{false};
  std::atomic<bool> engine_used_{false};
  std::once_flag probe_once_;
  int probe_ = -1;
  // The number of uses; the top bit is set once it is being closed.
  std::atomic<std::uint64_t> uses_{0};
};

}  // namespace ferry::bulk
