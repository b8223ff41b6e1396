#include "storage/uri.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

TEST(Uri, TheBeginningOfAPathNamesItsStorage) {
  EXPECT_EQ(scheme_of("nfs://server/export/f"), Scheme::nfs);
  EXPECT_EQ(scheme_of("ceph:/f"), Scheme::ceph);
  EXPECT_EQ(scheme_of("pvfs2:/mnt/f"), Scheme::pvfs2);
  for (const char* path : {"/data/f", "nfs:/f", "./nfs://f", "nfs", "", "NFS://server/f",
                           "ceph:", "ceph:f", "./ceph:/f", "pvfs2:f"})
    EXPECT_EQ(scheme_of(path), Scheme::posix) << path;
}

TEST(Uri, TheNameEndsBeforeTheQuery) {
  EXPECT_EQ(path_end("ceph:/f?conf=/c?d"), 7U);
  EXPECT_EQ(path_end("ceph:/f"), 7U);
  EXPECT_EQ(path_end("/data/f?x"), 9U);
}

TEST(Uri, IsTakenApart) {
  const Uri uri = parse_uri("nfs://server.example:2049/export/a%20file%3f?uid=7&timeout=5");
  EXPECT_EQ(uri.host, "server.example");
  EXPECT_EQ(uri.port, 2049U);
  EXPECT_EQ(uri.path, "/export/a file?");
  EXPECT_EQ(uri.number("uid", 1, 0, 10), 7U);
  EXPECT_EQ(uri.number("timeout", 30, 1, 60), 5U);
  EXPECT_EQ(uri.number("gid", 3, 0, 10), 3U);
  EXPECT_EQ(parse_uri("nfs://[::1]:2049/x").host, "::1");
  EXPECT_EQ(parse_uri("nfs://[::1]/x").port, 0U);
  const Uri local = parse_uri("ceph:/folder/f?conf=/a/b&user=me");
  EXPECT_EQ(local.host, "");
  EXPECT_EQ(local.path, "/folder/f");
  EXPECT_EQ(local.text("conf"), "/a/b");
  EXPECT_EQ(local.text("fs", "none"), "none");
  EXPECT_EQ(parse_uri("ceph://f").path, "//f");
  EXPECT_EQ(parse_uri("pvfs2:/mnt/f%3fx?tab=/t").path, "/mnt/f?x");
}

TEST(Uri, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"nfs:///x", "nfs://host", "nfs://host:0/x", "nfs://host:70000/x",
                           "nfs://host:x/x", "nfs://host/%", "nfs://host/%4", "nfs://host/%zz",
                           "nfs://host/%00", "nfs://host/x?uid", "nfs://host/x?=7", "/x"})
    EXPECT_THROW(parse_uri(text), std::invalid_argument) << text;
  EXPECT_THROW(parse_uri(std::string_view("nfs://host/a\0b", 14)), std::invalid_argument);
  const Uri uri = parse_uri("nfs://host/x?uid=-1&gid=99&name=x");
  EXPECT_THROW(uri.number("uid", 0, 0, 10), std::invalid_argument);
  EXPECT_THROW(uri.number("gid", 0, 0, 10), std::invalid_argument);
  EXPECT_THROW(uri.allow_only("uid gid"), std::invalid_argument);
  EXPECT_NO_THROW(uri.allow_only("uid gid name"));
}

}  // namespace
}  // namespace ferry::storage
