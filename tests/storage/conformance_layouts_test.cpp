// Layouts: requested for new files, and reported as granted.
#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/conformance.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

using test::pattern;
using test::read_file;
using test::same_bytes;

TEST_P(Conformance, MakesFilesWithTheLayoutAskedFor) {
  Layout asked = test::striped(1 << 20, 4);
  const bool has_objects = storage->describe_path(at("")).layout_rules == ceph_layout_rules;
  if (has_objects || !can.layouts) asked.extras[object_bytes_name] = 2 << 20;
  Layout layout = asked;
  if (!can.layouts) {
    EXPECT_EQ(driver->layout_call(Kind::open, at("f"), layout), -EOPNOTSUPP);
    EXPECT_EQ(test::file_size(path("f")), -ENOENT);
    EXPECT_EQ(driver->layout_call(Kind::path_layout, at(""), layout), -EOPNOTSUPP);
    EXPECT_EQ(driver->layout_call(Kind::set_layout, at(""), layout), -EOPNOTSUPP);
    return;
  }
  const auto expect_asked = [&](const Layout& told) {
    EXPECT_EQ(told.stripe_bytes, asked.stripe_bytes);
    EXPECT_EQ(told.stripe_count, asked.stripe_count);
    EXPECT_EQ(told.extras, asked.extras);
    EXPECT_EQ(told.pool.empty(), !has_objects);
  };
  ASSERT_EQ(driver->layout_call(Kind::open, at("f"), layout), 0);
  expect_asked(layout);
  layout = Layout{};
  ASSERT_EQ(driver->layout_call(Kind::path_layout, at("f"), layout), 0);
  expect_asked(layout);
  EXPECT_EQ(driver->layout_call(Kind::open, at("f"), layout), -EEXIST);
  // Written data comes back from all its servers.
  const std::string data = pattern(3 << 20, 1);
  auto file = open(at("f"), O_RDWR);
  EXPECT_EQ(write(file, data, 5), 3 << 20);
  file.close();
  EXPECT_TRUE(same_bytes(read_file(path("f")), std::string(5, '\0') + data));
}

TEST_P(StripedConformance, DirectoriesPassTheirLayoutOn) {
  ASSERT_TRUE(can.layouts);
  mkdir(path("dir").c_str(), 0755);
  mkdir(path("dir/below").c_str(), 0755);
  Layout asked = test::striped(64 << 10, 3);
  ASSERT_EQ(driver->layout_call(Kind::set_layout, at("dir"), asked), 0);
  ASSERT_EQ(driver->try_open(at("dir/below/f"), O_RDWR | O_CREAT), 0);
  for (const char* name : {"dir", "dir/below", "dir/below/f"}) {
    Layout told;
    ASSERT_EQ(driver->layout_call(Kind::path_layout, at(name), told), 0) << name;
    EXPECT_EQ(told.stripe_bytes, 64U << 10) << name;
    EXPECT_EQ(told.stripe_count, 3U) << name;
  }
  Layout of_all;
  ASSERT_EQ(driver->layout_call(Kind::path_layout, at(""), of_all), 0);
  EXPECT_EQ(of_all.stripe_count, 1U);
}

TEST_P(StripedConformance, LayoutsThatCannotBeAreRefusedOrReduced) {
  ASSERT_TRUE(can.layouts);
  std::vector<Layout> wrong(4);
  wrong[0].stripe_bytes = 100'000;
  wrong[1].first_server = 2;
  wrong[2].pool = "absent";
  wrong[3].extras["nonsense"] = 1;
  for (Layout& layout : wrong) {
    EXPECT_EQ(driver->layout_call(Kind::open, at("f"), layout), -EINVAL);
    EXPECT_EQ(driver->layout_call(Kind::set_layout, at(""), layout), -EINVAL);
    EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  }
  Layout reduced = wrong[0];
  reduced.first_server = 2;
  reduced.at_most = true;
  ASSERT_EQ(driver->layout_call(Kind::open, at("f"), reduced), 0);
  EXPECT_EQ(reduced.stripe_bytes, 65536U);
  EXPECT_EQ(reduced.first_server, -1);
  wrong[2].at_most = true;  // there is nothing less than a pool
  EXPECT_EQ(driver->layout_call(Kind::open, at("g"), wrong[2]), -EINVAL);
}

}  // namespace
}  // namespace ferry::storage
