#include "programs/stored_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/error_of.hpp"

namespace ferry::bench {
namespace {

// A name in a scratch folder, or on the server named by the environment.
class StoredFiles : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = "ferry-stored-file-" + std::to_string(::getpid());
    if (std::string(GetParam()) == "local") {
      path_ = std::filesystem::temp_directory_path() / name;
      return;
    }
    const char* server = std::getenv(GetParam());
    if (server == nullptr) GTEST_SKIP() << "absent: no server; ./test --stage storages starts one";
    path_ = server;
    const std::size_t query = std::min(path_.find('?'), path_.size());
    path_.insert(query, (path_[query - 1] == '/' ? "" : "/") + name);
  }
  void TearDown() override {
    if (!path_.empty()) remove_file(path_);
  }

  const std::shared_ptr<storage::Storage> clients_ = side_storage();
  std::string path_;
};

int error_of(const std::string& path, int flags) {
  return test::error_of([&] { StoredFile(path, flags); }, path);
}

TEST_P(StoredFiles, WriteReadAndGo) {
  EXPECT_FALSE(file_exists(path_));
  EXPECT_EQ(error_of(path_, O_RDONLY), ENOENT);
  std::vector<unsigned char> data(3'000'000);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<unsigned char>(i * 7 + i / 4096);
  {
    const StoredFile file(path_, O_RDWR | O_CREAT | O_EXCL);
    file.write(data.data(), data.size(), 5);
    file.sync();
    EXPECT_EQ(file.size_bytes(), data.size() + 5);
    EXPECT_TRUE(file.keeps_bytes());
    std::vector<unsigned char> back(data.size());
    file.read(back.data(), back.size(), 5);
    EXPECT_EQ(back, data);
    EXPECT_THROW(file.read(back.data(), back.size(), 6), Error);
  }
  EXPECT_TRUE(file_exists(path_));
  EXPECT_EQ(error_of(path_, O_RDWR | O_CREAT | O_EXCL), EEXIST);
  remove_file(path_);
  EXPECT_FALSE(file_exists(path_));
  remove_file(path_);
}

INSTANTIATE_TEST_SUITE_P(Storages, StoredFiles,
                         ::testing::Values("local", "FERRY_TEST_NFS", "FERRY_TEST_CEPH"),
                         [](const auto& which) {
                           const std::string name = which.param;
                           return name.substr(name.rfind('_') + 1);
                         });

TEST(SideStorage, IsOneForAllWhoHoldIt) {
  const std::shared_ptr<storage::Storage> first = side_storage();
  EXPECT_EQ(side_storage(), first);
}

}  // namespace
}  // namespace ferry::bench
