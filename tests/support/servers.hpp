// The servers for tests of remote storages, started by a rig (./test --stage storages) and named by
// the environment.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace ferry::test {

// A folder on a server, and its local path.
struct ServedFolder {
  std::string uri;        // "nfs://127.0.0.1/ferry?nfsport=..."
  std::string directory;  // "/.../export"

  // The server's name for a file in it.
  std::string uri_of(const std::string& name) const {
    const std::size_t query = uri.find('?');
    const std::string settings = query == std::string::npos ? "?" : uri.substr(query);
    const std::string folder = uri.substr(0, query);
    return folder + (folder.back() == '/' ? "" : "/") + name + settings;
  }
};

// `kind` is NFS, CEPH or PVFS2: reads FERRY_TEST_NFS (the URI) and FERRY_TEST_NFS_DIRECTORY.
inline std::optional<ServedFolder> served_folder(const std::string& kind) {
  const char* uri = std::getenv(("FERRY_TEST_" + kind).c_str());
  const char* directory = std::getenv(("FERRY_TEST_" + kind + "_DIRECTORY").c_str());
  if (uri == nullptr || directory == nullptr) return std::nullopt;
  return ServedFolder{uri, directory};
}

inline std::string no_server(const std::string& kind) {
  if (kind == "PVFS2") {
    return "absent: OrangeFS is in no Debian release; where one is mounted, FERRY_TEST_PVFS2 names "
           "it "
           "(a pvfs2: URI) and FERRY_TEST_PVFS2_DIRECTORY the folder";
  }
  return "absent: no " + kind + " server (FERRY_TEST_" + kind +
         " is not set); ./test --stage storages starts one";
}

}  // namespace ferry::test
