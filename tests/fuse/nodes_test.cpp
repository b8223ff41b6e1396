// The kernel's numbers of files and their names.
#include "fuse/nodes.hpp"

#include <string>

#include <gtest/gtest.h>

namespace {

using ferry::fuse::Nodes;

TEST(FuseNodes, PathsFollowTheirFolders) {
  Nodes nodes;
  EXPECT_EQ(nodes.path(Nodes::root), "");
  const auto folder = nodes.remember(Nodes::root, "folder", 10, 0);
  const auto file = nodes.remember(folder, "file", 11, 0);
  EXPECT_EQ(nodes.path(folder), "/folder");
  EXPECT_EQ(nodes.path(file), "/folder/file");
  EXPECT_EQ(nodes.path(folder, "new"), "/folder/new");
  nodes.renamed(Nodes::root, "folder", Nodes::root, "other");
  EXPECT_EQ(nodes.path(file), "/other/file");
  EXPECT_EQ(nodes.find(Nodes::root, "folder"), 0U);
  EXPECT_EQ(nodes.find(Nodes::root, "other"), folder);
  EXPECT_EQ(nodes.find(folder, "file"), file);
  EXPECT_EQ(nodes.path(999), std::nullopt);
}

TEST(FuseNodes, ANameThatIsRemovedOrReplacedLeavesItsNode) {
  Nodes nodes;
  const auto first = nodes.remember(Nodes::root, "first", 1, 0);
  const auto second = nodes.remember(Nodes::root, "second", 2, 0);
  nodes.renamed(Nodes::root, "first", Nodes::root, "second");
  EXPECT_EQ(nodes.path(first), "/second");
  EXPECT_EQ(nodes.path(second), std::nullopt);
  nodes.removed(Nodes::root, "second");
  EXPECT_EQ(nodes.path(first), std::nullopt);
  // Of the same name, but another file: also where another client made it.
  const auto third = nodes.remember(Nodes::root, "second", 3, 0);
  EXPECT_NE(third, first);
  const auto fourth = nodes.remember(Nodes::root, "second", 4, 0);
  EXPECT_NE(fourth, third);
  EXPECT_EQ(nodes.path(third), std::nullopt);
  EXPECT_EQ(nodes.path(fourth), "/second");
  nodes.renamed(Nodes::root, "second", Nodes::root, "second");
  EXPECT_EQ(nodes.path(fourth), "/second");
}

TEST(FuseNodes, AreForgottenAsOftenAsTheyWereNamed) {
  Nodes nodes;
  const auto folder = nodes.remember(Nodes::root, "folder", 1, 0);
  const auto file = nodes.remember(folder, "file", 2, 0);
  EXPECT_EQ(nodes.remember(folder, "file", 2, 0), file);
  EXPECT_FALSE(nodes.forget(file, 1));
  EXPECT_EQ(nodes.path(file), "/folder/file");
  // A folder may go before what is in it.
  EXPECT_TRUE(nodes.forget(folder, 1));
  EXPECT_EQ(nodes.path(file), "/folder/file");
  EXPECT_TRUE(nodes.forget(file, 5));
  EXPECT_EQ(nodes.path(file), std::nullopt);
  EXPECT_EQ(nodes.find(folder, "file"), 0U);
  EXPECT_FALSE(nodes.forget(Nodes::root, 100));
  EXPECT_FALSE(nodes.forget(999, 1));
}

}  // namespace
