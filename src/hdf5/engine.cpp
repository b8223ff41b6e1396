#include "hdf5/engine.hpp"

#include <mutex>
#include <optional>

#include "base/forks.hpp"

namespace ferry::hdf5 {
namespace {

// Never destroyed with other objects: HDF5 closes files later than that. A child of fork() has it
// with the lock in the state of that moment, so it makes its own.
struct Kept {
  std::mutex mutex;
  std::optional<bulk::Engine> engine;
};

}  // namespace

bulk::Engine engine_of_this_process() {
  auto& kept = of_this_process<Kept>();
  const std::lock_guard lock(kept.mutex);
  if (!kept.engine) kept.engine = bulk::Engine::common();
  return *kept.engine;
}

void end_engine() {
  auto& kept = of_this_process<Kept>();
  std::optional<bulk::Engine> ended;  // after the lock: it waits for servers
  const std::lock_guard lock(kept.mutex);
  ended.swap(kept.engine);
}

}  // namespace ferry::hdf5
