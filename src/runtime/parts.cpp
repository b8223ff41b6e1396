#include "runtime/parts.hpp"

#include <cerrno>
#include <string>

namespace ferry {

Buffer allocate_from(cpu::Heap& heap, std::uint64_t bytes, std::uint64_t alignment_bytes) {
  if (alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0) {
    throw Error(EINVAL, "alignment_bytes: a power of two");
  }
  void* data = heap.allocate(bytes, alignment_bytes);
  if (data == nullptr) {
    throw Error(ENOMEM, "the arena has no " + std::to_string(bytes) +
                            " bytes left in one piece (the largest has " +
                            std::to_string(heap.largest_free_bytes()) +
                            "); raise RuntimeOptions::arena_bytes");
  }
  return Buffer(data, bytes, [&heap](void* pointer) { heap.free(pointer); });
}

RuntimeInfo describe_settings(const Tuning& tuning, const storage::Description& storage) {
  const device::StorageTuning& main = tuning.main();
  RuntimeInfo info;
  info.page_bytes = tuning.options.page_bytes;
  info.crossovers = main.crossovers;
  info.crossovers_source = tuning.crossovers_source;
  info.readahead_bytes_max = main.readahead_bytes_max;
  info.queue_depth = tuning.queue_depth;
  info.profile = tuning.profile;
  info.storage_engine = storage.engine;
  info.notes = storage.notes;
  info.notes.insert(info.notes.end(), tuning.notes.begin(), tuning.notes.end());
  return info;
}

}  // namespace ferry
