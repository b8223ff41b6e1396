#include "collective/kept_storage.hpp"

#include <mutex>

#include "base/forks.hpp"
#include "collective/orders.hpp"
#include "storage/router.hpp"
#include "storage/uri.hpp"

namespace ferry::collective {
namespace {

struct KeptStorage {
  std::mutex mutex;
  std::shared_ptr<storage::Storage> storage;
  bool ended = false;
};

}  // namespace

std::shared_ptr<storage::Storage> storage_for(const std::string& path) {
  if (storage::scheme_of(path) == storage::Scheme::posix || !complete_before_finalize())
    return storage::make_router();
  auto& kept = of_this_process<KeptStorage>();
  const std::lock_guard lock(kept.mutex);
  if (kept.ended) return storage::make_router();
  if (kept.storage == nullptr) kept.storage = storage::make_router();
  return kept.storage;
}

void release_kept_storage() {
  auto& kept = of_this_process<KeptStorage>();
  std::shared_ptr<storage::Storage> released;  // its end waits for servers, outside the lock
  const std::lock_guard lock(kept.mutex);
  kept.ended = true;
  released.swap(kept.storage);
}

}  // namespace ferry::collective
