// The storage interface: executes operations on files asynchronously.
//
// It knows nothing of rings, caches or devices, and depends on nothing else in Ferry; the I/O
// server, bulk transfers and the programs all use storages through this header. There is one
// implementation per kind of storage.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "base/direction.hpp"
#include "storage/layout.hpp"

namespace ferry::storage {

enum class Kind : std::uint8_t {
  open,         // path, flags, mode -> opened. With a layout, only for a file that is not there yet
                //   (O_CREAT | O_EXCL): it is made with it, or refused; layout -> as granted
  close,        // file; the caller guarantees that nothing else uses it. Always takes the file
  read,         // file, offset, vectors -> bytes; short only at the end of the file or on an error
                //   after some bytes were read
  write,        // file, offset, vectors -> bytes; short only on an error after some were written
  append,       // file, vectors -> bytes; `value` is the file position after the write
  sync,         // file: data and metadata are durable
  sync_data,    // file: data and what is needed to read it
  truncate,     // file, offset (the new size)
  file_status,  // file -> status
  path_status,  // path, flags (O_NOFOLLOW: of a symbolic link itself) -> status
  unlink,       // path
  rename,       // path, new_path of the same storage: an existing file there is replaced
  path_layout,  // path -> layout, as granted; -EOPNOTSUPP where nothing is striped. Of a directory:
                //   what is made in it gets
  set_layout,   // path of a directory, layout: what is made in it from now on has it
  make_directory,    // path, mode
  remove_directory,  // path of an empty directory
  list_directory,    // path -> entries, in no order; neither "." nor ".."
  set_attributes,    // path, attributes, flags (as above). -EOPNOTSUPP without sets_attributes
  read_link,         // path of a symbolic link -> text, what it holds
  make_link,         // path (new), text: a symbolic link. -EOPNOTSUPP without makes_links
  add_name,  // path of no directory, new_path (new) of the same storage: a hard link. The same
};

// The others' new_path is not used.
constexpr bool has_new_path(Kind kind) {
  return kind == Kind::rename || kind == Kind::add_name;
}

constexpr Kind kind_of(Direction direction) {
  return direction == Direction::read ? Kind::read : Kind::write;
}

struct Status {
  std::uint64_t size_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::int64_t accessed_ns = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;  // contents or attributes, by the storage's clock; 0: not known
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t block_bytes = 0;
  // In a file_status. Equal values for the same file prove that its contents did not change between
  // the two, and that no change begun before the first was in progress at it. 0: nothing proves
  // that, or not yet.
  std::uint64_t version = 0;
  // In a file_status: the contents are generated while they are read, as in /proc. The data does
  // not follow from the size, and may differ each time.
  bool generated = false;
};

// What a set_attributes changes. Times in nanoseconds since 1970, or `now` by the storage's clock.
struct NewAttributes {
  static constexpr std::int64_t now = std::numeric_limits<std::int64_t>::min();

  std::optional<std::uint32_t> mode = {};  // permission bits
  std::optional<std::uint32_t> owner = {};
  std::optional<std::uint32_t> group = {};
  std::optional<std::int64_t> accessed_ns = {};
  std::optional<std::int64_t> modified_ns = {};
};

// An entry of a directory. Symbolic links are not followed.
struct DirectoryEntry {
  std::string name;
  Status status;
};

// The target of a path: a mounted file, or by its scheme a file of another storage.
enum class Scheme : std::uint8_t { posix, nfs, ceph, pvfs2 };
inline constexpr std::size_t schemes = 4;

// An open file. Made by an `open` operation, destroyed by a `close` operation.
class File {
 public:
  explicit File(Scheme scheme = Scheme::posix) : scheme_(scheme) {}
  virtual ~File() = default;
  Scheme scheme() const { return scheme_; }
  // The kernel's descriptors of it, through the page cache and opened with O_DIRECT; -1: none.
  virtual int descriptor() const { return -1; }
  virtual int direct_descriptor() const { return -1; }
  // A server or a process is behind it that may not answer: a blocking call on a descriptor of it
  // may last for any time.
  virtual bool may_hang() const { return scheme_ != Scheme::posix; }
  // 0, or the negative errno that changes of it are refused with: an earlier one may still come.
  virtual int late_change() const { return 0; }

 private:
  friend class DirectWrite;
  virtual bool begin_direct_write() { return true; }
  virtual void end_direct_write() {}

  const Scheme scheme_;
};

// A write through the direct_descriptor() of a file: while it lasts, none through the page cache
// begins.
class DirectWrite {
 public:
  explicit DirectWrite(File& file) : file_(file), granted_(file.begin_direct_write()) {}
  ~DirectWrite() {
    if (granted_) file_.end_direct_write();
  }
  DirectWrite(const DirectWrite&) = delete;
  DirectWrite& operator=(const DirectWrite&) = delete;
  // Returns false if a write through the page cache is in flight, and this one must use it, too.
  bool granted() const { return granted_; }

 private:
  File& file_;
  const bool granted_;
};

// One operation. Owned by the caller and not to be touched between submit() and reap(), and neither
// is the memory it points to.
struct Operation {
  Kind kind = Kind::read;
  File* file = nullptr;
  const char* path = nullptr;
  const char* new_path = nullptr;
  Layout* layout = nullptr;
  const NewAttributes* attributes = nullptr;
  std::vector<DirectoryEntry>* entries = nullptr;  // added to when all are there
  std::string* text = nullptr;
  int flags = 0;
  std::uint32_t mode = 0;
  // Of a write: a sync of these bytes follows soon, so the medium may begin with them. A hint; the
  // write is over when the bytes are taken, as ever.
  bool sync_follows = false;
  std::int64_t offset = 0;
  std::span<iovec> vectors = {};  // the storage may change them while it works
  std::int64_t result = 0;        // bytes or 0, or a negative errno
  std::uint64_t value = 0;
  Status status = {};
  std::unique_ptr<File> opened = {};

  // For the storage's own use while it has the operation.
  Operation* next = nullptr;
  std::int64_t done_bytes = 0;
  std::uint32_t state = 0;
};

// A futex word that a queue's owner may be asleep on. Storages that complete operations on other
// threads add 1 and wake it.
struct Doorbell {
  std::uint32_t* word = nullptr;
  void ring() const;
};

struct QueueOptions {
  Doorbell doorbell = {};
  // Memory that most transfers will use; a storage may register it with its engine.
  std::span<std::byte> arena = {};
  unsigned depth = 256;  // operations in flight at most
  // No one else waits for the threads that use this queue, so flush() may execute operations there
  // and block. Such a queue may pass from thread to thread, one at a time.
  bool may_block = false;
  // The queue passes from thread to thread, one at a time, without blocking them.
  bool changes_threads = false;
};

// Counters of one queue; written by the queue's thread, read by anyone.
struct QueueStatistics {
  std::uint64_t inline_operations = 0;  // executed on the queue's own thread
  std::uint64_t engine_operations = 0;  // given to io_uring
  std::uint64_t pool_operations = 0;    // given to worker threads
};

// One thread's access to a storage. Not thread-safe; any number of queues work side by side, also
// on the same files.
class Queue {
 public:
  virtual ~Queue() = default;
  // Takes an operation. Nothing is promised to have started before flush().
  virtual void submit(Operation& operation) = 0;
  // Works on submitted operations; may execute cheap ones in place. Call it repeatedly while
  // operations are in flight: some may be held back to start together, at the latest in a call
  // without new submissions, or in wait().
  virtual void flush() = 0;
  // A finished operation, or null.
  virtual Operation* reap() = 0;
  // Sleeps until an operation has finished, *doorbell != seen, or the timeout. May return early.
  virtual void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) = 0;
  // Requests the early end of `operation`; it still arrives through reap(), with -ECANCELED if it
  // could be stopped.
  virtual void cancel(Operation& operation) = 0;
  virtual QueueStatistics statistics() const = 0;
  // A shortcut for small files, on queues that may block: opens, reads and closes the regular file
  // `path` immediately. Returns its bytes, or a negative errno; -EFBIG if it does not fit into
  // `memory`, -ENOTSUP without such a shortcut or for other than regular files.
  virtual std::int64_t read_file(const char* /*path*/, std::span<std::byte> /*memory*/) {
    return -ENOTSUP;
  }
};

// The optional features of a storage. Callers and tests check here instead of trying.
struct Capabilities {
  bool atomic_append = true;       // appends by several clients never overwrite each other
  bool open_after_unlink = true;   // a removed file stays usable while open
  bool special_files = true;       // devices and terminals can be opened
  bool change_while_open = true;   // other clients' writes are visible without reopening
  bool cancels_transfers = true;   // an operation in flight can be ended early
  bool page_cache_of_host = true;  // data may be in the host's page cache
  bool tells_holes = true;         // Status::allocated_bytes leaves them out
  bool full_status = true;         // reports hard links, special files, fractions of seconds
  bool rights_at_open = true;      // its owner may use an open file, whatever its mode
  bool sets_attributes = true;     // permissions, owners and times can be changed
  bool makes_links = true;         // symbolic and hard links can be made
  bool layouts = false;            // files can be made with a Layout
  // The longest that one request to the storage takes; then it has failed with -ETIMEDOUT. 0: no
  // bound, as the kernel has none for local file systems.
  std::chrono::milliseconds request_timeout{0};
};

// A storage's features here, and how it works; for `ferry info`.
struct Description {
  std::string name;                // "posix", "nfs", "ceph", "pvfs2"
  std::string engine;              // "io_uring", "threads", "libnfs", "libcephfs" or "libpvfs2"
  std::vector<std::string> notes;  // degraded features, and why
  Capabilities capabilities = {};
  // One line that says why a path cannot be used here and what to do; empty if it can.
  std::string problem = {};
  std::string layout_rules = {};  // the kinds of layouts, for people; empty without
};

// Every thing that the storage cannot do, in words.
std::vector<std::string> limits(const Capabilities& capabilities);

class Storage {
 public:
  virtual ~Storage() = default;
  virtual std::unique_ptr<Queue> make_queue(const QueueOptions& options) = 0;
  virtual Description describe() const = 0;
  // The same for one path. May ask a server, within the bound that the capabilities state.
  virtual Description describe_path(const std::string& /*path*/) { return describe(); }
};

}  // namespace ferry::storage
