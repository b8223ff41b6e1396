// Lustre's default layout for new files, from the local client.
#pragma once

#include <string>
#include <vector>

#include "storage/layout.hpp"

namespace ferry::storage {

// The name of the file system in what is mounted: "lustre" of "mgs@tcp:/lustre/folder".
std::string lustre_name(const std::string& source);

// Fills in the stripe size and count that a directory's layout, or a part of it, leaves to the file
// system. `folders` are where the client keeps its parameters; what is not told there stays open.
void fill_in_lustre_defaults(const std::vector<std::string>& folders, const std::string& name,
                             Layout& layout);

}  // namespace ferry::storage
