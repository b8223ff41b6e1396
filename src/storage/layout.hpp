// How a file is striped over a storage's servers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ferry::storage {

// The end of a part that reaches the end of the file.
inline constexpr std::uint64_t to_the_end = UINT64_MAX;

// One part of a file whose layout changes along it.
struct LayoutPart {
  std::uint64_t begin_bytes = 0;
  std::uint64_t end_bytes = 0;  // to_the_end: however long the file gets
  std::uint64_t stripe_bytes = 0;
  std::uint32_t stripe_count = 0;
  std::int32_t first_server = -1;
  std::string pool;
  bool overstriping = false;  // one server may have several stripes
  bool all_servers = false;   // the count is however many there are
  // Only reported, never requested:
  bool metadata_server = false;  // the bytes are in the file's metadata, without stripes
  bool foreign = false;          // they are outside Lustre, which does not know how
  // Space for the previous part to grow into, in steps of this many bytes.
  std::uint64_t extension_bytes = 0;
  std::uint32_t mirror = 0;  // which copy of the file, from 1 on; 0: the only one
};

// Requested for a new file, and reported as granted. Zero, -1 and empty let the storage choose.
struct Layout {
  std::uint64_t stripe_bytes = 0;  // in a row on one server
  std::uint32_t stripe_count = 0;  // number of servers
  std::int32_t first_server = -1;
  std::string pool;
  // Specific to one storage. CephFS: object_bytes. Lustre: overstriping, 1 if a server may have
  // several stripes; all_servers, 1 for all existing servers; mirrors, the number of copies of the
  // file; and the further settings of a part (LayoutPart).
  std::map<std::string, std::uint64_t> extras;
  // Lustre, if it changes along the file: the consecutive parts, for each mirror. If granted, the
  // settings above are the first part's. In a request, the settings above are omitted or the same,
  // and each begin_bytes is 0 or the end of the previous part.
  std::vector<LayoutPart> parts;
  // In a request: reduce or omit what the storage does not grant. Otherwise it is refused.
  bool at_most = false;
};

inline constexpr const char* object_bytes_name = "object_bytes";
inline constexpr const char* overstriping_name = "overstriping";
inline constexpr const char* all_servers_name = "all_servers";
inline constexpr const char* metadata_server_name = "metadata_server";
inline constexpr const char* foreign_name = "foreign";
inline constexpr const char* extension_bytes_name = "extension_bytes";
inline constexpr const char* mirror_name = "mirror";
inline constexpr const char* mirrors_name = "mirrors";

// What CephFS grants of `asked`: its stripes and objects are multiples of 64 KiB, and objects are
// multiples of stripes. Throws std::invalid_argument for a refusal.
Layout fitted_to_ceph(Layout asked);
// The values of its attributes ceph.dir.layout and ceph.file.layout, for a valid layout.
std::string ceph_layout_text(const Layout& layout);
// The rules, for people.
extern const char* const ceph_layout_rules;

// What Lustre may grant of `asked`, before the number of servers is known. Throws
// std::invalid_argument for a refusal.
Layout fitted_to_lustre(Layout asked);
extern const char* const lustre_layout_rules;
// What PVFS2 may grant: consecutive strips on one server, and the number of data files.
Layout fitted_to_pvfs2(Layout asked);
extern const char* const pvfs2_layout_rules;
// Whether `granted` satisfies the request; overstriping is a permission. The servers of a part are
// known once something was written to it.
bool grants(const Layout& granted, const Layout& asked);

// Whether `layout` has an extra of this name, and it holds.
bool has_extra(const Layout& layout, const char* name);
// A part as the layout of a whole file, and the reverse.
Layout as_layout(const LayoutPart& part);
LayoutPart as_part(const Layout& layout, std::uint64_t begin_bytes, std::uint64_t end_bytes);

// The command that makes `path`, a file or a directory, with this layout on Lustre.
std::string lustre_command(const Layout& layout, const std::string& path);
// How that command's result differs from the layout, for people; empty if it does not.
std::string lustre_command_note(const Layout& layout);

}  // namespace ferry::storage
