// A client's view of one NFS server: its exports, its connections, and the operations on it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/nfs/connection.hpp"
#include "storage/nfs/paths.hpp"

namespace ferry::storage {

// Thread-safe.
class NfsServer : public std::enable_shared_from_this<NfsServer> {
 public:
  NfsServer(std::shared_ptr<const NfsLibrary> library, NfsAddress address)
      : library_(std::move(library)), address_(std::move(address)) {
    idle_.reserve(idle_max);  // so that a call that is done does not lack memory
  }

  const NfsAddress& address() const { return address_; }
  // Executes an operation by path (`path` and `new_path`: the server's), or one on a file that is
  // no plain transfer; sets its result. Blocks for at most the address's timeout.
  void execute(Operation& operation, const std::string& path, const std::string& new_path);
  // Starts the pieces of a transfer. Those that cannot be started fail.
  void start(const std::shared_ptr<NfsTransfer>& transfer);
  // Makes the connections look for transfers that were cancelled.
  void look_again();
  // Describes the server of `path`. Throws Unavailable.
  std::vector<std::string> facts(const std::string& path);

 private:
  int export_of(NfsCalls& calls, const std::string& path, NfsExport& found);
  std::int64_t execute_path(NfsCalls& calls, Operation& operation, const std::string& path,
                            const std::string& new_path);
  int execute_found(NfsCalls& calls, Operation& operation, const NfsCalls::Found& found);
  // A rename, or another name.
  int give_new_path(NfsCalls& calls, Kind kind, const NfsExport& from, const NfsCalls::Found& what,
                    const std::string& new_path);
  int open(NfsCalls& calls, Operation& operation, const NfsExport& from, const std::string& path);
  int open_existing(NfsCalls& calls, int flags, const NfsCalls::Found& found);
  std::int64_t append(NfsCalls& calls, Operation& operation);
  std::unique_ptr<NfsRpc> take_rpc();
  void give_rpc(std::unique_ptr<NfsRpc> rpc);
  // As many as the address says, or those that could be made when they were first needed. Throws
  // where there can be none.
  std::vector<std::unique_ptr<NfsConnection>>& connections();

  static constexpr std::size_t idle_max = 4;
  const std::shared_ptr<const NfsLibrary> library_;
  const NfsAddress address_;
  std::mutex mutex_;  // guards the next four
  std::vector<NfsExport> exports_;
  std::vector<std::string> export_names_;
  std::vector<std::unique_ptr<NfsRpc>> idle_;
  std::vector<std::unique_ptr<NfsConnection>> connections_;  // made once, then only read
  std::atomic<bool> known_{false};                           // it has answered before
  std::atomic<std::size_t> next_{0};
};

}  // namespace ferry::storage
