// What the handles of bulk transfers stand for.
#pragma once

#include <cstdint>
#include <memory>

#include <ferry.h>

#include <ferry/bulk.hpp>

#include "bindings/c/handles.hpp"

namespace ferry::c {

using FileHandles = HandleTable<bulk::File, ferry_file, 1>;
using FutureHandles = HandleTable<bulk::Future, ferry_future, 2>;

// Throws for memory or a range that no file can have.
void check_range(const void* data, std::uint64_t bytes, std::uint64_t offset_bytes);

}  // namespace ferry::c
