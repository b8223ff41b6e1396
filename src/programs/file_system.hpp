// What a path lives on: mount, block device, and whether it takes direct I/O.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

// Mount point, type, source, options and block device (null where there is none that is local) of
// an existing path. Throws std::system_error.
nlohmann::ordered_json file_system_facts(const std::string& path);

// The above, and kind, size, direct I/O and the way that the server will take, of an existing path.
// `engine` is that of the storage. Throws std::system_error.
nlohmann::ordered_json path_facts(const std::string& path, const std::string& engine);

// The folder in /sys of the block device that `path` lies on; empty where there is none.
std::string block_device_folder(const std::string& path);

}  // namespace ferry::bench
