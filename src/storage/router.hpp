// All storages behind one interface: routes paths by their scheme, and files to the storage that
// opened them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/posix/posix.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

struct RouterOptions {
  Engine engine = Engine::automatic;  // of storage `posix`
  // The client libraries, loaded when they are first needed.
  std::vector<std::string> nfs_libraries = {"libnfs.so.13", "libnfs.so.14"};  // libnfs 4, 5
  std::string ceph_library = "libcephfs.so.2";
  std::string pvfs2_library = "libpvfs2.so.2";
};

// The names of all storages.
std::vector<std::string> built_in();

// The library of a storage's client, or the ones that were tried, and why none can be used; empty
// if one can.
struct ClientLibrary {
  std::string storage;
  std::string file_name;
  std::string problem;
};

// Loads them all.
std::vector<ClientLibrary> client_libraries(const RouterOptions& options = {});

// Throws std::system_error if a required engine is refused. Storages other than `posix`, and their
// queues, are made when a path first names them: a program that uses none pays one comparison per
// operation.
std::unique_ptr<Storage> make_router(const RouterOptions& options = {});

// What the storage knows of the reason why a call on a URI ended with that errno, in one line: a
// setting that it has not, a server that cannot be reached. Empty: nothing, or finding out may take
// long.
std::string reason_of(Storage& storage, int error_number, const std::string& path);

}  // namespace ferry::storage
