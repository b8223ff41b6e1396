// Magic numbers of file systems (struct statfs, f_type) that not every <linux/magic.h> has.
#pragma once

namespace ferry {

constexpr long beegfs_magic = 0x19830326;
constexpr long ceph_magic = 0x00C36400;
constexpr long cifs_magic = 0xFF534D42;
constexpr long configfs_magic = 0x62656570;
constexpr long fusectl_magic = 0x65735543;
constexpr long gfs2_magic = 0x01161970;
constexpr long gpfs_magic = 0x47504653;
constexpr long lustre_magic = 0x0BD00BD0;
constexpr long orangefs_magic = 0x20030528;
constexpr long pstore_magic = 0x6165676C;
constexpr long ramfs_magic = 0x858458F6;
constexpr long resctrl_magic = 0x07655821;
constexpr long smb2_magic = 0xFE534D42;
constexpr long xfs_magic = 0x58465342;

}  // namespace ferry
