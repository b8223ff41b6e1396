#include "storage/layout.hpp"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "storage/mounted_layout.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

Layout asked(std::uint64_t stripe_bytes, std::uint64_t object_bytes, bool at_most = false) {
  Layout layout;
  layout.stripe_bytes = stripe_bytes;
  if (object_bytes > 0) layout.extras[object_bytes_name] = object_bytes;
  layout.at_most = at_most;
  return layout;
}

constexpr std::uint64_t kib = 1 << 10;
constexpr std::uint64_t mib = 1 << 20;

TEST(Layout, WhatFitsCephStaysAsItIs) {
  for (const Layout& layout :
       {asked(0, 0), asked(64 * kib, 0), asked(mib, 4 * mib), asked(0, 192 * kib)}) {
    const Layout fitted = fitted_to_ceph(layout);
    EXPECT_EQ(fitted.stripe_bytes, layout.stripe_bytes);
    EXPECT_EQ(fitted.extras, layout.extras);
  }
}

TEST(Layout, WhatDoesNotFitCephIsRefused) {
  for (const Layout& layout : {asked(kib, 0), asked(65 * kib, 0), asked(mib, mib + 64 * kib),
                               asked(mib, 64 * kib), asked(0, 100'000), asked(0, 2048 * mib)})
    EXPECT_THROW(fitted_to_ceph(layout), std::invalid_argument);
}

TEST(Layout, WhatDoesNotFitCephIsReducedWhereThatIsAllowed) {
  const auto fitted = [](std::uint64_t stripe_bytes, std::uint64_t object_bytes) {
    return fitted_to_ceph(asked(stripe_bytes, object_bytes, true));
  };
  EXPECT_EQ(fitted(100 * kib, 0).stripe_bytes, 64 * kib);
  EXPECT_EQ(fitted(mib, 5 * mib / 2).extras[object_bytes_name], 2 * mib);
  EXPECT_EQ(fitted(4 * mib, mib + 1).stripe_bytes, mib);
  EXPECT_EQ(fitted(4 * mib, mib + 1).extras[object_bytes_name], mib);
  EXPECT_EQ(fitted(0, 4096 * mib).extras[object_bytes_name], 2048 * mib - 64 * kib);
  EXPECT_THROW(fitted(kib, 0), std::invalid_argument) << "there is nothing below 64 KiB";
}

TEST(Layout, IsWrittenAsCephReadsIt) {
  Layout layout = asked(mib, 4 * mib);
  layout.stripe_count = 3;
  layout.pool = "fast";
  EXPECT_EQ(ceph_layout_text(layout),
            "stripe_unit=1048576 stripe_count=3 object_size=4194304 pool=fast");
  EXPECT_EQ(ceph_layout_text(Layout{}), "");
}

TEST(Layout, IsWrittenAsLfsReadsIt) {
  Layout layout = asked(mib, 0);
  layout.stripe_count = 4;
  layout.first_server = 0;
  layout.pool = "fast";
  EXPECT_EQ(lustre_command(layout, "/mnt/it's"),
            "lfs setstripe -S 1048576 -c 4 -i 0 -p 'fast' '/mnt/it'\\''s'");
  EXPECT_EQ(lustre_command(Layout{}, "/f"), "lfs setstripe '/f'");
}

TEST(Layout, AFileSystemOfThisMachineStripesNothing) {
  const test::ScratchDirectory directory;
  EXPECT_EQ(striped_system(directory / "absent/f"), StripedSystem::none);
  Layout layout;
  EXPECT_EQ(mounted_layout(directory.path(), layout), -EOPNOTSUPP);
  EXPECT_EQ(mounted_layout(directory / "absent", layout), -ENOENT);
  EXPECT_EQ(set_mounted_layout(directory.path(), layout), -EOPNOTSUPP);
  EXPECT_EQ(make_with_layout(directory / "f", 0644, layout), -EOPNOTSUPP);
  EXPECT_EQ(test::file_size(directory / "f"), -ENOENT);
}

}  // namespace
}  // namespace ferry::storage
