// Profiles: TOML that people edit and copy between machines.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/bytes.hpp"
#include "runtime/profile.hpp"

namespace ferry::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  try {
    const Profile profile = parse_profile({reinterpret_cast<const char*>(data), bytes});
    for (const StorageProfile& storage : profile.storages) {
      const std::uint32_t page = storage.page_bytes.value_or(4096);
      require(page >= 4096 && (page & (page - 1)) == 0, "a page size that no cache has");
      require(storage.server_threads.value_or(1) >= 1, "no server threads");
      require(!describe(storage.name).empty(), "a storage without a name");
      static_cast<void>(is_same_storage(storage.name, storage.name));
    }
  } catch (const ProfileError& error) {
    require(std::string_view(error.what()).find("line ") == 0, "an error without its place");
  }
  return 0;
}

}  // namespace ferry::fuzz
