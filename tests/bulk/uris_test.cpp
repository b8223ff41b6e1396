// Files of other storages, named by URIs. Without a server, only what needs none.
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ferry/bulk.hpp>

#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"

namespace ferry::bulk {
namespace {

using namespace test;

TEST(BulkUris, AServerThatIsNotThereIsAnError) {
  const std::string nowhere = "nfs://127.0.0.1/x?nfsport=1&mountport=1";
  const int expected = error_of([&] { File(Engine::common(), nowhere); });
  EXPECT_TRUE(expected == ECONNREFUSED || expected == ENOPKG) << expected;
  const Engine engine;
  EXPECT_EQ(error_of([&] { engine.status(nowhere); }), expected);
  const std::vector<std::string> paths = {nowhere};
  EXPECT_EQ(engine.read_files(paths)[0].error_number, expected);
  EXPECT_EQ(error_of([&] { File(engine, "nfs://127.0.0.1/x?nonsense=1"); }), EINVAL);
  EXPECT_EQ(error_of([&] { engine.rename("/tmp/x", nowhere); }), EXDEV);
}

struct BulkNfs : testing::Test {
  std::optional<ServedFolder> served = served_folder("NFS");
  Engine engine;

  void SetUp() override {
    if (!served) GTEST_SKIP() << no_server("NFS");
  }
  std::string here(const std::string& name) const { return served->directory + "/" + name; }
};

TEST_F(BulkNfs, TransfersWhatTheServerHas) {
  const std::string wanted = pattern(9 << 20 | 777, 1);
  const std::string uri = served->uri_of("bulk");
  {
    File file(engine, uri, O_RDWR | O_CREAT | O_TRUNC);
    // Large and small, awaited and not.
    EXPECT_EQ(file.write_at_async(wanted.data(), 8 << 20, 0).get(), std::uint64_t{8} << 20);
    EXPECT_EQ(file.write_at(wanted.data() + (8 << 20), wanted.size() - (8 << 20), 8 << 20),
              wanted.size() - (8 << 20));
    file.sync();
    EXPECT_EQ(file.size(), wanted.size());
    file.close();
  }
  EXPECT_TRUE(same_bytes(read_file(here("bulk")), wanted));
  const File file(engine, uri);
  std::string got(wanted.size() + 100, '#');
  EXPECT_EQ(file.read_at(got.data(), got.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes(std::string_view(got).substr(0, wanted.size()), wanted));
  EXPECT_EQ(file.read_at(got.data(), 1000, 12345), 1000U);
  EXPECT_TRUE(same_bytes(std::string_view(got).substr(0, 1000), wanted.substr(12345, 1000)));
  std::vector<Part> parts;
  std::vector<std::string> pieces(300, std::string(4096, '#'));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    parts.push_back({&file, pieces[i].data(), 4096, i * 10007});
  EXPECT_EQ(engine.read(parts).get(), 300U * 4096);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    ASSERT_TRUE(same_bytes(pieces[i], wanted.substr(i * 10007, 4096))) << i;
  EXPECT_EQ(engine.statistics().direct_tasks + engine.statistics().staged_tasks, 0U);
  engine.unlink(uri);
}

TEST_F(BulkNfs, SaysHowAndWhy) {
  write_file(here("explained"), std::string(5000, 'x'));
  const Explanation explanation = engine.explain(served->uri_of("explained"));
  EXPECT_EQ(explanation.storage, "nfs");
  EXPECT_EQ(explanation.storage_engine, "libnfs");
  EXPECT_EQ(explanation.file_bytes, 5000U);
  EXPECT_FALSE(explanation.residency_known);
  EXPECT_NE(explanation.reasons.at(0).find("a server"), std::string::npos);
  std::filesystem::remove(here("explained"));
}

TEST_F(BulkNfs, PathsAndSmallFiles) {
  std::vector<std::string> uris;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "small" + std::to_string(i);
    write_file(here(name), pattern(1000 + static_cast<std::size_t>(i), 2));
    uris.push_back(served->uri_of(name));
  }
  const std::vector<Contents> contents = engine.read_files(uris);
  for (std::size_t i = 0; i < uris.size(); ++i) {
    ASSERT_EQ(contents[i].error_number, 0);
    const std::string_view got(reinterpret_cast<const char*>(contents[i].data), contents[i].bytes);
    EXPECT_TRUE(same_bytes(got, pattern(1000 + i, 2)));
  }
  EXPECT_EQ(engine.status(uris[3]).size_bytes, 1003U);
  EXPECT_TRUE(S_ISREG(engine.status(uris[3]).mode));
  engine.rename(uris[3], uris[4]);
  EXPECT_EQ(engine.status(uris[4]).size_bytes, 1003U);
  EXPECT_EQ(error_of([&] { engine.status(uris[3]); }), ENOENT);
  for (std::size_t i = 0; i < uris.size(); ++i) {
    if (i != 3) engine.unlink(uris[i]);
  }
  EXPECT_EQ(error_of([&] { engine.unlink(uris[0]); }), ENOENT);
}

}  // namespace
}  // namespace ferry::bulk
