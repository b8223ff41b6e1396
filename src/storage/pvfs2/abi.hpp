// The parts of libpvfs2 2.10's (OrangeFS) binary interface (64-bit) that Ferry uses, declared here
// because Debian has no OrangeFS. If its headers are installed, the build compares them
// (pvfs2/abi_check.cpp). Names in comments are those of pvfs2-types.h and pvfs2-sysint.h.
#pragma once

#include <cstdint>

namespace ferry::storage::pvfs2 {

// PVFS_object_ref: a file, directory or symbolic link.
struct Reference {
  std::uint64_t handle = 0;
  std::int32_t file_system = 0;
  std::int32_t padding = 0;
};

// PVFS_credential: the user.
struct Credential {
  std::uint32_t user = 0;
  std::uint32_t group_count = 0;
  std::uint32_t* groups = nullptr;
  char* issuer = nullptr;
  std::uint64_t timeout_s = 0;  // after 1970
  std::uint32_t signature_bytes = 0;
  unsigned char* signature = nullptr;
  std::uint32_t certificate_bytes = 0;
  unsigned char* certificate = nullptr;
};

// PVFS_sys_attr
struct Attributes {
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t permissions = 0;  // as in struct stat
  std::uint64_t accessed_s = 0;
  std::uint64_t modified_s = 0;
  std::uint64_t changed_s = 0;
  std::int64_t size_bytes = 0;
  char* link_target = nullptr;
  std::int32_t data_files = 0;
  std::int32_t directory_servers_initial = 0;
  std::int32_t directory_servers_max = 0;
  std::int32_t directory_split_size = 0;
  std::uint32_t mirror_copies = 0;
  char* distribution = nullptr;
  char* distribution_settings = nullptr;  // "strip_size:65536\n"
  std::int64_t entries = 0;
  std::int32_t type = 0;
  std::uint64_t flags = 0;
  std::uint32_t mask = 0;
  std::int64_t block_bytes = 0;
};

// PVFS_sys_mntent
struct Pvfs2Mount {
  char** servers = nullptr;
  std::int32_t server_count = 0;
  char* working_server = nullptr;
  char* name = nullptr;
  std::int32_t flow_protocol = 0;
  std::int32_t encoding = 0;
  std::int32_t file_system = 0;  // its number, filled in by fs_add
  std::int32_t data_files = 0;
  char* bmi_options = nullptr;
  std::int32_t integrity_check = 0;
  char* folder = nullptr;
  char* options = nullptr;
};

// PVFS_util_tab
struct Table {
  std::int32_t count = 0;
  Pvfs2Mount* mounts = nullptr;
  char file_name[256] = {};
};

// PVFS_sysresp_lookup
struct LookedUp {
  Reference reference;
  char* error_path = nullptr;
  std::int32_t error_path_bytes = 0;
};

// PVFS_dirent
struct Name {
  char text[257] = {};
  std::uint64_t handle = 0;
};

// PVFS_sysresp_readdir
struct Listed {
  std::uint64_t position = 0;  // where to continue
  Name* names = nullptr;       // the caller frees them, as the library requires
  std::uint32_t count = 0;
  std::uint64_t version = 0;
};

// PVFS_sysresp_statfs
struct Room {
  std::int32_t file_system = 0;
  std::int64_t bytes_available = 0;  // of the fullest server, times their number
  std::int64_t bytes_total = 0;
  std::uint64_t others[8] = {};
  std::int32_t servers = 0;
};

// PVFS_sys_dist
struct Distribution {
  char* name = nullptr;
  void* settings = nullptr;
};

// PVFS_ds_keyval
struct Value {
  void* bytes = nullptr;
  std::int32_t room = 0;
  std::int32_t size = 0;
};

struct Request;      // PINT_Request
struct Hint;         // PVFS_hint_s
struct ServerOrder;  // PVFS_sys_layout_s

inline constexpr std::int32_t type_file = 1;
inline constexpr std::int32_t type_directory = 4;
inline constexpr std::int32_t type_link = 8;
inline constexpr std::int32_t io_read = 1;
inline constexpr std::int32_t io_write = 2;
inline constexpr std::int32_t follow_last_link = 1;
inline constexpr std::uint64_t list_start = 0x7ffffffe;
inline constexpr std::uint64_t list_end = 0x7ffffffd;
inline constexpr std::int32_t attribute_cache_timeout = 2;
inline constexpr std::int32_t name_cache_timeout = 1;
// Masks of attributes.
inline constexpr std::uint32_t mask_owner = 1 << 0;
inline constexpr std::uint32_t mask_group = 1 << 1;
inline constexpr std::uint32_t mask_permissions = 1 << 2;
inline constexpr std::uint32_t mask_times = (1 << 3) | (1 << 4) | (1 << 5);
inline constexpr std::uint32_t mask_type = 1 << 6;
inline constexpr std::uint32_t mask_size = 1 << 20;
inline constexpr std::uint32_t mask_link_target = 1 << 24;
inline constexpr std::uint32_t mask_data_files = 1 << 25;
inline constexpr std::uint32_t mask_block_bytes = 1 << 28;
inline constexpr std::uint32_t mask_all = 0x3f30007f;

}  // namespace ferry::storage::pvfs2
