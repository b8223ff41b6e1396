// What every storage must do: results, errno and bytes like system calls on a twin of the file. The
// tests are in conformance_*_test.cpp, by subject; conformance_test.cpp lists the storages.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {

using test::AlignedBytes;
using test::DrivenFile;
using test::ScratchDirectory;
using test::StorageDriver;

struct Variant {
  const char* name;
  const char* directory = nullptr;  // null: the usual one for temporary files
  Engine engine = Engine::automatic;
  bool direct = false;
  // Whose folders a test also sees as local files. Null: `directory` itself.
  const char* server = nullptr;
  bool mounted = false;  // that folder itself is what is tested
  bool mock = false;     // of libpvfs2, which shows the folders of this machine (tests/mocks)
};

inline std::string name_of(const testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

inline void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

// A storage with a new folder. path() is local, for checks; at() is the storage's name.
class Conformance : public test::StorageTest, public testing::WithParamInterface<Variant> {
 protected:
  void SetUp() override {
    const Variant& variant = GetParam();
    if (variant.mock) {
      directory = std::make_unique<ScratchDirectory>();
      table = std::make_unique<test::MockTable>();
      const std::string parent = std::filesystem::path(directory->path()).parent_path();
      server = test::ServedFolder{table->uri_of(parent), parent};
    } else if (variant.server != nullptr) {
      server = test::served_folder(variant.server);
      if (!server) GTEST_SKIP() << test::no_server(variant.server);
      directory = std::make_unique<ScratchDirectory>(server->directory);
      if (variant.mounted) {
        other_client = std::move(server);
        server.reset();
      }
    } else if (variant.directory != nullptr) {
      if (access(variant.directory, W_OK) != 0) {
        GTEST_SKIP() << variant.directory << " is not there";
      }
      directory = std::make_unique<ScratchDirectory>(variant.directory);
    } else {
      directory = std::make_unique<ScratchDirectory>();
    }
    if (!make_storage()) GTEST_SKIP() << why;
    can = storage->describe_path(at("")).capabilities;
    if (variant.direct) {
      const std::string probe = *directory / "probe";
      const int fd = ::open(probe.c_str(), O_CREAT | O_RDWR | O_DIRECT, 0600);
      if (fd < 0) GTEST_SKIP() << "this file system has no direct I/O: " << std::strerror(errno);
      ::close(fd);
      unlink(probe.c_str());
    }
  }

  static std::unique_ptr<Storage> make_another_storage() {
    RouterOptions options = {.engine = GetParam().engine};
    if (GetParam().mock) options.pvfs2_library = test::pvfs2_mock;
    return make_router(options);
  }
  bool make_storage() {
    try {
      use(make_another_storage());
    } catch (const std::system_error& error) {
      if (error.code().value() == EINVAL) throw;
      why = error.what();
      return false;
    }
    return true;
  }

  // With the variant's way of opening.
  int flags(int wanted) const { return GetParam().direct ? wanted | O_DIRECT : wanted; }
  DrivenFile open(const std::string& path, int wanted) { return must_open(path, flags(wanted)); }
  std::string path(const std::string& name) const { return *directory / name; }
  std::string at(const std::string& name) const {
    return server ? uri_of(*server, name) + identity : path(name);
  }
  // The same file as seen by another client: for a remote storage the mount or the server's own
  // folder, for a mount the library.
  std::string at_other_client(const std::string& name) const {
    return other_client ? uri_of(*other_client, name) : path(name);
  }
  std::string uri_of(const test::ServedFolder& served, const std::string& name) const {
    const std::string folder = std::filesystem::path(directory->path()).filename();
    return served.uri_of(folder + "/" + name);
  }

  // A URI names the user; elsewhere it is the thread's.
  void become_nobody() {
    if (server) identity = "&uid=65534&gid=65534";
  }

  std::optional<test::ServedFolder> server;        // where the variant has one
  std::optional<test::ServedFolder> other_client;  // of a mounted one
  std::unique_ptr<test::MockTable> table;          // where that is the mock
  std::string identity;                            // settings at the end of a URI
  std::unique_ptr<ScratchDirectory> directory;
  Capabilities can;
  std::string why;
};

// Only for mounted file systems.
class MountedConformance : public Conformance {};

// Only for storages that stripe files.
class StripedConformance : public Conformance {};

}  // namespace ferry::storage
