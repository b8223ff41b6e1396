// The functions of libpvfs2's system interface that Ferry calls, loaded at run time.
#pragma once

#include <cstdint>
#include <string>

#include "storage/library.hpp"
#include "storage/pvfs2/abi.hpp"

namespace ferry::storage {

// Most return 0 or the negative of an error that errno_of() knows.
struct Pvfs2Library : Library {
  using Reference = pvfs2::Reference;
  using Credential = pvfs2::Credential;
  using Attributes = pvfs2::Attributes;

  // Throws Unavailable.
  explicit Pvfs2Library(const std::string& file_name)
      : Library({file_name},
                "install the client of your OrangeFS or PVFS2, which is in no Debian release") {}

  // A table of mounts, which the library keeps; null if the file has none.
  const pvfs2::Table* (*parse_table)(const char*) = symbol("PVFS_util_parse_pvfstab");
  int (*initialize)(std::uint64_t) = symbol("PVFS_sys_initialize");
  int (*fs_add)(pvfs2::Pvfs2Mount*) = symbol("PVFS_sys_fs_add");
  int (*set_info)(std::int32_t, unsigned) = symbol("PVFS_sys_set_info");
  // Redirects the library's messages, with a mode of fopen(3). Its gossip_disable() leaves errors
  // on standard error.
  int (*log_to_file)(const char*, const char*) = symbol("gossip_enable_file");
  int (*errno_of)(int) = symbol("PVFS_get_errno_mapping");
  // User, group, seconds (0: the library's choice), key and certificate (null: the usual ones).
  int (*generate_credential)(const char*, const char*, unsigned, const char*, const char*,
                             Credential*) = symbol("PVFS_util_gen_credential");

  int (*lookup)(std::int32_t, char*, const Credential*, pvfs2::LookedUp*, std::int32_t,
                pvfs2::Hint*) = symbol("PVFS_sys_lookup");
  int (*getattr)(Reference, std::uint32_t, const Credential*, Attributes*,
                 pvfs2::Hint*) = symbol("PVFS_sys_getattr");
  void (*release_attributes)(Attributes*) = symbol("PVFS_util_release_sys_attr");
  int (*create)(char*, Reference, Attributes, const Credential*, pvfs2::Distribution*, Reference*,
                pvfs2::ServerOrder*, pvfs2::Hint*) = symbol("PVFS_sys_create");
  int (*mkdir)(char*, Reference, Attributes, const Credential*, Reference*,
               pvfs2::Hint*) = symbol("PVFS_sys_mkdir");
  int (*readdir)(Reference, std::uint64_t, std::int32_t, const Credential*, pvfs2::Listed*,
                 pvfs2::Hint*) = symbol("PVFS_sys_readdir");
  // For memory allocated by the library. Some builds of OrangeFS have their own allocator, whose
  // blocks free() does not know; others have none.
  void (*free_memory)(void*) = symbol_or_null("PINT_free2");
  int (*remove)(char*, Reference, const Credential*, pvfs2::Hint*) = symbol("PVFS_sys_remove");
  int (*rename)(char*, Reference, char*, Reference, const Credential*,
                pvfs2::Hint*) = symbol("PVFS_sys_rename");
  int (*truncate)(Reference, std::int64_t, const Credential*,
                  pvfs2::Hint*) = symbol("PVFS_sys_truncate");
  int (*statfs)(std::int32_t, const Credential*, pvfs2::Room*,
                pvfs2::Hint*) = symbol("PVFS_sys_statfs");
  int (*flush)(Reference, const Credential*, pvfs2::Hint*) = symbol("PVFS_sys_flush");
  int (*io)(Reference, pvfs2::Request*, std::int64_t, void*, pvfs2::Request*, const Credential*,
            std::int64_t*, std::int32_t, pvfs2::Hint*) = symbol("PVFS_sys_io");
  int (*geteattr)(Reference, const Credential*, pvfs2::Value*, pvfs2::Value*,
                  pvfs2::Hint*) = symbol("PVFS_sys_geteattr");
  int (*seteattr)(Reference, const Credential*, pvfs2::Value*, pvfs2::Value*, std::int32_t,
                  pvfs2::Hint*) = symbol("PVFS_sys_seteattr");

  // It writes every error to standard error; Ferry reports what matters.
  void be_quiet() const { log_to_file("/dev/null", "a"); }

  pvfs2::Request** bytes = symbol("PVFS_BYTE");  // set by initialize()
  int (*contiguous)(std::int32_t, pvfs2::Request*,
                    pvfs2::Request**) = symbol("PVFS_Request_contiguous");
  int (*free_request)(pvfs2::Request**) = symbol("PVFS_Request_free");

  pvfs2::Distribution* (*find_distribution)(const char*) = symbol("PVFS_sys_dist_lookup");
  int (*set_distribution)(pvfs2::Distribution*, const char*,
                          void*) = symbol("PVFS_sys_dist_setparam");
  int (*free_distribution)(pvfs2::Distribution*) = symbol("PVFS_sys_dist_free");
};

}  // namespace ferry::storage
