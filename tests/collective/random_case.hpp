// Random transfers: views that do not overlap, memories with gaps and out of order, settings. Every
// rank draws the same.
#pragma once

#include <ferry/collective.hpp>

#include "collective/type_maps.hpp"
#include "collective/world.hpp"

namespace ferry::test {

// What one rank does in one transfer.
struct Share {
  FlatMap view;
  std::int64_t offset = 0;
  std::int64_t count = 0;  // periods of the memory
  FlatMap memory;

  std::int64_t bytes() const { return count * static_cast<std::int64_t>(memory.bytes.size()); }
  std::int64_t memory_bytes() const { return count * memory.period_bytes + 1; }
};

// One transfer of all ranks.
struct Case {
  explicit Case(Random& random) {
    displacement = static_cast<std::int64_t>(random.below(3000));
    for (FlatMap& view : random_partition(random, static_cast<std::size_t>(ranks()))) {
      Share share;
      share.view = std::move(view);
      share.memory = random_memory(random);
      const auto data = static_cast<std::int64_t>(share.view.bytes.size());
      if (data > 0 && !random.one_in(6)) {
        share.offset =
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(3 * data)));
        // At most twenty periods, to keep files small: they end before 700,000 bytes.
        const auto most = static_cast<std::uint64_t>(20 * data);
        if (share.memory.bytes.size() > most) share.memory.bytes.resize(most);
        const auto wanted = std::min(random.between(1, 60'000), most);
        share.count = std::max<std::int64_t>(
            1, static_cast<std::int64_t>(wanted / share.memory.bytes.size()));
      }
      shares.push_back(std::move(share));
    }
    options.writers = static_cast<int>(random.below(4));
    options.buffer_bytes = static_cast<std::int64_t>(random.between(1, 30'000));
    options.alignment_bytes = static_cast<std::int64_t>(random.between(1, 5000));
    options.writes_first = random.one_in(2);
    write_seed = random.bits();
    bytes_before = random.below(20'000);
  }

  const Share& mine() const { return shares[static_cast<std::size_t>(rank())]; }
  std::string memory_of(std::size_t of) const {
    return pattern(static_cast<std::size_t>(shares[of].memory_bytes()), write_seed + of);
  }

  std::int64_t displacement = 0;
  std::vector<Share> shares;
  collective::Options options;
  std::uint64_t write_seed = 0;
  std::size_t bytes_before = 0;  // in the file when it is written
};

}  // namespace ferry::test
