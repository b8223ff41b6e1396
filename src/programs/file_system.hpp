// The mount, block device and direct I/O support of a path.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

namespace ferry::bench {

// What `st_mode` says that a path is: "file", "directory", "socket", ...
const char* kind_of(mode_t mode);

// Mount point, type, source, options and block device (null if not local) of an existing path.
// Throws std::system_error.
nlohmann::ordered_json file_system_facts(const std::string& path);

// The above plus kind, size, direct I/O and the server's method, of an existing path. `engine` is
// the storage's. Throws std::system_error.
nlohmann::ordered_json path_facts(const std::string& path, const std::string& engine);

// The folder in /sys of the path's block device; empty if there is none.
std::string block_device_folder(const std::string& path);

}  // namespace ferry::bench
