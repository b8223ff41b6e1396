// The functions of liblustreapi that Ferry calls, loaded at run time. Their types are declared
// here, because Debian has no Lustre; they are those of lustreapi.h since version 2.10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

#include "storage/library.hpp"

namespace ferry::storage {

// Opaque. The calls read and set its current component.
struct LustreLayout;

struct LustreLibrary : Library {
  // Throws Unavailable.
  explicit LustreLibrary(const std::string& file_name)
      : Library({file_name},
                "install Lustre's own package lustre-client-utils (lustre-client on Red Hat); "
                "Debian has none") {
    // Otherwise it would also print lines.
    if (set_level != nullptr) set_level(0);
  }

  // Most return 0, or -1 with errno, which may still be 0.
  LustreLayout* (*alloc)() = symbol("llapi_layout_alloc");
  void (*free)(LustreLayout*) = symbol("llapi_layout_free");
  int (*stripe_count_set)(LustreLayout*, std::uint64_t) = symbol("llapi_layout_stripe_count_set");
  int (*stripe_size_set)(LustreLayout*, std::uint64_t) = symbol("llapi_layout_stripe_size_set");
  int (*pattern_set)(LustreLayout*, std::uint64_t) = symbol("llapi_layout_pattern_set");
  // Sets a count of 1 if none is set.
  int (*ost_index_set)(LustreLayout*, int, std::uint64_t) = symbol("llapi_layout_ost_index_set");
  int (*pool_name_get)(const LustreLayout*, char*,
                       std::size_t) = symbol("llapi_layout_pool_name_get");
  int (*pool_name_set)(LustreLayout*, const char*) = symbol("llapi_layout_pool_name_set");
  int (*extent_set)(LustreLayout*, std::uint64_t,
                    std::uint64_t) = symbol("llapi_layout_comp_extent_set");
  // After the last component, whose end must have been set; the new one becomes the current one. Of
  // versions up to 2.11 it takes over the old one's stripes and pool.
  int (*add)(LustreLayout*) = symbol("llapi_layout_comp_add");
  // 0, 1 if there is no such component, or -1.
  int (*use)(LustreLayout*, unsigned) = symbol("llapi_layout_comp_use");
  // A descriptor, or -1. It looks for the pools of all components if the current one has a pool.
  int (*file_open)(const char*, int, mode_t,
                   const LustreLayout*) = symbol("llapi_layout_file_open");
  void (*set_level)(int) = symbol_or_null("llapi_msg_set_level");
};

inline constexpr std::uint64_t lustre_default = 0x1000000000000002;
inline constexpr std::uint64_t lustre_all_servers = lustre_default + 1;
// Patterns.
inline constexpr std::uint64_t lustre_raid0 = 0;
inline constexpr std::uint64_t lustre_overstriping = 4;
// Selects the current component.
inline constexpr unsigned lustre_first = 1;
inline constexpr unsigned lustre_next = 3;

}  // namespace ferry::storage
