// Lustre's default layout for new files, from the local client.
#pragma once

#include <string>
#include <vector>

#include "storage/layout.hpp"

namespace ferry::storage {

// The file system's name in a mount's source: "lustre" of "mgs@tcp:/lustre/folder".
std::string lustre_name(const std::string& source);

// Fills in the stripe size and count that a directory's layout, or a part, leaves to the file
// system. `folders` hold the client's parameters; unknown ones stay open.
void fill_in_lustre_defaults(const std::vector<std::string>& folders, const std::string& name,
                             Layout& layout);

}  // namespace ferry::storage
