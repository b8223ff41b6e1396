// How a file is striped over a storage's servers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ferry::storage {

// Where a part ends that ends with the file.
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
  // Only told, never asked for:
  bool metadata_server = false;  // the bytes lie beside the file's metadata, in no stripes
  bool foreign = false;          // they lie outside Lustre, which does not know how
  // Room that the part before it grows into, so many bytes at a time.
  std::uint64_t extension_bytes = 0;
  std::uint32_t mirror = 0;  // of which copy of the file, from 1 on; 0: there is one only
};

// Asked for when a file is made, and told as granted. Zero, -1 and empty leave a choice to the
// storage.
struct Layout {
  std::uint64_t stripe_bytes = 0;  // in a row on one server
  std::uint32_t stripe_count = 0;  // over so many servers
  std::int32_t first_server = -1;
  std::string pool;
  // What one storage adds. Of CephFS: object_bytes. Of Lustre: overstriping, 1 where one server may
  // have several stripes; all_servers, 1 where the count is however many there are; mirrors, how
  // many copies there are of the file; and what a part says beyond that (LayoutPart).
  std::map<std::string, std::uint64_t> extras;
  // Of Lustre, where it changes along the file: from its first byte to its end, one part after the
  // other, and so for each mirror. As granted, what is above is that of the first part. When
  // asking, what is above is left out or the same, and each begin_bytes is 0 or where the part
  // before ends.
  std::vector<LayoutPart> parts;
  // When asking: what the storage does not grant is reduced to what it does, or left out. Otherwise
  // it is refused.
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
// multiples of stripes. Throws std::invalid_argument for what is to be refused.
Layout fitted_to_ceph(Layout asked);
// What its attributes ceph.dir.layout and ceph.file.layout are set to, for a layout that fits.
std::string ceph_layout_text(const Layout& layout);
// The rules, for people.
extern const char* const ceph_layout_rules;

// What Lustre may grant of `asked`, before it is known how many servers there are. Throws
// std::invalid_argument for what is to be refused.
Layout fitted_to_lustre(Layout asked);
extern const char* const lustre_layout_rules;
// What PVFS2 may grant: strips in a row on one server, and over how many data files.
Layout fitted_to_pvfs2(Layout asked);
extern const char* const pvfs2_layout_rules;
// Whether `granted` has all that was asked for; overstriping is leave to do so. Which servers a
// part has is known once something was written to it.
bool grants(const Layout& granted, const Layout& asked);

// Whether `layout` has an extra of this name, and it holds.
bool has_extra(const Layout& layout, const char* name);
// What a part says, as the layout of a whole file, and the other way round.
Layout as_layout(const LayoutPart& part);
LayoutPart as_part(const Layout& layout, std::uint64_t begin_bytes, std::uint64_t end_bytes);

// The command that makes `path`, a file or a directory, with this layout on Lustre.
std::string lustre_command(const Layout& layout, const std::string& path);
// What that command does otherwise than the layout asks, for people; empty where it does not.
std::string lustre_command_note(const Layout& layout);

}  // namespace ferry::storage
