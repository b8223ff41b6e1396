#include "simulator/environment.hpp"

#include <memory>
#include <string>

#include "runtime/tuning.hpp"
#include "storage/router.hpp"

namespace ferry {

Tuning tune(const RuntimeOptions& options) {
  Tuning tuning;
  tuning.options = options;
  for (device::StorageTuning& storage : tuning.tunings.list) {
    if (options.crossovers) storage.crossovers = *options.crossovers;
    if (options.readahead_bytes_max) storage.readahead_bytes_max = *options.readahead_bytes_max;
  }
  return tuning;
}

namespace storage {

std::unique_ptr<Storage> make_router(const RouterOptions& /*options*/) {
  auto made = std::make_unique<simulator::SimulatedStorage>(simulator::next_disks);
  simulator::current_storage = made.get();
  return made;
}

std::string reason_of(Storage& /*storage*/, int /*error*/, const std::string& /*path*/) {
  return "";
}

}  // namespace storage
}  // namespace ferry
