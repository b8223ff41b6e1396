#include "storage/layout.hpp"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "storage/mounted_layout.hpp"
#include "support/files.hpp"

namespace ferry::storage::layout_test {
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

TEST(Layout, WhatCannotFitLustreIsRefusedOrReduced) {
  Layout odd = asked(100 * kib, 4 * mib, true);
  odd.stripe_count = 3000;
  const Layout fitted = fitted_to_lustre(odd);
  EXPECT_EQ(fitted.stripe_bytes, 64 * kib);
  EXPECT_EQ(fitted.stripe_count, 2000U);
  EXPECT_TRUE(fitted.extras.empty());
  Layout many;
  many.stripe_count = 2001;
  Layout far;
  far.first_server = 65535;
  far.at_most = true;
  for (const Layout& layout : {asked(kib, 0), asked(0, mib), asked(4096 * mib, 0), many, far})
    EXPECT_THROW(fitted_to_lustre(layout), std::invalid_argument);
  EXPECT_EQ(fitted_to_lustre(asked(4096 * mib, 0, true)).stripe_bytes, 4096 * mib - 64 * kib);
}

// Parts that end at these places, and the stripe sizes of the first ones.
Layout in_parts(const std::vector<std::uint64_t>& ends,
                const std::vector<std::uint64_t>& stripe_sizes = {}, bool at_most = false) {
  Layout layout;
  layout.at_most = at_most;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    LayoutPart part;
    part.end_bytes = ends[i];
    if (i < stripe_sizes.size()) part.stripe_bytes = stripe_sizes[i];
    layout.parts.push_back(part);
  }
  return layout;
}

TEST(Layout, PartsThatFitLustreFollowEachOther) {
  Layout wanted = in_parts({4 * mib, 64 * mib, to_the_end}, {mib, 0, 4 * mib});
  wanted.parts[2].all_servers = true;
  wanted.parts[1].overstriping = true;
  const Layout fitted = fitted_to_lustre(wanted);
  ASSERT_EQ(fitted.parts.size(), 3U);
  EXPECT_EQ(fitted.stripe_bytes, mib) << "what is above is the first part's";
  EXPECT_EQ(fitted.parts[1].begin_bytes, 4 * mib);
  EXPECT_TRUE(fitted.parts[1].overstriping);
  EXPECT_EQ(fitted.parts[2].begin_bytes, 64 * mib);
  EXPECT_TRUE(fitted.parts[2].all_servers);
  EXPECT_TRUE(grants(fitted_to_lustre(fitted), fitted)) << "it fits as it is now";
  const Layout one = fitted_to_lustre(in_parts({to_the_end}, {mib}));
  EXPECT_TRUE(one.parts.empty()) << "one part is a layout without parts";
  EXPECT_EQ(one.stripe_bytes, mib);
}

TEST(Layout, PartsThatCannotBeAreRefused) {
  Layout gap = in_parts({4 * mib, to_the_end});
  gap.parts[1].begin_bytes = 8 * mib;
  Layout two_answers = in_parts({4 * mib, to_the_end}, {mib});
  two_answers.stripe_bytes = 2 * mib;
  Layout both = in_parts({4 * mib, to_the_end});
  both.parts[1].all_servers = true;
  both.parts[1].stripe_count = 2;
  for (const Layout& layout :
       {in_parts({8 * mib, 4 * mib, to_the_end}), in_parts({4 * mib, 4 * mib, to_the_end}),
        in_parts({4 * mib, 8 * mib}), in_parts({to_the_end, to_the_end}), in_parts({4 * mib}),
        in_parts({0, to_the_end}), in_parts({100'000, to_the_end}),
        in_parts({3 * mib, to_the_end}, {2 * mib}), in_parts({4 * mib, to_the_end}, {mib, 100}),
        gap, two_answers, both})
    EXPECT_THROW(fitted_to_lustre(layout), std::invalid_argument);
}

TEST(Layout, PartsAreReducedWhereThatIsAllowed) {
  const Layout fitted =
      fitted_to_lustre(in_parts({5 * mib, 9 * mib + 1, to_the_end}, {2 * mib}, true));
  ASSERT_EQ(fitted.parts.size(), 3U);
  EXPECT_EQ(fitted.parts[0].end_bytes, 4 * mib);
  EXPECT_EQ(fitted.parts[1].begin_bytes, 4 * mib);
  EXPECT_EQ(fitted.parts[1].end_bytes, 9 * mib);
  EXPECT_THROW(fitted_to_lustre(in_parts({8 * mib, 4 * mib, to_the_end}, {}, true)),
               std::invalid_argument)
      << "no reduction puts them in order";
}

TEST(Layout, OtherStoragesHaveNoParts) {
  Layout wanted = in_parts({4 * mib, to_the_end});
  wanted.stripe_count = 2;
  EXPECT_THROW(fitted_to_ceph(wanted), std::invalid_argument);
  EXPECT_THROW(fitted_to_pvfs2(wanted), std::invalid_argument);
  wanted.at_most = true;
  for (const Layout& fitted : {fitted_to_ceph(wanted), fitted_to_pvfs2(wanted)}) {
    EXPECT_TRUE(fitted.parts.empty());
    EXPECT_EQ(fitted.stripe_count, 2U);
  }
}

TEST(Layout, GrantsWhatWasAskedForOrNot) {
  Layout wanted = asked(mib, 0);
  Layout granted = asked(mib, 4 * mib);
  granted.first_server = 3;
  EXPECT_TRUE(grants(granted, wanted));
  EXPECT_TRUE(grants(granted, Layout{}));
  wanted.first_server = 2;
  EXPECT_FALSE(grants(granted, wanted));
  wanted.first_server = 3;
  wanted.extras[overstriping_name] = 1;
  EXPECT_TRUE(grants(granted, wanted)) << "it is leave, and may not have been needed";
  wanted.extras[object_bytes_name] = mib;
  EXPECT_FALSE(grants(granted, wanted));
}

TEST(Layout, GrantsThePartsAskedForOrNot) {
  const Layout wanted = in_parts({4 * mib, to_the_end}, {mib, 4 * mib});
  Layout granted = fitted_to_lustre(wanted);
  EXPECT_TRUE(grants(granted, wanted));
  Layout placed = wanted;
  placed.parts[1].first_server = 2;
  EXPECT_TRUE(grants(granted, placed)) << "its servers are not known yet";
  granted.parts[1].first_server = 1;
  EXPECT_FALSE(grants(granted, placed));
  EXPECT_FALSE(grants(asked(mib, 0), wanted));
  granted.parts[1].stripe_bytes = mib;
  EXPECT_FALSE(grants(granted, wanted));
}

TEST(Layout, IsWrittenAsLfsReadsIt) {
  Layout layout = asked(mib, 0);
  layout.stripe_count = 4;
  layout.first_server = 0;
  layout.pool = "fast";
  EXPECT_EQ(lustre_command(layout, "/mnt/it's"),
            "lfs setstripe -S 1048576 -c 4 -i 0 -p 'fast' '/mnt/it'\\''s'");
  layout.extras[overstriping_name] = 1;
  EXPECT_EQ(lustre_command(layout, "/f"), "lfs setstripe -S 1048576 -C 4 -i 0 -p 'fast' '/f'");
  EXPECT_EQ(lustre_command(Layout{}, "/f"), "lfs setstripe '/f'");
}

// lfs gives a part the previous one's stripes and pool by default. It refuses -S 0 and -c 0.
TEST(Layout, PartsAreWrittenAsLfsReadsThem) {
  Layout layout = in_parts({4 * mib, 64 * mib, to_the_end}, {mib});
  layout.parts[0].stripe_count = 1;
  layout.parts[0].pool = "fast";
  layout.parts[1].stripe_count = 8;
  layout.parts[1].overstriping = true;
  layout.parts[2].all_servers = true;
  layout.parts[2].first_server = 3;
  EXPECT_EQ(lustre_command(fitted_to_lustre(layout), "/f"),
            "lfs setstripe -E 4194304 -S 1048576 -c 1 -p 'fast' "
            "-E 67108864 -C 8 -p ignore -E -1 -c -1 -i 3 '/f'");
  EXPECT_EQ(
      lustre_command_note(fitted_to_lustre(layout)),
      "lfs takes from the part before it what is left to Lustre here: the stripe size of part "
      "2, the stripe size of part 3");
  layout.parts[1].stripe_bytes = mib;
  layout.parts[2].stripe_bytes = mib;
  EXPECT_EQ(lustre_command_note(fitted_to_lustre(layout)), "");
  EXPECT_EQ(lustre_command_note(Layout{}), "");
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
}  // namespace ferry::storage::layout_test
