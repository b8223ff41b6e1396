// How a file is striped over a storage's servers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ferry::storage {

// Asked for when a file is made, and told as granted. Zero, -1 and empty leave a choice to the
// storage.
struct Layout {
  std::uint64_t stripe_bytes = 0;  // in a row on one server
  std::uint32_t stripe_count = 0;  // over so many servers
  std::int32_t first_server = -1;
  std::string pool;
  // What one storage adds. Of `ceph`: object_bytes.
  std::map<std::string, std::uint64_t> extras;
};

// Of a file system that this machine has mounted; CephFS has layouts, as extended attributes. 0 or a
// negative errno, -EOPNOTSUPP where nothing is striped.
int mounted_layout(const char* path, Layout& layout);
int set_mounted_layout(const char* directory, const Layout& layout);
// Makes the empty file `path` with O_EXCL.
int make_with_layout(const char* path, std::uint32_t mode, const Layout& layout);

// What the attributes ceph.dir.layout and ceph.file.layout are set to. Throws std::invalid_argument for
// what CephFS does not know.
std::string ceph_layout_text(const Layout& layout);

}  // namespace ferry::storage
