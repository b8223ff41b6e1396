// This process's client of PVFS2 and OrangeFS. The library has only one, and is not known to be
// thread-safe, so it gets one call at a time.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "storage/owner_process.hpp"
#include "storage/pvfs2/library.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {

// The list of mounts, and the user for their servers.
struct Pvfs2Address {
  std::string table;  // a file; empty: PVFS2TAB_FILE, /etc/fstab or /etc/pvfs2tab
  unsigned uid = 0;
  unsigned gid = 0;
  std::chrono::milliseconds timeout{timeout_default};

  auto operator<=>(const Pvfs2Address&) const = default;  // NOLINT: a null pointer is seen in it
};

// A path in the terms of its file system.
struct Pvfs2Place {
  std::int32_t file_system = 0;
  std::string path;    // from its root on, without a slash at the end
  std::string source;  // for people
};

// Thread-safe. Calls block, without a bound, and must not be made if owner() is another process.
class Pvfs2Client {
 public:
  // The library's client; lives until the process ends, as late calls may use it.
  static Pvfs2Client& of(const std::string& library);

  // The process whose sockets the library has.
  static OwnerProcess& owner();

  explicit Pvfs2Client(std::string library) : library_name_(std::move(library)) {}
  Pvfs2Client(const Pvfs2Client&) = delete;
  Pvfs2Client& operator=(const Pvfs2Client&) = delete;

  // Loads, initialises and connects as needed. Throws Unavailable.
  Pvfs2Place place_of(const Pvfs2Address& address, const std::string& path);

  // Calls use(library, credential) while holding the library, as `address` requires; turns its
  // result into 0 or more, or a negative errno. The wait may have been long: if may_begin() then
  // returns a negative errno, returns that. Throws Unavailable.
  template <class MayBegin, class Use>
  int call(const Pvfs2Address& address, MayBegin may_begin, Use use) {
    const std::lock_guard lock(mutex_);
    if (const int error = may_begin(); error != 0) return error;
    const Pvfs2Library& library = ready();
    return errno_result(use(library, credential(address)));
  }

 private:
  const Pvfs2Library& ready();
  const pvfs2::Credential* credential(const Pvfs2Address& address);
  const pvfs2::Table& table(const std::string& name);
  void connect(pvfs2::Pvfs2Mount& mount);
  int errno_result(int result) const;

  struct Owned {
    pvfs2::Credential credential;
    std::chrono::steady_clock::time_point until;
  };

  const std::string library_name_;
  std::mutex mutex_;  // guards all below, and every call of the library
  std::unique_ptr<const Pvfs2Library> library_;
  std::map<std::string, const pvfs2::Table*> tables_;
  std::map<std::pair<unsigned, unsigned>, Owned> credentials_;
};

}  // namespace ferry::storage
