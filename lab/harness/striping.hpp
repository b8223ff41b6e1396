// Files striped over their storage's servers: makes them, and reads back what was granted.
#pragma once

#include <optional>
#include <string>

#include "harness/plan.hpp"
#include "storage/layout.hpp"

namespace ferry::bench {

// Makes an empty file with the cell's stripes. Throws ferry::Error.
void make_striped(const Cell& cell, const std::string& path);

// Absent where nothing is striped. Throws ferry::Error.
std::optional<storage::Layout> layout_of(const std::string& path);

}  // namespace ferry::bench
