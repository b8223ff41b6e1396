// Layouts in the formats of the kernel's Lustre client, for machines without liblustreapi: the
// attribute lustre.lov, which reports them, and the argument of the ioctl LL_IOC_LOV_SETSTRIPE,
// which sets plain ones.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "storage/layout.hpp"

namespace ferry::storage {

// 0, or -EIO for an unknown format. For a directory: the layout of new files, with 0 for the file
// system's choice. Thread-safe, like everything here.
int layout_of_attribute(std::span<const std::byte> attribute, bool is_directory, Layout& layout);

// For a layout that fits.
std::vector<std::byte> stripes_request(const Layout& layout);

// The number of the ioctl that takes it.
unsigned long set_stripes_number();
// The flag of open(2) that keeps Lustre from choosing a layout.
int open_without_layout();

}  // namespace ferry::storage
