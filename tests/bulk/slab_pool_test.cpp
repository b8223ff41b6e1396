// Memory of small files: kept for the next batch, and safe beyond its pool.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "bulk/lanes.hpp"

namespace ferry::bulk {
namespace {

TEST(SlabPool, GivesOutAgainWhatCameBack) {
  const auto pool = std::make_shared<SlabPool>();
  std::shared_ptr<std::byte> slab = pool->take();
  ASSERT_NE(slab, nullptr);
  const std::byte* first = slab.get();
  slab.reset();
  const std::shared_ptr<std::byte> again = pool->take();
  EXPECT_EQ(again.get(), first);
  const std::shared_ptr<std::byte> another = pool->take();
  EXPECT_NE(another.get(), first);
}

TEST(SlabPool, KeepsAtMost256Mebibytes) {
  const auto pool = std::make_shared<SlabPool>();
  std::vector<std::shared_ptr<std::byte>> slabs;
  for (int i = 0; i < 200; ++i)
    slabs.push_back(pool->take());
  slabs.clear();
  EXPECT_EQ(pool->kept_bytes(), std::uint64_t{256} << 20);
}

TEST(SlabPool, MemoryOutlivesIt) {
  auto pool = std::make_shared<SlabPool>();
  const std::shared_ptr<std::byte> slab = pool->take();
  pool.reset();
  slab.get()[SlabPool::slab_bytes - 1] = std::byte{7};
  EXPECT_EQ(slab.get()[SlabPool::slab_bytes - 1], std::byte{7});
}

}  // namespace
}  // namespace ferry::bulk
