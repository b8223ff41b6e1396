// Blocking operations on an NFS server: those by path, and those too rare to be event-driven. Each
// is a chain of calls over one connection, with a time limit for the whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/nfs/file.hpp"
#include "storage/nfs/rpc.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

inline constexpr std::size_t nfs_name_bytes_max = 255;

// A name in a directory, as argument of a call; refers to both.
diropargs3 nfs_entry(const NfsHandle& directory, const std::string& name);

// Whether `path` is `root` or below it.
bool lies_under(const std::string& path, const std::string& root);

struct NfsAttributes {
  ftype3 type = NF3REG;
  Status status;
};

// A directory that the server hands out.
struct NfsExport {
  std::string path;
  NfsHandle root;
  std::uint32_t read_bytes_max = 0;
  std::uint32_t write_bytes_max = 0;
  std::vector<std::string> all;  // that the server has
};

// One chain of calls. Reconnects and repeats a call if the server disappears, until the deadline.
class NfsCalls {
 public:
  NfsCalls(const NfsLibrary& library, const NfsAddress& address, NfsRpc& rpc, bool patient);

  // The server's export for `path`: the longest matching prefix.
  int find_export(const std::string& path, NfsExport& found);

  int get_attributes(const NfsHandle& handle, NfsAttributes& attributes);
  int set_size(const NfsHandle& handle, std::uint64_t bytes,
               const std::shared_ptr<LateChanges>& changes);
  int set_attributes(const NfsHandle& handle, const NewAttributes& to);
  int allowed(const NfsHandle& handle, unsigned wanted);
  // Writes all of `data`; returns bytes or an errno.
  std::int64_t write(NfsFile& file, const char* data, std::size_t bytes, std::uint64_t offset);

  // When the whole chain must be over.
  NfsClock::time_point deadline() const { return deadline_; }

  // The file that the last call may change late, after -ETIMEDOUT; see NfsRpc::waits().
  const std::shared_ptr<LateChanges>& late_changes() const { return late_changes_; }

  // The target of a path.
  struct Found {
    NfsHandle parent;
    std::string name;  // in the parent; empty for the export itself
    bool exists = false;
    NfsHandle object;
    NfsAttributes attributes;
  };
  // `follow`: the last component may be a symbolic link.
  int walk(const NfsExport& from, const std::string& path, bool follow, Found& found);
  int create(const Found& where, bool exclusive, std::uint32_t mode, NfsHandle& made);
  int remove(const Found& what);
  int rename(const Found& what, const Found& to);
  int read_link(const NfsHandle& link, std::string& text);
  int make_link(const Found& where, const std::string& text);
  int add_name(const Found& what, const Found& to);

  int make_directory(const Found& where, std::uint32_t mode);
  int remove_directory(const Found& what);
  // Adds its entries to `entries`, or nothing.
  int list_directory(const NfsHandle& directory, std::vector<DirectoryEntry>& entries);

 private:
  // Makes a call; `use` returns the result of a reply that is no refusal. changes: those of the
  // changed file; null if no file's contents change.
  template <class Reply, class Arguments, class Use>
  int perform(NfsCall<Arguments> start, Arguments& arguments, Use use,
              const std::shared_ptr<LateChanges>& changes = nullptr);
  static int done(const Refusable& /*reply*/) { return 0; }
  int lookup(const NfsHandle& directory, const std::string& name, NfsHandle& object,
             NfsAttributes& attributes);
  int list_some(const NfsHandle& directory, READDIRPLUS3args& from, bool& all,
                std::vector<DirectoryEntry>& entries);
  int mount(NfsRpc& mount, NfsExport& found);
  int limits_of(NfsExport& found);
  bool may_try_again(int error);
  NfsAttributes to_attributes(const fattr3& from) const;

  const NfsLibrary& library_;
  const NfsAddress& address_;
  NfsRpc& rpc_;
  const bool patient_;  // the server has been there before: wait for it
  const std::uint64_t server_hash_;
  const NfsClock::time_point deadline_;
  bool repeated_ = false;  // the call that was made last
  std::shared_ptr<LateChanges> late_changes_;
};

template <class Reply, class Arguments, class Use>
int NfsCalls::perform(NfsCall<Arguments> start, Arguments& arguments, Use use,
                      const std::shared_ptr<LateChanges>& changes) {
  const auto issue = [&](rpc_context* rpc, rpc_cb callback, void* data) {
    return start(rpc, callback, &arguments, data);
  };
  const auto checked = [&](const Reply& reply) {
    return reply.status != NFS3_OK ? nfs_error(reply.status) : use(reply);
  };
  repeated_ = false;
  late_changes_ = changes;
  for (;;) {
    int result = 0;
    if (!rpc_.connected())
      result = rpc_.connect(nfs_program, nfs_version, address_.nfs_port, deadline_);
    if (result == 0) result = rpc_.call<Reply>(issue, checked, deadline_, changes != nullptr);
    if (!may_try_again(result)) {
      return result == -ECONNRESET || (result == -ECONNREFUSED && patient_) ? -ETIMEDOUT : result;
    }
    repeated_ = repeated_ || result == -ECONNRESET;
  }
}

}  // namespace ferry::storage
