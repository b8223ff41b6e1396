// HDF5's interface for virtual file drivers, of HDF5 1.14 and 2 (H5FDdevelop.h, class version 1).
// It is declared here because the driver is built without HDF5: every program brings a library of
// its own, and the driver finds in that the few functions it calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::hdf5 {

using Identifier = std::int64_t;  // hid_t
using Address = std::uint64_t;    // haddr_t and hsize_t
using Outcome = int;              // herr_t

inline constexpr Outcome succeeded = 0;
inline constexpr Outcome failed = -1;
inline constexpr Address undefined_address = ~Address{0};

// H5FD_mem_t: what the bytes are for.
enum class AllocationType : int { no_list = -1, standard, super, btree, draw, gheap, lheap, ohdr };
inline constexpr std::size_t memory_types = 7;

// Of H5Fopen() and H5Fcreate(), as the driver gets them.
namespace access_flag {
inline constexpr unsigned read_write = 0x1;
inline constexpr unsigned truncate = 0x2;
inline constexpr unsigned exclusive = 0x4;
inline constexpr unsigned create = 0x10;
}  // namespace access_flag

// H5FD_FEAT_...: what a driver allows the library to do.
namespace feature {
inline constexpr unsigned long aggregate_metadata = 0x1;
inline constexpr unsigned long accumulate_metadata = 0x2 | 0x4;
inline constexpr unsigned long data_sieve = 0x8;
inline constexpr unsigned long aggregate_small_data = 0x10;
inline constexpr unsigned long posix_compatible_handle = 0x80;
inline constexpr unsigned long supports_swmr = 0x1000;
inline constexpr unsigned long default_compatible = 0x8000;
}  // namespace feature

struct DriverClass;

// H5FD_t: the library's part of an open file. It fills it; a driver appends its own.
struct LibraryFile {
  Identifier driver_id;
  const DriverClass* driver;
  unsigned long number;
  unsigned access_flags;
  unsigned long feature_flags;
  Address address_max;
  Address base_address;
  Address threshold;
  Address alignment;
  bool paged_aggregation;
};

// H5FD_class_t. A null function is one that the driver does not have.
struct DriverClass {
  unsigned version;
  int value;
  const char* name;
  Address address_max;
  int close_degree;
  Outcome (*terminate)();
  Address (*superblock_bytes)(LibraryFile*);
  Outcome (*superblock_encode)(LibraryFile*, char*, unsigned char*);
  Outcome (*superblock_decode)(LibraryFile*, const char*, const unsigned char*);
  std::size_t access_properties_bytes;
  void* (*access_properties_get)(LibraryFile*);
  void* (*access_properties_copy)(const void*);
  Outcome (*access_properties_free)(void*);
  std::size_t transfer_properties_bytes;
  void* (*transfer_properties_copy)(const void*);
  Outcome (*transfer_properties_free)(void*);
  LibraryFile* (*open)(const char* name, unsigned flags, Identifier access_list,
                       Address address_max);
  Outcome (*close)(LibraryFile*);
  int (*compare)(const LibraryFile*, const LibraryFile*);
  Outcome (*query)(const LibraryFile*, unsigned long* features);
  Outcome (*get_type_map)(const LibraryFile*, AllocationType*);
  Address (*allocate)(LibraryFile*, AllocationType, Identifier, Address bytes);
  Outcome (*free)(LibraryFile*, AllocationType, Identifier, Address, Address bytes);
  Address (*get_end_of_allocation)(const LibraryFile*, AllocationType);
  Outcome (*set_end_of_allocation)(LibraryFile*, AllocationType, Address);
  Address (*get_end_of_file)(const LibraryFile*, AllocationType);
  Outcome (*get_handle)(LibraryFile*, Identifier access_list, void** handle);
  Outcome (*read)(LibraryFile*, AllocationType, Identifier, Address, std::size_t bytes, void*);
  Outcome (*write)(LibraryFile*, AllocationType, Identifier, Address, std::size_t bytes,
                   const void*);
  // The last of `types` and `bytes` hold for all that follow a no_list or a zero.
  Outcome (*read_vector)(LibraryFile*, Identifier, std::uint32_t count, const AllocationType* types,
                         const Address*, const std::size_t* bytes, void* const* data);
  Outcome (*write_vector)(LibraryFile*, Identifier, std::uint32_t count,
                          const AllocationType* types, const Address*, const std::size_t* bytes,
                          const void* const* data);
  // Without these two the library makes vectors of selections.
  Outcome (*read_selection)(LibraryFile*, AllocationType, Identifier, std::uint32_t count,
                            const Identifier* memory_spaces, const Identifier* file_spaces,
                            const Address* offsets, const std::size_t* element_bytes,
                            void* const* data);
  Outcome (*write_selection)(LibraryFile*, AllocationType, Identifier, std::uint32_t count,
                             const Identifier* memory_spaces, const Identifier* file_spaces,
                             const Address* offsets, const std::size_t* element_bytes,
                             const void* const* data);
  Outcome (*flush)(LibraryFile*, Identifier, bool closing);
  Outcome (*truncate)(LibraryFile*, Identifier, bool closing);
  Outcome (*lock)(LibraryFile*, bool for_writing);
  Outcome (*unlock)(LibraryFile*);
  Outcome (*remove)(const char* name, Identifier access_list);
  Outcome (*control)(LibraryFile*, std::uint64_t operation, std::uint64_t flags, const void*,
                     void**);
  AllocationType free_lists[memory_types];
};

static_assert(sizeof(bool) == 1 && sizeof(AllocationType) == 4);
static_assert(offsetof(LibraryFile, access_flags) == 24);
static_assert(offsetof(LibraryFile, feature_flags) == 32);
static_assert(offsetof(LibraryFile, paged_aggregation) == 72);
static_assert(sizeof(LibraryFile) == 80);
static_assert(offsetof(DriverClass, terminate) == 32);
static_assert(offsetof(DriverClass, open) == 120);
static_assert(offsetof(DriverClass, read) == 208);
static_assert(offsetof(DriverClass, flush) == 256);
static_assert(offsetof(DriverClass, free_lists) == 304);
static_assert(sizeof(DriverClass) == 336);

// What a plug-in says that it is: H5PL_TYPE_VFD.
inline constexpr int plugin_is_driver = 2;

}  // namespace ferry::hdf5
