// The parts of libcephfs 2's binary interface (Ceph 16 and later, 64-bit) that Ferry uses, so that
// builds do not need libcephfs-dev. If that is installed, the build compares them
// (ceph/abi_check.cpp). Names in comments are those of libcephfs.h.
#pragma once

#include <cstdint>
#include <ctime>

#include <sys/types.h>

namespace ferry::storage::ceph {

struct Client;     // ceph_mount_info
struct Directory;  // ceph_dir_result
struct Inode;      // Inode

// ceph_statx
struct Statx {
  std::uint32_t mask = 0;  // which of the members are set
  std::uint32_t block_bytes = 0;
  std::uint32_t links = 0;
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint16_t mode = 0;
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t blocks = 0;  // of 512 bytes
  dev_t device = 0;
  dev_t special_device = 0;
  timespec accessed{};
  timespec changed{};
  timespec modified{};
  timespec born{};
  std::uint64_t version = 0;
};

// CEPH_STATX_BASIC_STATS, CEPH_STATX_VERSION: members to ask for.
inline constexpr std::uint32_t basic_members = 0x7ff;
inline constexpr std::uint32_t version_member = 0x1000;

// Rights to a file, of ceph_fs.h, which is not installed. CEPH_CAP_FILE_CACHE: to keep what is
// read. CEPH_CAP_FILE_BUFFER: to keep what is written for later.
inline constexpr int may_cache = 1 << 10;
inline constexpr int may_buffer = 1 << 13;

// CEPH_SETATTR_...: members to set.
inline constexpr int set_mode = 1;
inline constexpr int set_owner = 2;
inline constexpr int set_group = 4;
inline constexpr int set_modified = 8;
inline constexpr int set_accessed = 16;

}  // namespace ferry::storage::ceph
