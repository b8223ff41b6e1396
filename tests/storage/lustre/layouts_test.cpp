// Layouts on Lustre, on a mock of liblustreapi (tests/mocks) and with recorded bytes; no real
// Lustre was used.
#include "storage/lustre/layouts.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mocks/lustre_words.hpp"
#include "storage/lustre/attribute.hpp"
#include "storage/lustre/defaults.hpp"
#include "storage/mounted_layout.hpp"
#include "support/files.hpp"

namespace ferry::storage::lustre_layouts_test {
namespace {

using test::composite;
using test::object;
using test::pool;
using test::stripes;
using Bytes = test::LustreWords;

constexpr std::uint64_t mib = 1 << 20;
constexpr const char* mock_attribute = "user.ferry.mock.lov";

// ---- by the library

Layout layout(std::uint64_t stripe_bytes, std::uint32_t stripe_count,
              std::int32_t first_server = -1, const std::string& pool = "") {
  return {stripe_bytes, stripe_count, first_server, pool, {}, {}};
}

LayoutPart part(std::uint64_t end_bytes, std::uint64_t stripe_bytes, std::uint32_t stripe_count) {
  LayoutPart made;
  made.end_bytes = end_bytes;
  made.stripe_bytes = stripe_bytes;
  made.stripe_count = stripe_count;
  return made;
}

class LustreMock : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(layouts.without_library(), "") << "build the target lustreapi_mock";
    test::write_file(path("probe"), "");
    if (setxattr(path("probe").c_str(), "user.ferry.probe", "", 0, 0) != 0)
      GTEST_SKIP() << "the mock needs extended attributes, which this file system refuses";
    const std::string client = parameters / "mock-clilov-ffff8881";
    ASSERT_EQ(mkdir(client.c_str(), 0755), 0);
    test::write_file(client + "/stripesize", "1048576\n");
    test::write_file(client + "/stripecount", "1\n");
  }
  std::string path(const std::string& name) const { return directory / name; }
  void set_words(const std::string& name, const Bytes& words) const {
    const std::vector<std::byte>& bytes = words.get();
    ASSERT_EQ(setxattr(path(name).c_str(), mock_attribute, bytes.data(), bytes.size(), 0), 0);
  }

  void make_folder(const std::string& name) const { ASSERT_EQ(mkdir(path(name).c_str(), 0755), 0); }
  Layout layout_of(const std::string& name) {
    Layout told;
    EXPECT_EQ(layouts.get(path(name), told), 0) << name;
    return told;
  }
  // What a new file gets.
  Layout made(const std::string& name, const Layout& asked) {
    EXPECT_EQ(layouts.make(path(name), 0640, asked), 0) << name;
    return layout_of(name);
  }

  const test::ScratchDirectory directory;
  const test::ScratchDirectory parameters;
  LustreLayouts layouts{FERRY_MOCKS "/liblustreapi.so.1",
                        LustrePlaces{mock_attribute, {parameters.path()}, "mock"}};
};

TEST_F(LustreMock, MakesFilesWithTheLayoutAskedFor) {
  const Layout asked = layout(2 * mib, 3, 2, "fast");
  ASSERT_EQ(layouts.make(path("f"), 0640, asked), 0);
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  Layout told = layout_of("f");
  EXPECT_TRUE(grants(told, asked));
  EXPECT_EQ(told.first_server, 2);
  EXPECT_TRUE(told.extras.empty());
  EXPECT_TRUE(told.parts.empty());
  EXPECT_EQ(layouts.make(path("f"), 0640, asked), -EEXIST);
}

TEST_F(LustreMock, WhatIsNotAskedForIsLeftToLustre) {
  Layout told = made("f", Layout{});
  EXPECT_EQ(told.stripe_bytes, mib);
  EXPECT_EQ(told.stripe_count, 1U);
  EXPECT_EQ(told.pool, "");
}

TEST_F(LustreMock, MoreStripesThanServersAreRefusedReducedOrOverstriped) {
  Layout asked = layout(0, 7);
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT) << "a refused file is not left behind";
  asked.at_most = true;
  Layout told = made("f", asked);
  EXPECT_EQ(told.stripe_count, 4U);
  asked.at_most = false;
  asked.extras[overstriping_name] = 1;
  told = made("over", asked);
  EXPECT_EQ(told.stripe_count, 7U);
  EXPECT_EQ(told.extras[overstriping_name], 1U);
}

// Lustre reports it only for a file with several stripes on one server.
TEST_F(LustreMock, OverstripingIsLeaveAndNoMustBe) {
  Layout asked = layout(0, 3);
  asked.extras[overstriping_name] = 1;
  Layout told = made("f", asked);
  EXPECT_EQ(told.stripe_count, 3U);
  EXPECT_TRUE(told.extras.empty());
}

// The library makes a count of 1 of none, when a first server is set.
TEST_F(LustreMock, AFirstServerLeavesTheCountToTheDirectory) {
  make_folder("d");
  ASSERT_EQ(layouts.set(path("d"), layout(0, 3)), 0);
  const Layout asked = layout(0, 0, 2);
  Layout told = made("d/f", asked);
  EXPECT_EQ(told.first_server, 2);
  EXPECT_EQ(told.stripe_count, 3U);
}

TEST_F(LustreMock, PoolsAndServersThatAreNotThereAreRefused) {
  for (const char* pool : {"absent", "a-name-of-sixteen"})
    EXPECT_EQ(layouts.make(path("f"), 0600, layout(0, 0, -1, pool)), -EINVAL);
  EXPECT_EQ(layouts.make(path("f"), 0600, layout(0, 0, 4)), -ENODEV);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  EXPECT_EQ(layouts.make(path("absent/f"), 0600, Layout{}), -ENOENT);
}

// Of a pool that it does not find the library says -1 with errno 0: that is no descriptor.
TEST_F(LustreMock, APoolThatIsNotThereIsRefusedAndNothingIsClosed) {
  make_folder("d");
  const test::Descriptor kept(fcntl(0, F_DUPFD_CLOEXEC, 0));
  const test::Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(dup2(null, 0), 0);
  const Layout asked = layout(0, 0, -1, "absent");
  EXPECT_EQ(layouts.set(path("d"), asked), -EINVAL);
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  EXPECT_GE(fcntl(0, F_GETFD), 0) << "descriptor 0 is still open";
  if (kept >= 0) dup2(kept, 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  Layout told = layout_of("d");
  EXPECT_EQ(told.pool, "");
}

// The library looks for pools only where the component that was set last has one.
TEST_F(LustreMock, APoolThatIsNotThereIsFoundInEachPart) {
  Layout asked;
  asked.parts = {part(4 * mib, 0, 0), part(to_the_end, 0, 0)};
  asked.parts[0].pool = "absent";
  EXPECT_EQ(layouts.make(path("f"), 0600, asked), -EINVAL);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
}

TEST_F(LustreMock, DirectoriesPassTheirLayoutOn) {
  make_folder("d");
  const Layout asked = layout(4 * mib, 2);
  ASSERT_EQ(layouts.set(path("d"), asked), 0);
  ASSERT_EQ(layouts.make(path("d/f"), 0600, Layout{}), 0);
  for (const char* name : {"d", "d/f"}) {
    const Layout told = layout_of(name);
    EXPECT_TRUE(grants(told, asked)) << name;
  }
  Layout told = layout_of(".");
  EXPECT_EQ(told.stripe_count, 1U) << "the file system's";
}

TEST_F(LustreMock, CompositeLayoutsAreReadBack) {
  test::write_file(path("f"), "");
  const Bytes first = stripes(0x0BD10BD0, 1, 1 << 20, 1, 1).add(object(0));
  const Bytes second = stripes(0x0BD30BD0, 1, 4 << 20, 3, 1).add(pool("fast")).add(object(1));
  set_words("f", composite({{0, 4 * mib, first}, {4 * mib, UINT64_MAX, second}}));
  Layout told = layout_of("f");
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

TEST_F(LustreMock, MakesFilesOfParts) {
  Layout asked;
  asked.parts = {part(4 * mib, mib, 1), part(64 * mib, 0, 7), part(to_the_end, 4 * mib, 0)};
  asked.parts[0].pool = "fast";
  asked.parts[1].overstriping = true;
  asked.parts[2].all_servers = true;
  const Layout told = made("f", asked);
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
  // Reported layouts can be requested.
  const Layout again = made("g", told);
  EXPECT_TRUE(grants(again, told));
}

TEST_F(LustreMock, OnePartIsALayoutWithoutParts) {
  Layout asked;
  asked.parts = {part(to_the_end, 2 * mib, 0)};
  asked.parts[0].all_servers = true;
  const Layout told = made("f", asked);
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
  Layout told = made("less", asked);
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
  make_folder("d");
  Layout asked;
  asked.parts = {part(mib, mib, 1), part(to_the_end, mib, 4)};
  ASSERT_EQ(layouts.set(path("d"), asked), 0);
  Layout told = layout_of("d");
  EXPECT_TRUE(grants(told, asked));
  std::swap(asked.parts[0], asked.parts[1]);
  EXPECT_EQ(layouts.set(path("d"), asked), -EINVAL);
}

TEST_F(LustreMock, AllServersAreTold) {
  make_folder("d");
  set_words("d", stripes(0x0BD10BD0, 1, 1 << 20, 0xffff, 0xffff));
  Layout told = layout_of("d");
  EXPECT_EQ(told.stripe_count, 0U);
  EXPECT_EQ(told.extras[all_servers_name], 1U);
  set_words("d", stripes(0x0BD10BD0, 0x201, 1 << 20, 0xfffe, 0xffff));
  told = layout_of("d");
  EXPECT_EQ(told.stripe_count, 0U) << "twice on each";
  EXPECT_EQ(told.extras[all_servers_name], 1U);
  EXPECT_EQ(told.extras[overstriping_name], 1U);
}

TEST_F(LustreMock, TheFirstServerOfADirectoryIsTold) {
  make_folder("d");
  ASSERT_EQ(layouts.set(path("d"), layout(0, 0, 3)), 0);
  Layout told = layout_of("d");
  EXPECT_EQ(told.first_server, 3);
}

TEST_F(LustreMock, WhatADirectoryLeavesOpenIsThatOfTheFileSystem) {
  test::write_file(parameters / "mock-clilov-ffff8881/stripecount", "-1\n");
  test::write_file(parameters / "mock-clilov-ffff8881/stripesize", "4194304\n");
  Layout told = layout_of(".");
  EXPECT_EQ(told.stripe_bytes, 4 * mib);
  EXPECT_EQ(told.extras[all_servers_name], 1U);
  make_folder("d");
  const Bytes open = stripes(0x0BD10BD0, 1, 0, 0, 0xffff);
  const Bytes two = stripes(0x0BD10BD0, 1, 1 << 20, 2, 0xffff);
  set_words("d", composite({{0, mib, two, 0}, {mib, UINT64_MAX, open, 0}}));
  told = layout_of("d");
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_EQ(told.parts[0].stripe_count, 2U);
  EXPECT_EQ(told.parts[1].stripe_bytes, 4 * mib);
  EXPECT_TRUE(told.parts[1].all_servers);
  test::write_file(path("f"), "");
  told = layout_of("f");
  EXPECT_EQ(told.stripe_count, 0U) << "a file has what it has";
}

// ---- without it

TEST(LustreLayouts, AnotherFileSystemTakesNoneWithoutTheLibrary) {
  const test::ScratchDirectory directory;
  LustreLayouts layouts("liblustreapi-that-is-not-there.so");
  EXPECT_NE(layouts.without_library().find("lustre-client-utils"), std::string::npos);
  Layout asked[2];
  EXPECT_EQ(layouts.get(directory.path(), asked[0]), -EOPNOTSUPP);
  asked[1].parts = {part(mib, 0, 1), part(to_the_end, 0, 4)};
  for (const Layout& each : asked) {
    EXPECT_EQ(layouts.set(directory.path(), each), -EOPNOTSUPP);
    EXPECT_EQ(layouts.make(directory / "f", 0600, each), -EOPNOTSUPP);
  }
  EXPECT_EQ(test::file_size(directory / "f"), -ENOENT);
}

TEST(LustreLayouts, AreReadWithoutTheLibrary) {
  const test::ScratchDirectory directory;
  const std::vector<std::byte> words = stripes(0x0BD10BD0, 1, 2 << 20, 3, 1).add(object(2)).get();
  test::write_file(directory / "f", "");
  if (setxattr((directory / "f").c_str(), mock_attribute, words.data(), words.size(), 0) != 0)
    GTEST_SKIP() << "absent: extended attributes";
  const LustreLayouts layouts("liblustreapi-that-is-not-there.so",
                              LustrePlaces{mock_attribute, {}, {}});
  Layout told;
  ASSERT_EQ(layouts.get(directory / "f", told), 0);
  EXPECT_EQ(told.stripe_count, 3U);
  EXPECT_EQ(told.first_server, 2);
}

TEST(LustreName, IsInWhatIsMounted) {
  EXPECT_EQ(lustre_name("10.0.0.1@tcp:/lustre"), "lustre");
  EXPECT_EQ(lustre_name("10.0.0.1@tcp:10.0.0.2@tcp:/scratch/users/me"), "scratch");
  EXPECT_EQ(lustre_name("/dev/vda"), "");
}

// A foreign layout, whatever its contents.
Bytes foreign() {
  Bytes made;
  made.add(std::uint32_t{0x0BD70BD0}).add(std::uint32_t{4}).add(std::uint32_t{1});
  return made.add(std::uint32_t{0}).add(std::uint32_t{0});
}

Layout told_by(const Bytes& words, bool is_directory = false) {
  Layout told;
  EXPECT_EQ(layout_of_attribute(words.get(), is_directory, told), 0);
  return told;
}

TEST(LustreAttribute, IsUnderstood) {
  Bytes plain = stripes(0x0BD10BD0, 1, 1 << 20, 2, 5);
  Layout told = told_by(plain, true);
  EXPECT_EQ(told.stripe_bytes, mib);
  EXPECT_EQ(told.stripe_count, 2U);
  EXPECT_EQ(told.first_server, 5);
  EXPECT_EQ(told_by(plain).first_server, -1) << "a file has another number there";
  EXPECT_EQ(told_by(plain.add(object(3)).add(object(0))).first_server, 3);
  Bytes with_pool = stripes(0x0BD30BD0, 0x201, 1 << 16, 0xffff, 0xffff);
  told = told_by(with_pool.add(pool("fast")), true);
  EXPECT_EQ(told.pool, "fast");
  EXPECT_EQ(told.first_server, -1);
  EXPECT_EQ(told.stripe_count, 0U);
  EXPECT_EQ(told.extras[all_servers_name], 1U);
  EXPECT_EQ(told.extras[overstriping_name], 1U);
}

// The bytes of a released file are in an archive; its list of objects is empty.
TEST(LustreAttribute, AReleasedFileHasNoServers) {
  const Layout told = told_by(stripes(0x0BD10BD0, 0x80000001, 1 << 20, 1, 3).add(object(0)));
  EXPECT_EQ(told.stripe_count, 1U);
  EXPECT_EQ(told.first_server, -1);
}

TEST(LustreAttribute, CompositeLayoutsAreUnderstood) {
  const Bytes first = stripes(0x0BD10BD0, 1, 1 << 20, 1, 0).add(object(2));
  const Bytes second = stripes(0x0BD30BD0, 1, 4 << 20, 8, 0xffff).add(pool("slow"));
  const Bytes all = composite({{0, 8 * mib, first}, {8 * mib, UINT64_MAX, second, 0}});
  Layout told = told_by(all);
  EXPECT_EQ(told.first_server, 2);
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_EQ(told.parts[0].end_bytes, 8 * mib);
  EXPECT_EQ(told.parts[0].mirror, 0U);
  EXPECT_EQ(told.parts[1].begin_bytes, 8 * mib);
  EXPECT_EQ(told.parts[1].stripe_count, 8U);
  EXPECT_EQ(told.parts[1].pool, "slow");
  // Cut anywhere, it is not read beyond its end.
  for (std::size_t bytes = 0; bytes < all.get().size(); ++bytes)
    EXPECT_EQ(layout_of_attribute({all.get().data(), bytes}, false, told), -EIO) << bytes;
}

TEST(LustreAttribute, MirrorsAreNumbered) {
  const Bytes one = stripes(0x0BD10BD0, 1, 1 << 20, 1, 0).add(object(2));
  const Bytes other = stripes(0x0BD10BD0, 1, 1 << 20, 2, 0).add(object(3)).add(object(1));
  Layout told = told_by(composite({{0, mib, one}, {mib, UINT64_MAX, one}, {0, UINT64_MAX, other}}));
  EXPECT_EQ(told.extras[mirrors_name], 2U);
  ASSERT_EQ(told.parts.size(), 3U);
  EXPECT_EQ(told.parts[1].mirror, 1U);
  EXPECT_EQ(told.parts[2].mirror, 2U);
  EXPECT_EQ(told.parts[2].first_server, 3);
  EXPECT_THROW(fitted_to_lustre(told), std::invalid_argument) << "it cannot be asked for";
}

TEST(LustreAttribute, BytesOnTheMetadataServerHaveNoStripes) {
  const Bytes beside = stripes(0x0BD10BD0, 0x100, 1 << 20, 0, 0);
  const Bytes rest = stripes(0x0BD10BD0, 1, 4 << 20, 2, 0);
  const Layout told = told_by(composite({{0, mib, beside}, {mib, UINT64_MAX, rest, 0}}));
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_TRUE(told.parts[0].metadata_server);
  EXPECT_EQ(told.parts[0].stripe_bytes, 0U);
  EXPECT_EQ(told.parts[0].stripe_count, 0U);
  EXPECT_FALSE(told.parts[1].metadata_server);
  EXPECT_EQ(told.parts[1].stripe_count, 2U);
}

TEST(LustreAttribute, RoomToGrowIsTold) {
  const Bytes one = stripes(0x0BD10BD0, 1, 1 << 20, 1, 0).add(object(2));
  const Bytes room = stripes(0x0BD10BD0, 1, 64 << 10, 0, 0);  // in KiB
  const Layout told = told_by(composite({{0, 64 * mib, one}, {64 * mib, UINT64_MAX, room, 0x40}}));
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_EQ(told.parts[1].extension_bytes, 64 * mib);
  EXPECT_EQ(told.parts[1].stripe_bytes, 0U);
}

TEST(LustreAttribute, ForeignLayoutsAreNamed) {
  EXPECT_EQ(told_by(foreign()).extras[foreign_name], 1U);
  const Bytes one = stripes(0x0BD10BD0, 1, 1 << 20, 1, 0).add(object(2));
  const Layout told = told_by(composite({{0, UINT64_MAX, one}, {0, UINT64_MAX, foreign()}}));
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_FALSE(told.parts[0].foreign);
  EXPECT_TRUE(told.parts[1].foreign);
}

TEST(LustreAttribute, NonsenseIsRefused) {
  Layout told;
  for (const Bytes& words :
       {Bytes(), stripes(0x0BD20BD0, 1, 1, 1, 1), stripes(0xD00BD10B, 1, 1, 1, 1)})
    EXPECT_EQ(layout_of_attribute(words.get(), false, told), -EIO);
}

TEST(LustreAttribute, RequestsAreReadAsTheyWereMeant) {
  Layout asked = layout(2 * mib, 3, 1);
  EXPECT_EQ(stripes_request(asked), stripes(0x0BD10BD0, 1, 2 << 20, 3, 1).get());
  asked.pool = "fast";
  asked.first_server = -1;
  asked.extras[overstriping_name] = 1;
  EXPECT_EQ(stripes_request(asked),
            stripes(0x0BD30BD0, 0x201, 2 << 20, 3, 0xffff).add(pool("fast")).get());
}

// ---- which file system it is

TEST(StripedSystem, IsRecognised) {
  EXPECT_EQ(striped_system_of(0x0BD00BD0, "lustre"), StripedSystem::lustre);
  EXPECT_EQ(striped_system_of(0x0BD00BD0, "lustre_tgt"), StripedSystem::lustre);
  EXPECT_EQ(striped_system_of(0x65735546, "fuse.ceph-fuse"), StripedSystem::ceph);
  EXPECT_EQ(striped_system_of(0x00C36400, "ceph"), StripedSystem::ceph);
  EXPECT_EQ(striped_system_of(0xEF53, "ext4"), StripedSystem::none);
}

}  // namespace
}  // namespace ferry::storage::lustre_layouts_test
