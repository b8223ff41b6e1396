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
  // When asking: what the storage does not grant is reduced to what it does, or left out. Otherwise
  // it is refused.
  bool at_most = false;
};

inline constexpr const char* object_bytes_name = "object_bytes";

// What CephFS grants of `asked`: its stripes and objects are multiples of 64 KiB, and objects are
// multiples of stripes. Throws std::invalid_argument for what is to be refused.
Layout fitted_to_ceph(Layout asked);
// What its attributes ceph.dir.layout and ceph.file.layout are set to, for a layout that fits.
std::string ceph_layout_text(const Layout& layout);
// The rules, for people.
extern const char* const ceph_layout_rules;

// The command that makes `path`, a file or a directory, with this layout on Lustre.
std::string lustre_command(const Layout& layout, const std::string& path);

}  // namespace ferry::storage
