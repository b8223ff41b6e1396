// Layouts on Lustre, against a mock of liblustreapi (tests/mocks) and against bytes written down
// here: no real Lustre has been asked.
#include "storage/lustre_layouts.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "storage/lustre_attribute.hpp"
#include "storage/mounted_layout.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

constexpr std::uint64_t mib = 1 << 20;

// ---- by the library
// ------------------------------------------------------------------------------

class LustreMock : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(layouts.without_library(), "") << "build the target lustreapi_mock";
    test::write_file(path("probe"), "");
    if (setxattr(path("probe").c_str(), "user.ferry.probe", "", 0, 0) != 0)
      GTEST_SKIP() << "the mock needs extended attributes, which this file system refuses";
  }
  std::string path(const std::string& name) const { return directory / name; }

  const test::ScratchDirectory directory;
  LustreLayouts layouts{FERRY_MOCKS "/liblustreapi.so.1"};
};

TEST_F(LustreMock, MakesFilesWithTheLayoutAskedFor) {
  Layout asked;
  asked.stripe_bytes = 2 * mib;
  asked.stripe_count = 3;
  asked.first_server = 2;
  asked.pool = "fast";
  ASSERT_EQ(layouts.make(path("f"), 0640, asked), 0);
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  Layout told;
  ASSERT_EQ(layouts.get(path("f"), told), 0);
  EXPECT_TRUE(grants(told, asked));
  EXPECT_EQ(told.first_server, 2);
  EXPECT_TRUE(told.extras.empty());
  EXPECT_TRUE(told.parts.empty());
  EXPECT_EQ(layouts.make(path("f"), 0640, asked), -EEXIST);
}

TEST_F(LustreMock, WhatIsNotAskedForIsLeftToLustre) {
  ASSERT_EQ(layouts.make(path("f"), 0600, Layout{}), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("f"), told), 0);
  EXPECT_EQ(told.stripe_bytes, mib);
  EXPECT_EQ(told.stripe_count, 1U);
  EXPECT_EQ(told.pool, "");
}

TEST_F(LustreMock, MoreStripesThanServersAreRefusedReducedOrOverstriped) {
  Layout asked;
  asked.stripe_count = 7;
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT) << "a refused file is not left behind";
  asked.at_most = true;
  ASSERT_EQ(layouts.make(path("f"), 0600, asked), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("f"), told), 0);
  EXPECT_EQ(told.stripe_count, 4U);
  asked.at_most = false;
  asked.extras[overstriping_name] = 1;
  ASSERT_EQ(layouts.make(path("over"), 0600, asked), 0);
  ASSERT_EQ(layouts.get(path("over"), told), 0);
  EXPECT_EQ(told.stripe_count, 7U);
  EXPECT_EQ(told.extras[overstriping_name], 1U);
}

TEST_F(LustreMock, PoolsAndServersThatAreNotThereAreRefused) {
  Layout asked;
  asked.pool = "absent";
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  asked.pool = "a-name-of-sixteen";
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  asked.pool.clear();
  asked.first_server = 4;
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -ENODEV);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  EXPECT_EQ(layouts.make(path("absent/f"), 0600, Layout{}), -ENOENT);
}

TEST_F(LustreMock, DirectoriesPassTheirLayoutOn) {
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  Layout asked;
  asked.stripe_bytes = 4 * mib;
  asked.stripe_count = 2;
  ASSERT_EQ(layouts.set(path("d"), asked), 0);
  ASSERT_EQ(layouts.make(path("d/f"), 0600, Layout{}), 0);
  for (const char* name : {"d", "d/f"}) {
    Layout told;
    ASSERT_EQ(layouts.get(path(name), told), 0) << name;
    EXPECT_TRUE(grants(told, asked)) << name;
  }
  Layout told;
  ASSERT_EQ(layouts.get(directory.path(), told), 0);
  EXPECT_EQ(told.stripe_count, 1U) << "the file system's";
}

TEST_F(LustreMock, CompositeLayoutsAreReadBack) {
  test::write_file(path("f"), "");
  const std::string two =
      "0 4194304 1048576 1 0 0 -\n4194304 18446744073709551615 4194304 3 0 1 fast\n";
  ASSERT_EQ(setxattr(path("f").c_str(), "user.ferry.mock.lustre", two.data(), two.size(), 0), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("f"), told), 0);
  EXPECT_EQ(told.stripe_count, 1U);
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_EQ(told.parts[0].end_bytes, 4 * mib);
  EXPECT_EQ(told.parts[1].begin_bytes, 4 * mib);
  EXPECT_EQ(told.parts[1].end_bytes, UINT64_MAX);
  EXPECT_EQ(told.parts[1].stripe_bytes, 4 * mib);
  EXPECT_EQ(told.parts[1].stripe_count, 3U);
  EXPECT_EQ(told.parts[1].first_server, 1);
  EXPECT_EQ(told.parts[1].pool, "fast");
}

LayoutPart part(std::uint64_t end_bytes, std::uint64_t stripe_bytes, std::uint32_t stripe_count) {
  LayoutPart made;
  made.end_bytes = end_bytes;
  made.stripe_bytes = stripe_bytes;
  made.stripe_count = stripe_count;
  return made;
}

TEST_F(LustreMock, MakesFilesOfParts) {
  Layout asked;
  asked.parts = {part(4 * mib, mib, 1), part(64 * mib, 0, 7), part(to_the_end, 4 * mib, 0)};
  asked.parts[0].pool = "fast";
  asked.parts[1].overstriping = true;
  asked.parts[2].all_servers = true;
  ASSERT_EQ(layouts.make(path("f"), 0640, asked), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("f"), told), 0);
  ASSERT_EQ(told.parts.size(), 3U);
  EXPECT_TRUE(grants(told, asked));
  EXPECT_EQ(told.parts[0].pool, "fast");
  EXPECT_EQ(told.parts[1].begin_bytes, 4 * mib);
  EXPECT_EQ(told.parts[1].pool, "") << "not that of the part before, as the library would have it";
  EXPECT_EQ(told.parts[1].stripe_bytes, mib) << "left to Lustre";
  EXPECT_TRUE(told.parts[1].overstriping);
  EXPECT_EQ(told.parts[2].end_bytes, to_the_end);
  EXPECT_TRUE(told.parts[2].all_servers);
  EXPECT_EQ(told.parts[2].first_server, -1) << "nothing was written there yet";
  // What was told can be asked for.
  ASSERT_EQ(layouts.make(path("g"), 0640, told), 0);
  Layout again;
  ASSERT_EQ(layouts.get(path("g"), again), 0);
  EXPECT_TRUE(grants(again, told));
}

TEST_F(LustreMock, OnePartIsALayoutWithoutParts) {
  Layout asked;
  asked.parts = {part(to_the_end, 2 * mib, 0)};
  asked.parts[0].all_servers = true;
  ASSERT_EQ(layouts.make(path("f"), 0640, asked), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("f"), told), 0);
  EXPECT_TRUE(told.parts.empty());
  EXPECT_EQ(told.stripe_bytes, 2 * mib);
  EXPECT_EQ(told.stripe_count, 4U);
}

TEST_F(LustreMock, PartsThatAreNotGrantedAreRefusedOrReduced) {
  Layout asked;
  asked.parts = {part(4 * mib, mib, 7), part(to_the_end, 0, 0)};
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL) << "more than there are servers";
  asked.at_most = true;
  asked.parts[0].end_bytes += 1;
  ASSERT_EQ(layouts.make(path("less"), 0600, asked), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("less"), told), 0);
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_EQ(told.parts[0].stripe_count, 4U);
  EXPECT_EQ(told.parts[0].end_bytes, 4 * mib);
  asked.at_most = false;
  asked.parts[0].stripe_count = 1;
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL) << "it ends within a stripe";
  asked.parts[0].end_bytes = 4 * mib;
  asked.parts[1].pool = "absent";
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  asked.parts[1].pool.clear();
  asked.parts[1].first_server = 4;
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -ENODEV);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT) << "a refused file is not left behind";
}

TEST_F(LustreMock, DirectoriesTakeParts) {
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  Layout asked;
  asked.parts = {part(mib, mib, 1), part(to_the_end, mib, 4)};
  ASSERT_EQ(layouts.set(path("d"), asked), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("d"), told), 0);
  EXPECT_TRUE(grants(told, asked));
  std::swap(asked.parts[0], asked.parts[1]);
  EXPECT_EQ(layouts.set(path("d"), asked), -EINVAL);
}

TEST_F(LustreMock, AllServersAreTold) {
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  const std::string all = "0 18446744073709551615 1048576 1152921504606846979 0 0 -\n";
  ASSERT_EQ(setxattr(path("d").c_str(), "user.ferry.mock.lustre", all.data(), all.size(), 0), 0);
  Layout told;
  ASSERT_EQ(layouts.get(path("d"), told), 0);
  EXPECT_EQ(told.stripe_count, 0U);
  EXPECT_EQ(told.extras[all_servers_name], 1U);
}

// ---- without it
// ----------------------------------------------------------------------------------

TEST(LustreLayouts, AnotherFileSystemTakesNoneWithoutTheLibrary) {
  const test::ScratchDirectory directory;
  LustreLayouts layouts("liblustreapi-that-is-not-there.so");
  EXPECT_NE(layouts.without_library().find("install the client of your Lustre"), std::string::npos);
  Layout layout;
  EXPECT_EQ(layouts.get(directory.path(), layout), -EOPNOTSUPP);
  EXPECT_EQ(layouts.set(directory.path(), layout), -EOPNOTSUPP);
  EXPECT_EQ(layouts.make(directory / "f", 0600, layout), -EOPNOTSUPP);
  layout.parts = {part(mib, 0, 1), part(to_the_end, 0, 4)};
  EXPECT_EQ(layouts.set(directory.path(), layout), -EOPNOTSUPP);
  EXPECT_EQ(layouts.make(directory / "f", 0600, layout), -EOPNOTSUPP);
  EXPECT_EQ(test::file_size(directory / "f"), -ENOENT);
}

// Little-endian numbers, one after the other.
class Bytes {
 public:
  template <class Number>
  Bytes& add(Number number) {
    const auto* first = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), first, first + sizeof number);
    return *this;
  }
  Bytes& add(const Bytes& more) {
    bytes_.insert(bytes_.end(), more.bytes_.begin(), more.bytes_.end());
    return *this;
  }
  const std::vector<std::byte>& get() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Bytes stripes(std::uint32_t magic, std::uint32_t pattern, std::uint32_t bytes, std::uint16_t count,
              std::uint16_t first) {
  Bytes made;
  made.add(magic).add(pattern).add(std::uint64_t{0}).add(std::uint64_t{0});
  return made.add(bytes).add(count).add(first);
}

Bytes pool(const char* name) {
  Bytes made;
  for (std::size_t i = 0, end = std::strlen(name); i < 16; ++i)
    made.add(i < end ? name[i] : '\0');
  return made;
}

Bytes object(std::uint32_t server) {
  Bytes made;
  return made.add(std::uint64_t{7}).add(std::uint64_t{0}).add(std::uint32_t{0}).add(server);
}

TEST(LustreAttribute, IsUnderstood) {
  Layout told;
  Bytes plain = stripes(0x0BD10BD0, 1, 1 << 20, 2, 5);
  ASSERT_EQ(layout_of_attribute(plain.get(), told), 0);
  EXPECT_EQ(told.stripe_bytes, mib);
  EXPECT_EQ(told.stripe_count, 2U);
  EXPECT_EQ(told.first_server, 5) << "of a directory";
  ASSERT_EQ(layout_of_attribute(plain.add(object(3)).add(object(0)).get(), told), 0);
  EXPECT_EQ(told.first_server, 3) << "of a file";
  Bytes with_pool = stripes(0x0BD30BD0, 0x201, 1 << 16, 0xffff, 0xffff);
  ASSERT_EQ(layout_of_attribute(with_pool.add(pool("fast")).get(), told), 0);
  EXPECT_EQ(told.pool, "fast");
  EXPECT_EQ(told.first_server, -1);
  EXPECT_EQ(told.stripe_count, 0U);
  EXPECT_EQ(told.extras[all_servers_name], 1U);
  EXPECT_EQ(told.extras[overstriping_name], 1U);
}

TEST(LustreAttribute, CompositeLayoutsAreUnderstood) {
  const Bytes first = stripes(0x0BD10BD0, 1, 1 << 20, 1, 0).add(object(2));
  const Bytes second = stripes(0x0BD30BD0, 1, 4 << 20, 8, 0xffff).add(pool("slow"));
  Bytes all;
  all.add(std::uint32_t{0x0BD60BD0}).add(std::uint32_t{0}).add(std::uint32_t{1});
  all.add(std::uint16_t{0}).add(std::uint16_t{2}).add(std::uint64_t{0}).add(std::uint64_t{0});
  std::uint32_t offset = 32 + 2 * 48;
  const std::uint64_t ends[] = {0, 8 * mib, UINT64_MAX};
  for (int i = 0; i < 2; ++i) {
    const auto bytes = static_cast<std::uint32_t>((i == 0 ? first : second).get().size());
    all.add(std::uint32_t{1}).add(std::uint32_t{16}).add(ends[i]).add(ends[i + 1]);
    all.add(offset).add(bytes).add(std::uint64_t{0}).add(std::uint64_t{0});
    offset += bytes;
  }
  all.add(first).add(second);
  Layout told;
  ASSERT_EQ(layout_of_attribute(all.get(), told), 0);
  EXPECT_EQ(told.first_server, 2);
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_EQ(told.parts[0].end_bytes, 8 * mib);
  EXPECT_EQ(told.parts[1].begin_bytes, 8 * mib);
  EXPECT_EQ(told.parts[1].stripe_count, 8U);
  EXPECT_EQ(told.parts[1].pool, "slow");
  // Cut anywhere, it is not read beyond its end.
  for (std::size_t bytes = 0; bytes < all.get().size(); ++bytes)
    EXPECT_EQ(layout_of_attribute({all.get().data(), bytes}, told), -EIO) << bytes;
}

TEST(LustreAttribute, NonsenseIsRefused) {
  Layout told;
  EXPECT_EQ(layout_of_attribute({}, told), -EIO);
  EXPECT_EQ(layout_of_attribute(stripes(0x0BD70BD0, 1, 1, 1, 1).get(), told), -EIO);
  EXPECT_EQ(layout_of_attribute(stripes(0xD00BD10B, 1, 1, 1, 1).get(), told), -EIO);
}

TEST(LustreAttribute, RequestsAreReadAsTheyWereMeant) {
  Layout asked;
  asked.stripe_bytes = 2 * mib;
  asked.stripe_count = 3;
  asked.first_server = 1;
  EXPECT_EQ(stripes_request(asked), stripes(0x0BD10BD0, 1, 2 << 20, 3, 1).get());
  asked.pool = "fast";
  asked.first_server = -1;
  asked.extras[overstriping_name] = 1;
  EXPECT_EQ(stripes_request(asked),
            stripes(0x0BD30BD0, 0x201, 2 << 20, 3, 0xffff).add(pool("fast")).get());
}

// ---- which file system it is
// ---------------------------------------------------------------------

TEST(StripedSystem, IsRecognised) {
  EXPECT_EQ(striped_system_of(0x0BD00BD0, "lustre"), StripedSystem::lustre);
  EXPECT_EQ(striped_system_of(0x0BD00BD0, "lustre_tgt"), StripedSystem::lustre);
  EXPECT_EQ(striped_system_of(0x65735546, "fuse.ceph-fuse"), StripedSystem::ceph);
  EXPECT_EQ(striped_system_of(0x00C36400, "ceph"), StripedSystem::ceph);
  EXPECT_EQ(striped_system_of(0xEF53, "ext4"), StripedSystem::none);
}

}  // namespace
}  // namespace ferry::storage
