// The files below a path or URI, as the operations that the kernel asks a FUSE server for.
//
// Each request is one blocking operation of the storage, so it ends within the storage's own bound.
// A file that the storage keeps in a server's memory until it is synced (NFS) is synced when a
// descriptor of it is closed. So close reports what went wrong, as a mounted NFS does.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fuse/answer.hpp"
#include "fuse/mapped_files.hpp"
#include "fuse/nodes.hpp"
#include "storage/storage.hpp"
#include "storage/sync_file.hpp"

namespace ferry::fuse {

// Who a file belongs to, where the program's namespace knows one user alone.
struct OnlyUser {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};

// What a thread needs to answer requests.
struct TreeWorker {
  explicit TreeWorker(storage::Storage& storage)
      : calls(storage, {.depth = 8, .may_block = true}) {}

  storage::SyncCalls calls;
  std::vector<char> memory;  // of a read
};

// Thread-safe, with a TreeWorker for each thread.
class MappedTree {
 public:
  // `root`: a path or URI of a directory, without a slash at its end.
  MappedTree(storage::Storage& storage, const std::string& root, std::optional<OnlyUser> only_user);
  ~MappedTree();
  MappedTree(const MappedTree&) = delete;
  MappedTree& operator=(const MappedTree&) = delete;

  // Any request but FUSE_INIT and FUSE_DESTROY.
  void answer(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);

 private:
  void look_up(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void forget(std::uint64_t node, std::uint64_t times);
  void forget_many(const KernelRequest& request);
  void get_attributes(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void set_attributes(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void open(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void create(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void make_node(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void read_link(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void make_link(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void add_name(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void make_directory(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void read(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void write(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void flush(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void sync(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer);
  void open_directory(const KernelRequest& request, KernelAnswer& answer);
  void list(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer,
            bool with_attributes);
  void remove(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer,
              bool directory);
  void rename(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer,
              std::size_t arguments_bytes);
  void describe_space(KernelAnswer& answer) const;
  void settle_in_time(const std::stop_token& stop);

  // The storage's path of a node, or of a name in a folder. Nothing: it has no name any more.
  std::optional<std::string> place(std::uint64_t node) const;
  std::optional<std::string> place(std::uint64_t folder, std::string_view name) const;
  std::string placed(const std::string& path) const;
  std::int64_t status_of(TreeWorker& worker, std::uint64_t node, storage::Status& status);
  std::int64_t open_at(TreeWorker& worker, const std::string& path, int flags, std::uint32_t mode,
                       MappedFilePointer& opened);
  std::int64_t resize(TreeWorker& worker, std::uint64_t node, MappedFilePointer opened,
                      std::uint64_t bytes);
  // Gives a file that is open a hidden name, where the storage ends a removed one. -ENOENT: none.
  std::int64_t keep_open(TreeWorker& worker, std::uint64_t folder, std::string_view name,
                         HiddenName& hidden);
  void release(TreeWorker& worker, const KernelRequest& request);
  void remove_hidden(TreeWorker& worker, const HiddenName& hidden);
  // What has been made belongs to the program's user, not to the URI's.
  void give_to_user(TreeWorker& worker, const KernelRequest& request, const std::string& path,
                    storage::Status& status);
  // Takes the rights of the owner from a file that another writes to.
  void end_special_rights(TreeWorker& worker, std::uint64_t node);
  std::shared_lock<std::shared_mutex> share_paths();
  std::uint32_t open_flags(const MappedFile& opened, const storage::Status& status);
  // Answers with what has been made.
  void answer_made(TreeWorker& worker, const KernelRequest& request, std::string_view name,
                   const std::string& path, std::int64_t error, KernelAnswer& answer);
  fuse_entry_out entry(std::uint64_t folder, std::string_view name, const storage::Status& status);
  fuse_attr attributes(std::uint64_t node, const storage::Status& status);

  storage::Storage& storage_;
  const std::string before_;  // of the root's URI: up to the end of its path
  const std::string behind_;  // and its query
  const bool is_uri_;
  const std::optional<OnlyUser> only_user_;
  const bool keeps_removed_;
  const bool syncs_at_close_;
  Nodes nodes_;
  // Held shared while a path is in use, and alone while a rename changes paths. Who waits for it
  // alone holds the gate, so that others do not keep it waiting for ever.
  std::shared_mutex paths_;
  std::mutex gate_;
  std::atomic<std::uint64_t> changes_{0};  // of names and attributes, by the program
  MappedFiles files_;
  std::mutex versions_mutex_;
  // The version of a file's contents at its last open: pages that the kernel kept are of it.
  std::unordered_map<std::uint64_t, std::uint64_t> versions_;
  std::jthread settling_;  // hands gathered writes to the storage in time
};

}  // namespace ferry::fuse
