// What every storage must do, run against each: results, errno and bytes as from the plain system
// calls on a twin of the file.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/pvfs2_mock.hpp"
#include "support/servers.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

using test::AlignedBytes;
using test::Descriptor;
using test::pattern;
using test::plain;
using test::Random;
using test::read_file;
using test::same_bytes;
using test::scaled;
using test::ScratchDirectory;
using test::StorageDriver;
using test::write_file;

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr auto offset_max = std::numeric_limits<std::int64_t>::max();

struct Variant {
  const char* name;
  const char* directory;  // null: the usual one for temporary files
  Engine engine = Engine::automatic;
  bool direct = false;
  // Whose folders a test sees as files of this machine, too. Null: `directory` itself.
  const char* server = nullptr;
  bool mounted = false;  // that folder itself is what is tested
  bool mock = false;     // of libpvfs2, which shows the folders of this machine (tests/mocks)
};

std::string name_of(const testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

// A storage, and a new folder on it. What it holds is looked at by path(), which is a path of this
// machine, and used by at(), which is what the storage calls the same file.
class Conformance : public testing::TestWithParam<Variant> {
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
    driver.reset();
    try {
      storage = make_another_storage();
    } catch (const std::system_error& error) {
      if (error.code().value() == EINVAL) throw;
      why = error.what();
      return false;
    }
    driver = std::make_unique<StorageDriver>(*storage, arena.span());
    return true;
  }

  // With the variant's way of opening.
  int flags(int wanted) const { return GetParam().direct ? wanted | O_DIRECT : wanted; }
  File* open(const std::string& path, int wanted) {
    return driver->must_open(path, flags(wanted), 0644);
  }
  std::string path(const std::string& name) const { return *directory / name; }
  std::string at(const std::string& name) const {
    return server ? uri_of(*server, name) + identity : path(name);
  }
  // The same file as another client of the storage names it: of a storage past the kernel the mount
  // or the server's own folder, of a mount the library.
  std::string at_other_client(const std::string& name) const {
    return other_client ? uri_of(*other_client, name) : path(name);
  }
  std::string uri_of(const test::ServedFolder& served, const std::string& name) const {
    const std::string folder = std::filesystem::path(directory->path()).filename();
    return served.uri_of(folder + "/" + name);
  }

  // Who asks is written in a URI; elsewhere it is the thread's user.
  void become_nobody() {
    if (server) identity = "&uid=65534&gid=65534";
  }

  std::optional<test::ServedFolder> server;        // where the variant has one
  std::optional<test::ServedFolder> other_client;  // of a mounted one
  std::unique_ptr<test::MockTable> table;          // where that is the mock
  std::string identity;                            // settings at the end of a URI
  std::unique_ptr<ScratchDirectory> directory;
  AlignedBytes arena{4 << 20};  // registered with the engine
  std::unique_ptr<Storage> storage;
  std::unique_ptr<StorageDriver> driver;
  Capabilities can;
  std::string why;
};

// What only a file system mounted on this machine can be asked for.
class MountedConformance : public Conformance {};

// What only a storage can be asked for that stripes its files.
class StripedConformance : public Conformance {};

// ---- bytes
// ---------------------------------------------------------------------------------------

TEST_P(Conformance, MovesBytesOfAnySizeAtAnyOffset) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  std::string model;
  std::uint64_t seed = 0;
  // In the registered arena, outside it, and unaligned in both.
  AlignedBytes outside(2 << 20);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{512}, std::size_t{4095},
        std::size_t{4096}, std::size_t{4097}, std::size_t{65536}, std::size_t{1000003},
        std::size_t{1 << 20}}) {
    for (const int at : {0, 1, 512, 4096, 12288, 70001}) {
      const auto offset = static_cast<std::size_t>(at);
      for (char* memory : {arena.data(), arena.data() + 8192 + 3, outside.data(),
                           outside.data() + 512, outside.data() + 1}) {
        const std::string data = pattern(bytes, ++seed);
        std::memcpy(memory, data.data(), bytes);
        ASSERT_EQ(driver->pwrite(file, memory, bytes, static_cast<std::int64_t>(offset)),
                  static_cast<std::int64_t>(bytes));
        if (bytes > 0 && model.size() < offset + bytes) model.resize(offset + bytes);
        if (bytes > 0) model.replace(offset, bytes, data);
        std::memset(memory, 0x5a, bytes);
        ASSERT_EQ(driver->pread(file, memory, bytes, static_cast<std::int64_t>(offset)),
                  static_cast<std::int64_t>(bytes));
        ASSERT_EQ(std::memcmp(memory, data.data(), bytes), 0)
            << bytes << " bytes at " << offset << ", memory at "
            << reinterpret_cast<std::uintptr_t>(memory) % 4096;
      }
    }
  }
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, IsShortOnlyAtTheEndOfTheFile) {
  constexpr std::int64_t size = 10'000;
  const std::string data = pattern(size, 1);
  write_file(path("f"), data);
  File* file = open(at("f"), O_RDONLY);
  for (const std::int64_t offset : {0, 1, 4096, 8192, 9999, 10'000, 10'001, 12'288, 1'000'000}) {
    for (const int count : {1, 512, 4096, 8192, 65536}) {
      const auto bytes = static_cast<std::size_t>(count);
      std::memset(arena.data(), 0x5a, bytes + 1);
      const std::int64_t left = std::max<std::int64_t>(0, size - offset);
      const std::int64_t wanted = std::min<std::int64_t>(static_cast<std::int64_t>(bytes), left);
      ASSERT_EQ(driver->pread(file, arena.data(), bytes, offset), wanted)
          << bytes << " at " << offset;
      if (wanted > 0) {
        const auto got = arena.view(0, static_cast<std::size_t>(wanted));
        ASSERT_TRUE(same_bytes(
            got, std::string_view(data).substr(static_cast<std::size_t>(offset), got.size())));
      }
    }
  }
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, TransfersOfNothingSucceed) {
  write_file(path("f"), "abc");
  File* file = open(at("f"), O_RDWR);
  EXPECT_EQ(driver->pread(file, arena.data(), 0, 0), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 0, 100'000), 0);
  EXPECT_EQ(driver->transfer(Kind::read, file, {}, 0), 0);
  EXPECT_EQ(driver->transfer(Kind::write, file, {}, 0), 0);
  EXPECT_EQ(driver->pread(file, nullptr, 0, 0), 0);
  EXPECT_EQ(read_file(path("f")), "abc");
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, VectorsAreOneTransfer) {
  Random random;
  for (std::uint64_t round = 0; round < scaled(120); ++round) {
    File* file = open(at("f"), O_RDWR | O_CREAT | O_TRUNC);
    const std::size_t counts[] = {1, 2, 3, 17, 1024};
    const std::size_t count = random.pick(counts);
    const std::size_t align = random.one_in(2) ? 4096 : 1;
    std::vector<iovec> vectors;
    std::string all;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t limit = (arena.size() - at) / (count - i);
      std::size_t bytes = random.one_in(5) ? 0 : random.below(std::min<std::size_t>(limit, 30'000));
      bytes -= bytes % align;
      vectors.push_back(iovec{arena.data() + at, bytes});
      all += pattern(bytes, random.bits());
      at += (bytes + align - 1) / align * align;
    }
    // Backwards in memory half of the time.
    if (random.one_in(2)) std::reverse(vectors.begin(), vectors.end());
    std::size_t from = 0;
    for (const iovec& vector : vectors) {
      std::memcpy(vector.iov_base, all.data() + from, vector.iov_len);
      from += vector.iov_len;
    }
    const std::int64_t offset =
        random.one_in(2) ? 4096 : static_cast<std::int64_t>(random.below(9000));
    ASSERT_EQ(driver->transfer(Kind::write, file, vectors, offset),
              static_cast<std::int64_t>(all.size()));
    if (!all.empty()) {
      ASSERT_TRUE(read_file(path("f")) ==
                  std::string(static_cast<std::size_t>(offset), '\0') + all);
    }
    std::memset(arena.data(), 0x11, arena.size());
    ASSERT_EQ(driver->transfer(Kind::read, file, vectors, offset),
              static_cast<std::int64_t>(all.size()));
    from = 0;
    for (const iovec& vector : vectors) {
      ASSERT_EQ(std::memcmp(vector.iov_base, all.data() + from, vector.iov_len), 0);
      from += vector.iov_len;
    }
    // Across the end: the last bytes are missing, the others are there.
    std::memset(arena.data(), 0x11, arena.size());
    const std::int64_t beyond = offset + static_cast<std::int64_t>(all.size() / 2);
    ASSERT_EQ(driver->transfer(Kind::read, file, vectors, beyond),
              static_cast<std::int64_t>(all.size() - all.size() / 2));
    ASSERT_EQ(driver->close(file), 0);
  }
}

TEST_P(Conformance, HolesReadAsZeros) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  std::memcpy(arena.data(), "end", 3);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 3, 3'000'000), 3);
  std::memset(arena.data(), 0x5a, 1 << 20);
  ASSERT_EQ(driver->pread(file, arena.data(), 1 << 20, 1 << 20), 1 << 20);
  EXPECT_TRUE(same_bytes(arena.view(0, 1 << 20), std::string(1 << 20, '\0')));
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 3'000'003);
  if (can.tells_holes) {
    EXPECT_LT(status.st_blocks * 512, 1'000'000) << "the hole was filled";
  }
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, ReachesBeyondFourGiB) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  for (const std::int64_t offset :
       {2 * gib - 4096, 2 * gib, 4 * gib - 4096, 4 * gib, 5 * gib + 1, 100 * gib}) {
    const std::string data = pattern(8192, static_cast<std::uint64_t>(offset));
    std::memcpy(arena.data(), data.data(), data.size());
    ASSERT_EQ(driver->pwrite(file, arena.data(), 8192, offset), 8192);
  }
  for (const std::int64_t offset : {2 * gib, 4 * gib, 5 * gib + 1, 100 * gib}) {
    const std::string data = pattern(8192, static_cast<std::uint64_t>(offset));
    ASSERT_EQ(driver->pread(file, arena.data(), 8192, offset), 8192);
    EXPECT_TRUE(same_bytes(arena.view(0, 8192), data)) << offset;
  }
  Operation status;
  status.kind = Kind::file_status;
  status.file = file;
  ASSERT_EQ(driver->run(status), 0);
  EXPECT_EQ(status.status.size_bytes, static_cast<std::uint64_t>(100 * gib + 8192));
  EXPECT_EQ(driver->close(file), 0);
}

// Parts of the file in the kernel's page cache and parts not: what is read in one go must not
// depend on it.
TEST_P(Conformance, ReadsAcrossWhatIsCachedAndWhatIsNot) {
  constexpr std::size_t size = 2 << 20;
  const std::string data = pattern(size, 3);
  write_file(path("f"), data);
  const Descriptor fd(::open(path("f").c_str(), O_RDWR));
  ASSERT_EQ(fsync(fd), 0);
  File* file = open(at("f"), O_RDONLY);
  Random random;
  for (std::uint64_t round = 0; round < scaled(60); ++round) {
    for (int i = 0; i < 4; ++i) {
      const auto from = static_cast<off_t>(random.below(size / 4096) * 4096);
      const auto bytes = static_cast<off_t>(random.between(1, 64) * 4096);
      ASSERT_EQ(posix_fadvise(fd, from, bytes, POSIX_FADV_DONTNEED), 0);
    }
    const auto offset = static_cast<std::size_t>(random.below(size));
    const auto bytes = static_cast<std::size_t>(random.between(1, size));
    const std::size_t wanted = std::min(bytes, size - offset);
    std::memset(arena.data(), 0x5a, wanted);
    ASSERT_EQ(driver->pread(file, arena.data(), bytes, static_cast<std::int64_t>(offset)),
              static_cast<std::int64_t>(wanted));
    ASSERT_EQ(std::memcmp(arena.data(), data.data() + offset, wanted), 0)
        << bytes << " at " << offset;
  }
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, AppendsAtTheEndAndTellsWhere) {
  write_file(path("f"), "12345");
  File* file = open(at("f"), O_RDWR | O_APPEND);
  std::uint64_t value = 0;
  std::string model = "12345";
  for (const int count : {1, 100, 4096, 0, 70'000}) {
    const auto bytes = static_cast<std::size_t>(count);
    const std::string data = pattern(bytes, bytes);
    std::memcpy(arena.data(), data.data(), bytes);
    ASSERT_EQ(driver->append(file, arena.data(), bytes, value), static_cast<std::int64_t>(bytes));
    model += data;
    if (bytes > 0) {
      EXPECT_EQ(value, model.size());
    }
    // Somebody else's bytes in between.
    const Descriptor other(::open(path("f").c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(other, "x", 1, static_cast<off_t>(model.size())), 1);
    model += 'x';
  }
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
  EXPECT_EQ(driver->close(file), 0);
}

// As on Linux; the length of the file is no multiple of anything.
TEST_P(Conformance, OffsetsOfWritesToAnAppendingFileDoNotCount) {
  for (const std::string& before : {std::string(), std::string("12345"), pattern(4096, 1)}) {
    write_file(path("f"), before);
    File* file = open(at("f"), O_RDWR | O_APPEND);
    const std::string data = pattern(8192, 7);
    std::memcpy(arena.data(), data.data(), data.size());
    EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096) << before.size();
    EXPECT_EQ(driver->pwrite(file, arena.data() + 4096, 4096, 40'960), 4096);
    EXPECT_EQ(driver->close(file), 0);
    EXPECT_TRUE(same_bytes(read_file(path("f")), before + data)) << before.size();
  }
}

TEST_P(Conformance, SeesWhatOtherDescriptorsWrote) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  const Descriptor other(::open(path("f").c_str(), O_RDWR));
  for (std::uint64_t i = 1; i < 20; ++i) {
    const std::string ours = pattern(4096, i);
    std::memcpy(arena.data(), ours.data(), 4096);
    ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
    std::string seen(4096, '\0');
    ASSERT_EQ(::pread(other, seen.data(), 4096, 0), 4096);
    ASSERT_TRUE(seen == ours);
    const std::string theirs = pattern(5000, 1000 + i);
    ASSERT_EQ(::pwrite(other, theirs.data(), 5000, 100), 5000);
    ASSERT_EQ(driver->pread(file, arena.data(), 8192, 0), 5100);
    ASSERT_TRUE(same_bytes(arena.view(100, 5000), theirs));
  }
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, SeesTheSizeThatAnotherClientMakes) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  const auto size_now = [&] {
    Operation status;
    status.kind = Kind::file_status;
    status.file = file;
    return driver->run(status) == 0 ? static_cast<std::int64_t>(status.status.size_bytes) : -1;
  };
  const std::string data = pattern(8192, 1);
  std::memcpy(arena.data(), data.data(), data.size());
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  ASSERT_EQ(size_now(), 4096);
  File* other = driver->must_open(at_other_client("f"), O_RDWR);
  ASSERT_EQ(driver->pwrite(other, arena.data() + 4096, 4096, 12'288), 4096);
  EXPECT_EQ(size_now(), 16'384);
  std::memset(arena.data(), 0x5a, 16'384);
  EXPECT_EQ(driver->pread(file, arena.data(), 65'536, 0), 16'384);
  EXPECT_TRUE(same_bytes(arena.view(0, 16'384),
                         data.substr(0, 4096) + std::string(8192, '\0') + data.substr(4096)));
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 16'384), 0);
  EXPECT_EQ(driver->simple(Kind::truncate, other, 100), 0);
  EXPECT_EQ(size_now(), 100);
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), 100);
  EXPECT_EQ(driver->close(other), 0);
  EXPECT_EQ(driver->close(file), 0);
}

// Neither overwrites what is the other's, and both find all of it.
TEST_P(Conformance, TwoClientsWriteOneFile) {
  const std::int64_t piece = GetParam().direct ? 8192 : 5000;  // past the cache in whole blocks
  constexpr std::int64_t pieces = 100;
  const auto bytes = static_cast<std::size_t>(piece);
  const std::string data = pattern(bytes * static_cast<std::size_t>(pieces), 1);
  EXPECT_EQ(driver->try_open(at("f"), flags(O_RDWR | O_CREAT)), 0);
  const auto write_every_other = [&](const std::string& name, std::int64_t first) {
    const std::unique_ptr<Storage> own = make_another_storage();
    const AlignedBytes memory(data.size());
    StorageDriver client(*own);
    File* file = client.must_open(name, flags(O_RDWR));
    std::memcpy(memory.data(), data.data(), data.size());
    for (std::int64_t at = first * piece; at < pieces * piece; at += 2 * piece)
      EXPECT_EQ(client.pwrite(file, memory.data() + at, bytes, at), piece) << name << ' ' << at;
    EXPECT_EQ(client.simple(Kind::sync, file), 0) << name;
    EXPECT_EQ(client.close(file), 0) << name;
  };
  std::thread other([&] { write_every_other(at_other_client("f"), 1); });
  write_every_other(at("f"), 0);
  other.join();
  for (const std::string& name : {at("f"), at_other_client("f")}) {
    std::memset(arena.data(), 0x5a, data.size());
    File* file = driver->must_open(name, O_RDONLY);
    EXPECT_EQ(driver->pread(file, arena.data(), data.size(), 0), pieces * piece) << name;
    EXPECT_TRUE(same_bytes(arena.view(0, data.size()), data)) << name;
    EXPECT_EQ(driver->close(file), 0);
  }
}

TEST_P(Conformance, ManyInFlightEachComeBackOnce) {
  constexpr std::size_t piece = 8192;
  constexpr std::size_t pieces = 256;
  const std::string data = pattern(piece * pieces, 5);
  File* file = open(at("f"), O_RDWR | O_CREAT);
  Random random;
  std::vector<Operation> operations(pieces);
  std::vector<iovec> vectors(pieces);
  std::vector<std::size_t> order(pieces);
  for (std::size_t i = 0; i < pieces; ++i)
    order[i] = i;
  std::memcpy(arena.data(), data.data(), data.size());
  for (const Kind kind : {Kind::write, Kind::read}) {
    random.shuffle(order);
    std::vector<int> came(pieces);
    std::size_t submitted = 0;
    std::size_t finished = 0;
    while (finished < pieces) {
      // At most 64 in flight, submitted in bunches.
      std::size_t bunch = random.between(0, 20);
      for (; bunch > 0 && submitted < pieces && submitted - finished < 64; --bunch) {
        const std::size_t index = order[submitted++];
        vectors[index] = iovec{arena.data() + index * piece, piece};
        operations[index].kind = kind;
        operations[index].file = file;
        operations[index].offset = static_cast<std::int64_t>(index * piece);
        operations[index].vectors = {&vectors[index], 1};
        driver->queue().submit(operations[index]);
      }
      driver->queue().flush();
      if (submitted == finished) continue;
      const auto index = static_cast<std::size_t>(&driver->next() - operations.data());
      ASSERT_LT(index, pieces);
      ASSERT_EQ(++came[index], 1);
      ASSERT_EQ(operations[index].result, static_cast<std::int64_t>(piece));
      ++finished;
    }
    EXPECT_EQ(driver->queue().reap(), nullptr);
    if (kind == Kind::write) std::memset(arena.data(), 0, data.size());
  }
  EXPECT_EQ(std::memcmp(arena.data(), data.data(), data.size()), 0);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), data));
}

// ---- names, sizes, status
// ------------------------------------------------------------------------

TEST_P(Conformance, OpensAsTheSystemCallDoes) {
  write_file(path("there"), "x");
  mkdir(path("dir").c_str(), 0755);
  ASSERT_EQ(symlink("there", path("link").c_str()), 0);
  ASSERT_EQ(symlink("loop", path("loop").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", path("dangling").c_str()), 0);
  struct Case {
    const char* name;
    int flags;
  };
  for (const Case& one : std::vector<Case>{{"missing", O_RDONLY},
                                           {"there", O_RDONLY},
                                           {"there", O_RDWR},
                                           {"there/below", O_RDONLY},
                                           {"missing/below", O_RDWR | O_CREAT},
                                           {"there", O_RDWR | O_CREAT | O_EXCL},
                                           {"dir", O_RDWR},
                                           {"dir", O_WRONLY},
                                           {"dir", O_RDONLY | O_CREAT},
                                           {"there", O_RDONLY | O_DIRECTORY},
                                           {"link", O_RDONLY},
                                           {"link", O_RDONLY | O_NOFOLLOW},
                                           {"link", O_RDWR | O_CREAT | O_EXCL},
                                           {"loop", O_RDONLY},
                                           {"dangling", O_RDWR},
                                           {"dangling", O_RDWR | O_CREAT | O_EXCL},
                                           {"", O_RDONLY}}) {
    const std::int64_t ours = driver->try_open(at(one.name), flags(one.flags));
    const Descriptor fd(::open(path(one.name).c_str(), flags(one.flags), 0644));
    EXPECT_EQ(ours, fd >= 0 ? 0 : -errno) << one.name << " flags " << std::oct << one.flags;
  }
  EXPECT_EQ(driver->try_open("", O_RDONLY), -ENOENT);
  EXPECT_EQ(driver->try_open(at(std::string(300, 'n')), O_RDWR | O_CREAT), -ENAMETOOLONG);
  EXPECT_EQ(driver->try_open(at(std::string(5000, '/')), O_RDONLY), -ENAMETOOLONG);
}

// All of them open at once.
TEST_P(Conformance, ManyFiles) {
  constexpr std::size_t count = 200;
  const auto bytes_of = [](std::size_t number) { return pattern(number * 37, 1000 + number); };
  std::vector<std::string> names;
  std::vector<File*> files;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(at("many" + std::to_string(i)));
    files.push_back(open(names.back(), O_RDWR | O_CREAT | O_EXCL));
    const std::string data = bytes_of(i);
    std::memcpy(arena.data(), data.data(), data.size());
    ASSERT_EQ(driver->pwrite(files.back(), arena.data(), data.size(), 0), std::ssize(data));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string data = bytes_of(i);
    ASSERT_EQ(driver->pread(files[i], arena.data(), 65'536, 0), std::ssize(data));
    ASSERT_TRUE(same_bytes(arena.view(0, data.size()), data)) << i;
  }
  for (File* file : files)
    ASSERT_EQ(driver->close(file), 0);
  ASSERT_TRUE(same_bytes(read_file(path("many150")), bytes_of(150)));
  for (const std::string& name : names)
    ASSERT_EQ(driver->path_call(Kind::unlink, name), 0) << name;
  EXPECT_TRUE(std::filesystem::is_empty(directory->path()));
}

TEST_P(Conformance, OpensADirectoryForReadingButReadsNoBytesFromIt) {
  File* file = driver->must_open(at(""), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), -EISDIR);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -EBADF);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, CreatesWithTheModeAskedFor) {
  const mode_t before = umask(027);
  File* file = driver->must_open(at("f"), flags(O_RDWR | O_CREAT | O_EXCL), 0666);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, TruncatesOnOpenAndOnDemand) {
  write_file(path("f"), pattern(10'000, 1));
  File* file = open(at("f"), O_RDWR | O_TRUNC);
  EXPECT_EQ(test::file_size(path("f")), 0);
  std::memset(arena.data(), 'a', 8192);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 8192, 0), 8192);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 100), 0);
  EXPECT_EQ(test::file_size(path("f")), 100);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 5 * gib), 0);
  EXPECT_EQ(test::file_size(path("f")), 5 * gib);
  ASSERT_EQ(driver->pread(file, arena.data(), 4096, 0), 4096);
  EXPECT_TRUE(same_bytes(arena.view(0, 4096), std::string(100, 'a') + std::string(3996, '\0')));
  EXPECT_EQ(driver->simple(Kind::truncate, file, -1), -EINVAL);
  const Descriptor fd(::open(path("f").c_str(), O_RDWR));
  EXPECT_EQ(driver->simple(Kind::truncate, file, offset_max), plain(ftruncate(fd, offset_max)));
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, SyncsFiles) {
  File* file = open(at("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 5000, 0), 5000);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->simple(Kind::sync_data, file), 0);
  EXPECT_EQ(driver->close(file), 0);
}

void expect_same_status(const Status& ours, const struct stat& theirs, bool full) {
  EXPECT_EQ(ours.size_bytes, static_cast<std::uint64_t>(theirs.st_size));
  EXPECT_EQ(ours.inode, theirs.st_ino);
  EXPECT_EQ(ours.modified_ns / 1'000'000'000, theirs.st_mtim.tv_sec);
  EXPECT_EQ(ours.mode, theirs.st_mode);
  if (full) {
    EXPECT_EQ(ours.allocated_bytes, static_cast<std::uint64_t>(theirs.st_blocks) * 512);
    EXPECT_EQ(ours.modified_ns % 1'000'000'000, theirs.st_mtim.tv_nsec);
    EXPECT_EQ(ours.links, theirs.st_nlink);
  }
  EXPECT_EQ(ours.owner, theirs.st_uid);
  EXPECT_EQ(ours.group, theirs.st_gid);
  EXPECT_GE(ours.block_bytes, static_cast<std::uint32_t>(theirs.st_blksize));
}

TEST_P(Conformance, TellsTheStatus) {
  write_file(path("f"), pattern(12'345, 1));
  const bool has_links = link(path("f").c_str(), path("second").c_str()) == 0;
  ASSERT_TRUE(has_links || !can.full_status) << std::strerror(errno);
  ASSERT_EQ(symlink("f", path("link").c_str()), 0);
  ASSERT_EQ(chmod(path("f").c_str(), 0751), 0);
  struct stat theirs {};
  ASSERT_EQ(stat(path("f").c_str(), &theirs), 0);
  File* file = open(at("f"), O_RDONLY);
  Operation operation;
  operation.kind = Kind::file_status;
  operation.file = file;
  ASSERT_EQ(driver->run(operation), 0);
  expect_same_status(operation.status, theirs, can.full_status);
  for (const char* name : {"f", "second", "link"}) {
    if (!has_links && std::strcmp(name, "second") == 0) continue;
    Status ours;
    ASSERT_EQ(driver->path_call(Kind::path_status, at(name), &ours), 0);
    expect_same_status(ours, theirs, can.full_status);
  }
  EXPECT_EQ(driver->path_call(Kind::path_status, at("missing")), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f/below")), -ENOTDIR);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(Conformance, Unlinks) {
  write_file(path("f"), "x");
  mkdir(path("dir").c_str(), 0755);
  File* file = open(at("f"), O_RDWR);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  // The open file lives on, or says that it does not.
  std::memcpy(arena.data(), "still here", 10);
  const std::int64_t written = driver->pwrite(file, arena.data(), 10, 0);
  const std::int64_t got = driver->pread(file, arena.data() + 100, 10, 0);
  if (can.open_after_unlink || written >= 0) {
    EXPECT_EQ(written, 10);
  } else {
    EXPECT_EQ(written, -ESTALE);
  }
  if (can.open_after_unlink || got >= 0) {
    EXPECT_EQ(got, 10);
  } else {
    EXPECT_EQ(got, -ESTALE);
  }
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("dir")), -EISDIR);
  EXPECT_EQ(driver->path_call(Kind::unlink, ""), -ENOENT);
}

TEST_P(Conformance, Renames) {
  const auto rename = [&](const std::string& from, const std::string& to) {
    Operation operation;
    operation.kind = Kind::rename;
    operation.path = from.c_str();
    operation.new_path = to.c_str();
    return driver->run(operation);
  };
  write_file(path("f"), "new");
  write_file(path("g"), "old");
  mkdir(path("dir").c_str(), 0755);
  File* old = open(at("g"), O_RDONLY);
  EXPECT_EQ(rename(at("f"), at("g")), 0);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  EXPECT_EQ(read_file(path("g")), "new");
  EXPECT_EQ(driver->close(old), 0);
  EXPECT_EQ(rename(at("missing"), at("g")), -ENOENT);
  EXPECT_EQ(rename(at("g"), at("missing/g")), -ENOENT);
  EXPECT_EQ(rename(at("g"), at("dir")), -EISDIR);
  EXPECT_EQ(rename(at("g"), server ? path("g") : "nfs://127.0.0.1/g"), -EXDEV);
  EXPECT_EQ(rename(at("g"), at("dir/g")), 0);
  EXPECT_EQ(read_file(path("dir/g")), "new");
  // A file that is open goes on under its new name.
  File* file = open(at("dir/g"), O_RDWR);
  EXPECT_EQ(rename(at("dir/g"), at("h")), 0);
  std::memcpy(arena.data(), "newer", 5);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 5, 0), 5);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(read_file(path("h")), "newer");
}

TEST_P(Conformance, MakesAndRemovesDirectories) {
  const auto call = [&](Kind kind, const std::string& path) {
    Operation operation;
    operation.kind = kind;
    operation.path = path.c_str();
    operation.mode = 0750;
    return driver->run(operation);
  };
  write_file(path("f"), "x");
  EXPECT_EQ(call(Kind::make_directory, at("dir")), 0);
  Status status;
  EXPECT_EQ(driver->path_call(Kind::path_status, at("dir"), &status), 0);
  EXPECT_EQ(status.mode, static_cast<unsigned>(S_IFDIR | 0750));
  EXPECT_TRUE(std::filesystem::is_directory(path("dir")));
  EXPECT_EQ(call(Kind::make_directory, at("dir")), -EEXIST);
  EXPECT_EQ(call(Kind::make_directory, at("f")), -EEXIST);
  EXPECT_EQ(call(Kind::make_directory, at("missing/dir")), -ENOENT);
  EXPECT_EQ(call(Kind::make_directory, at("f/dir")), -ENOTDIR);
  EXPECT_EQ(call(Kind::make_directory, at("dir/below")), 0);
  EXPECT_EQ(call(Kind::remove_directory, at("dir")), -ENOTEMPTY);
  EXPECT_EQ(call(Kind::remove_directory, at("dir/below")), 0);
  EXPECT_EQ(call(Kind::remove_directory, at("dir")), 0);
  EXPECT_EQ(call(Kind::remove_directory, at("dir")), -ENOENT);
  EXPECT_EQ(call(Kind::remove_directory, at("f")), -ENOTDIR);
  EXPECT_EQ(read_file(path("f")), "x");
  EXPECT_FALSE(std::filesystem::exists(path("dir")));
}

TEST_P(Conformance, ListsDirectories) {
  std::vector<DirectoryEntry> entries;
  const auto list = [&](const std::string& path) {
    entries.clear();
    Operation operation;
    operation.kind = Kind::list_directory;
    operation.path = path.c_str();
    operation.entries = &entries;
    return driver->run(operation);
  };
  mkdir(path("dir").c_str(), 0755);
  EXPECT_EQ(list(at("dir")), 0);
  EXPECT_TRUE(entries.empty());
  // More than one reply of a server holds.
  const std::size_t count = scaled(300);
  for (std::size_t i = 0; i < count; ++i)
    write_file(path("dir/a rather long name of a file, number " + std::to_string(i)),
               std::string(i, 'x'));
  mkdir(path("dir/below").c_str(), 0700);
  ASSERT_EQ(symlink("below", path("dir/link").c_str()), 0);
  ASSERT_EQ(list(at("dir")), 0);
  ASSERT_EQ(entries.size(), count + 2);
  std::map<std::string, Status> found;
  for (const DirectoryEntry& entry : entries)
    found[entry.name] = entry.status;
  EXPECT_EQ(found.size(), count + 2);
  for (std::size_t i = 0; i < count; ++i) {
    const Status& status = found["a rather long name of a file, number " + std::to_string(i)];
    EXPECT_EQ(status.size_bytes, i);
    EXPECT_TRUE(S_ISREG(status.mode));
  }
  EXPECT_EQ(found["below"].mode, static_cast<unsigned>(S_IFDIR | 0700));
  EXPECT_TRUE(S_ISLNK(found["link"].mode));
  write_file(path("dir/below/f"), "x");
  EXPECT_EQ(list(at("dir/link")), 0);
  EXPECT_EQ(entries.size(), 1U);
  EXPECT_EQ(list(at("missing")), -ENOENT);
  EXPECT_EQ(list(at("dir/below/f")), -ENOTDIR);
  EXPECT_TRUE(entries.empty());
}

// A direct open happens in two steps; the name may be gone, or another file's, after the first.
TEST_P(Conformance, WorksOnTheFileItOpenedWhateverHappensToItsName) {
  write_file(path("f"), pattern(8192, 1));
  File* file = open(at("f"), O_RDWR);
  ASSERT_EQ(rename(path("f").c_str(), path("g").c_str()), 0);
  write_file(path("f"), pattern(8192, 2));
  ASSERT_EQ(driver->pread(file, arena.data(), 8192, 0), 8192);
  EXPECT_TRUE(same_bytes(arena.view(0, 8192), pattern(8192, 1)));
  EXPECT_EQ(driver->close(file), 0);
}

// ---- layouts
// -------------------------------------------------------------------------------------

// A call on a path that takes or tells a layout.
std::int64_t layout_call(StorageDriver& driver, Kind kind, const std::string& path,
                         Layout& layout) {
  Operation operation;
  operation.kind = kind;
  operation.path = path.c_str();
  operation.layout = &layout;
  operation.flags = O_RDWR | O_CREAT | O_EXCL;
  operation.mode = 0644;
  const std::int64_t result = driver.run(operation);
  if (operation.opened != nullptr) driver.close(operation.opened.release());
  return result;
}

TEST_P(Conformance, MakesFilesWithTheLayoutAskedFor) {
  Layout asked;
  asked.stripe_bytes = 1 << 20;
  asked.stripe_count = 4;
  const bool has_objects = storage->describe_path(at("")).layout_rules == ceph_layout_rules;
  if (has_objects || !can.layouts) asked.extras[object_bytes_name] = 2 << 20;
  Layout layout = asked;
  if (!can.layouts) {
    EXPECT_EQ(layout_call(*driver, Kind::open, at("f"), layout), -EOPNOTSUPP);
    EXPECT_EQ(test::file_size(path("f")), -ENOENT);
    EXPECT_EQ(layout_call(*driver, Kind::path_layout, at(""), layout), -EOPNOTSUPP);
    EXPECT_EQ(layout_call(*driver, Kind::set_layout, at(""), layout), -EOPNOTSUPP);
    return;
  }
  const auto expect_asked = [&](const Layout& told) {
    EXPECT_EQ(told.stripe_bytes, asked.stripe_bytes);
    EXPECT_EQ(told.stripe_count, asked.stripe_count);
    EXPECT_EQ(told.extras, asked.extras);
    EXPECT_EQ(told.pool.empty(), !has_objects);
  };
  ASSERT_EQ(layout_call(*driver, Kind::open, at("f"), layout), 0);
  expect_asked(layout);
  layout = Layout{};
  ASSERT_EQ(layout_call(*driver, Kind::path_layout, at("f"), layout), 0);
  expect_asked(layout);
  EXPECT_EQ(layout_call(*driver, Kind::open, at("f"), layout), -EEXIST);
  // What is written comes back from all its servers.
  const std::string data = pattern(3 << 20, 1);
  File* file = open(at("f"), O_RDWR);
  std::memcpy(arena.data(), data.data(), data.size());
  EXPECT_EQ(driver->pwrite(file, arena.data(), data.size(), 5), 3 << 20);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), std::string(5, '\0') + data));
}

TEST_P(StripedConformance, DirectoriesPassTheirLayoutOn) {
  ASSERT_TRUE(can.layouts);
  mkdir(path("dir").c_str(), 0755);
  mkdir(path("dir/below").c_str(), 0755);
  Layout asked;
  asked.stripe_bytes = 64 << 10;
  asked.stripe_count = 3;
  ASSERT_EQ(layout_call(*driver, Kind::set_layout, at("dir"), asked), 0);
  ASSERT_EQ(driver->try_open(at("dir/below/f"), O_RDWR | O_CREAT), 0);
  for (const char* name : {"dir", "dir/below", "dir/below/f"}) {
    Layout told;
    ASSERT_EQ(layout_call(*driver, Kind::path_layout, at(name), told), 0) << name;
    EXPECT_EQ(told.stripe_bytes, 64U << 10) << name;
    EXPECT_EQ(told.stripe_count, 3U) << name;
  }
  Layout of_all;
  ASSERT_EQ(layout_call(*driver, Kind::path_layout, at(""), of_all), 0);
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
    EXPECT_EQ(layout_call(*driver, Kind::open, at("f"), layout), -EINVAL);
    EXPECT_EQ(layout_call(*driver, Kind::set_layout, at(""), layout), -EINVAL);
    EXPECT_EQ(test::file_size(path("f")), -ENOENT);
  }
  Layout reduced = wrong[0];
  reduced.first_server = 2;
  reduced.at_most = true;
  ASSERT_EQ(layout_call(*driver, Kind::open, at("f"), reduced), 0);
  EXPECT_EQ(reduced.stripe_bytes, 65536U);
  EXPECT_EQ(reduced.first_server, -1);
  wrong[2].at_most = true;  // there is nothing less than a pool
  EXPECT_EQ(layout_call(*driver, Kind::open, at("g"), wrong[2]), -EINVAL);
}

// ---- what goes wrong
// -----------------------------------------------------------------------------

TEST_P(Conformance, RefusesTheWrongDirection) {
  write_file(path("f"), pattern(8192, 1));
  File* reads = open(at("f"), O_RDONLY);
  EXPECT_EQ(driver->pwrite(reads, arena.data(), 4096, 0), -EBADF);
  EXPECT_EQ(driver->pwrite(reads, arena.data(), 0, 0), -EBADF);
  EXPECT_EQ(driver->transfer(Kind::write, reads,
                             {iovec{arena.data(), 4096}, iovec{arena.data(), 4096}}, 0),
            -EBADF);
  std::uint64_t value = 0;
  EXPECT_EQ(driver->append(reads, arena.data(), 10, value), -EBADF);
  EXPECT_EQ(driver->simple(Kind::truncate, reads, 0), -EINVAL);
  EXPECT_EQ(driver->close(reads), 0);
  File* writes = open(at("f"), O_WRONLY);
  EXPECT_EQ(driver->pread(writes, arena.data(), 4096, 0), -EBADF);
  EXPECT_EQ(driver->pread(writes, arena.data(), 0, 0), -EBADF);
  EXPECT_EQ(driver->pread(writes, arena.data(), 100, 3), -EBADF);
  EXPECT_EQ(driver->close(writes), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), pattern(8192, 1)));
}

TEST_P(Conformance, HugeOffsetsFailAsTheyDoInTheSystemCall) {
  write_file(path("f"), "abc");
  write_file(path("twin"), "abc");
  File* file = open(at("f"), O_RDWR);
  const Descriptor twin(::open(path("twin").c_str(), flags(O_RDWR)));
  for (const std::int64_t offset :
       {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), offset_max, offset_max - 4095,
        (offset_max >> 12) << 12, std::int64_t{1} << 62, std::int64_t{1} << 50}) {
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{0}}) {
      EXPECT_EQ(driver->pread(file, arena.data(), bytes, offset),
                plain(::pread(twin, arena.data(), bytes, offset)))
          << "pread " << bytes << " at " << offset;
      EXPECT_EQ(driver->pwrite(file, arena.data(), bytes, offset),
                plain(::pwrite(twin, arena.data(), bytes, offset)))
          << "pwrite " << bytes << " at " << offset;
    }
  }
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(test::file_size(path("f")), test::file_size(path("twin")));
}

TEST_P(MountedConformance, BadMemoryIsAnErrorNotATrap) {
  write_file(path("f"), pattern(8192, 1));
  File* file = open(at("f"), O_RDWR);
  auto* nowhere =
      static_cast<char*>(mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(nowhere, MAP_FAILED);
  EXPECT_EQ(driver->pread(file, nowhere, 4096, 0), -EFAULT);
  EXPECT_EQ(driver->pwrite(file, nowhere, 4096, 0), -EFAULT);
  munmap(nowhere, 8192);
  EXPECT_EQ(driver->close(file), 0);
}

// As another user: the rights of a thread count, and threads started by it inherit them.
class Unprivileged {
 public:
  Unprivileged() {
    if (geteuid() == 0) setfsuid(65534);
  }
  ~Unprivileged() {
    if (geteuid() == 0) setfsuid(0);
  }
};

TEST_P(Conformance, HonoursPermissions) {
  write_file(path("secret"), pattern(8192, 1));
  chmod(path("secret").c_str(), 0);
  write_file(path("readable"), pattern(8192, 1));
  chmod(path("readable").c_str(), 0444);
  mkdir(path("dir").c_str(), 0755);
  write_file(path("dir/f"), "x");
  chmod(path("dir").c_str(), 0);
  const Unprivileged nobody;
  become_nobody();
  ASSERT_TRUE(make_storage()) << why;  // its threads are nobody's, too
  for (const char* name : {"secret", "readable", "dir/f", "dir/new"}) {
    for (const int wanted : {O_RDONLY, O_WRONLY, O_RDWR | O_CREAT}) {
      const Descriptor fd(::open(path(name).c_str(), flags(wanted), 0644));
      const std::int64_t theirs = fd >= 0 ? 0 : -errno;
      EXPECT_EQ(driver->try_open(at(name), flags(wanted)), theirs) << name << ' ' << wanted;
    }
  }
  EXPECT_EQ(driver->try_open(at("secret"), flags(O_RDONLY)), -EACCES);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("dir/f")), -EACCES);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("dir/f")), -EACCES);
}

// Who creates a file may write it, whatever rights he gives it.
TEST_P(Conformance, CreatesFilesThatNobodyMayOpenAgain) {
  chmod(directory->path().c_str(), 0777);
  const Unprivileged nobody;
  become_nobody();
  ASSERT_TRUE(make_storage()) << why;
  File* file = nullptr;
  ASSERT_EQ(driver->open(at("f"), flags(O_RDWR | O_CREAT | O_EXCL), file, 0400), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 8192, 0), can.rights_at_open ? 8192 : -EACCES);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(MountedConformance, ReadOnlyFileSystems) {
  test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  write_file(own / "f", "x");
  ASSERT_TRUE(own.make_read_only()) << std::strerror(errno);
  ASSERT_TRUE(make_storage()) << why;
  EXPECT_EQ(driver->try_open(own / "f", O_RDWR), -EROFS);
  EXPECT_EQ(driver->try_open(own / "new", O_RDWR | O_CREAT), -EROFS);
  EXPECT_EQ(driver->try_open(own / "f", O_RDONLY), 0);
  EXPECT_EQ(driver->path_call(Kind::unlink, own / "f"), -EROFS);
}

TEST_P(MountedConformance, FullFileSystems) {
  test::OwnMount own("size=256k");
  if (!own) GTEST_SKIP() << own.why();
  ASSERT_TRUE(make_storage()) << why;
  // The last write that fits is short, as the system call's; the next fails.
  for (const int append : {0, O_APPEND}) {
    File* file = driver->must_open(own / "f", O_RDWR | O_CREAT | append);
    const Descriptor twin(::open((own / "twin").c_str(), O_RDWR | O_CREAT | append, 0644));
    std::vector<std::int64_t> ours;
    std::vector<std::int64_t> theirs;
    constexpr std::size_t step = 100'000;
    for (std::size_t i = 0; i < 5; ++i)
      ours.push_back(driver->pwrite(file, arena.data(), step, static_cast<std::int64_t>(i * step)));
    EXPECT_EQ(driver->simple(Kind::truncate, file, 0), 0);
    for (std::size_t i = 0; i < 5; ++i)
      theirs.push_back(plain(::pwrite(twin, arena.data(), step, static_cast<off_t>(i * step))));
    EXPECT_EQ(ftruncate(twin, 0), 0);
    EXPECT_EQ(ours, theirs);
    EXPECT_EQ(ours.back(), -ENOSPC);
    EXPECT_EQ(driver->pwrite(file, arena.data(), step, 0), static_cast<std::int64_t>(step));
    EXPECT_EQ(driver->simple(Kind::truncate, file, 0), 0);
    EXPECT_EQ(driver->close(file), 0);
  }
}

TEST_P(MountedConformance, TheDeviceThatIsAlwaysFull) {
  File* file = driver->must_open("/dev/full", O_RDWR);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ENOSPC);
  std::uint64_t value = 0;
  EXPECT_EQ(driver->append(file, arena.data(), 4096, value), -ENOSPC);
  std::memset(arena.data(), 1, 4096);
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), 4096);
  EXPECT_TRUE(same_bytes(arena.view(0, 4096), std::string(4096, '\0')));
  EXPECT_EQ(driver->close(file), 0);
}

// Nothing that has no offsets is opened, and nobody waits for a peer.
TEST_P(Conformance, RefusesPipesAndSockets) {
  if (mkfifo(path("fifo").c_str(), 0600) != 0) {
    ASSERT_FALSE(can.full_status) << std::strerror(errno);
    return;  // there are no such files
  }
  // Where the storage knows no such files, it says the same of all.
  const std::int64_t refused = can.full_status ? -ESPIPE : -ENXIO;
  EXPECT_EQ(driver->try_open(at("fifo"), O_RDONLY), refused);
  EXPECT_EQ(driver->try_open(at("fifo"), O_RDWR), refused);
  const Descriptor listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(driver->try_open(at("socket"), O_RDWR), -ENXIO);
}

TEST_P(MountedConformance, ReadsFromATerminalFailAsPreadDoes) {
  const Descriptor master(posix_openpt(O_RDWR | O_NOCTTY));
  if (master < 0) GTEST_SKIP() << "no terminals here: " << std::strerror(errno);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const std::string name = ptsname(master);
  File* file = nullptr;
  const std::int64_t error = driver->open(name, O_RDWR | O_NOCTTY, file);
  if (error != 0) {
    EXPECT_EQ(error, -ESPIPE);  // refused like a pipe
    return;
  }
  Operation read;
  iovec vector{arena.data(), 16};
  read.kind = Kind::read;
  read.file = file;
  read.vectors = {&vector, 1};
  driver->queue().submit(read);
  driver->queue().flush();
  const bool finished =
      test::eventually([&] { return driver->queue().reap() == &read; }, std::chrono::seconds(2));
  EXPECT_TRUE(finished) << "waits for somebody to type";
  if (!finished) {
    driver->queue().cancel(read);
    driver->next();
  }
  EXPECT_EQ(read.result, -ESPIPE);
  EXPECT_EQ(driver->close(file), 0);
}

// ---- direct
// --------------------------------------------------------------------------------------

TEST_P(Conformance, TakesAnyAlignment) {
  Random random;
  std::string model = pattern(200'000, 1);
  write_file(path("f"), model);
  File* file = open(at("f"), O_RDWR);
  const std::uint64_t steps[] = {1, 512, 4096};
  for (std::uint64_t round = 0; round < scaled(600); ++round) {
    const std::uint64_t step = random.pick(steps);
    const std::size_t offset = random.below(250'000) / step * step;
    const std::size_t bytes = random.below(60'000) / step * step;
    char* memory = arena.data() + random.below(10'000) / step * step;
    if (random.one_in(2)) {
      const std::string data = pattern(bytes, random.bits());
      std::memcpy(memory, data.data(), bytes);
      ASSERT_EQ(driver->pwrite(file, memory, bytes, static_cast<std::int64_t>(offset)),
                static_cast<std::int64_t>(bytes));
      if (bytes > 0 && model.size() < offset + bytes) model.resize(offset + bytes);
      if (bytes > 0) model.replace(offset, bytes, data);
    } else {
      const std::size_t wanted = offset < model.size() ? std::min(bytes, model.size() - offset) : 0;
      ASSERT_EQ(driver->pread(file, memory, bytes, static_cast<std::int64_t>(offset)),
                static_cast<std::int64_t>(wanted));
      ASSERT_EQ(std::memcmp(memory, model.data() + std::min(offset, model.size()), wanted), 0);
    }
  }
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
}

// Pieces that share blocks and pages of the file, some fit for direct I/O and some not, under way
// at once and through two openings of the file.
TEST_P(Conformance, DisjointWritesInFlightAllArrive) {
  Random random;
  constexpr std::size_t bytes = 256 * 1024;
  File* files[] = {open(at("f"), O_RDWR | O_CREAT), open(at("f"), O_RDWR)};
  const AlignedBytes memory(bytes);
  const AlignedBytes read_back(bytes);
  std::string model(bytes, '\0');
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    const std::string data = pattern(bytes, round + 1);
    std::memcpy(memory.data(), data.data(), bytes);
    std::vector<iovec> vectors;
    for (std::size_t at = 0; at < bytes && vectors.size() < 60;) {
      const std::size_t step = random.one_in(3) ? 1 : 512;
      const std::size_t next = std::min(bytes, (at + 1 + random.below(10'000)) / step * step);
      if (next <= at) continue;
      vectors.push_back(iovec{memory.data() + at, next - at});
      at = next;
    }
    random.shuffle(vectors);
    std::vector<Operation> operations(vectors.size());
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      const auto at = static_cast<std::size_t>(static_cast<char*>(vectors[i].iov_base) -
                                               static_cast<char*>(memory.data()));
      model.replace(at, vectors[i].iov_len, data, at, vectors[i].iov_len);
      operations[i].kind = Kind::write;
      operations[i].file = files[i % 2];
      operations[i].offset = static_cast<std::int64_t>(at);
      operations[i].vectors = {&vectors[i], 1};
      driver->queue().submit(operations[i]);
      if (random.one_in(4)) driver->queue().flush();
    }
    driver->queue().flush();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& done = driver->next();
      EXPECT_GT(done.result, 0) << "at " << done.offset;
    }
    // Not by the mount: ceph-fuse 16.2 has been seen to wait for ever for a file that another
    // client has just written by many calls at once.
    const std::int64_t got = driver->pread(files[0], read_back.data(), bytes, 0);
    ASSERT_GT(got, 0);
    const auto size = static_cast<std::size_t>(got);
    ASSERT_TRUE(same_bytes(read_back.view(0, size), model.substr(0, size))) << "round " << round;
    ASSERT_EQ(driver->simple(Kind::sync, files[round % 2]), 0) << "round " << round;
  }
  for (File* file : files)
    EXPECT_EQ(driver->close(file), 0);
}

// On a disk and in memory, by either engine.
const auto mounted =
    testing::Values(Variant{"uring_buffered_tmp", nullptr, Engine::io_uring, false},
                    Variant{"uring_direct_tmp", nullptr, Engine::io_uring, true},
                    Variant{"threads_buffered_tmp", nullptr, Engine::threads, false},
                    Variant{"threads_direct_tmp", nullptr, Engine::threads, true},
                    Variant{"uring_buffered_shm", "/dev/shm", Engine::io_uring, false},
                    Variant{"uring_direct_shm", "/dev/shm", Engine::io_uring, true},
                    Variant{"threads_buffered_shm", "/dev/shm", Engine::threads, false},
                    Variant{"threads_direct_shm", "/dev/shm", Engine::threads, true});

INSTANTIATE_TEST_SUITE_P(Posix, Conformance, mounted, name_of);
INSTANTIATE_TEST_SUITE_P(Posix, MountedConformance, mounted, name_of);
INSTANTIATE_TEST_SUITE_P(Nfs, Conformance,
                         testing::Values(Variant{
                             .name = "nfs", .directory = nullptr, .server = "NFS"}),
                         name_of);
// The library, and what ceph-fuse has mounted.
const auto ceph = testing::Values(
    Variant{.name = "library", .directory = nullptr, .server = "CEPH"},
    Variant{.name = "fuse_uring", .directory = nullptr, .server = "CEPH", .mounted = true},
    Variant{.name = "fuse_threads",
            .directory = nullptr,
            .engine = Engine::threads,
            .server = "CEPH",
            .mounted = true});

INSTANTIATE_TEST_SUITE_P(Ceph, Conformance, ceph, name_of);
// No OrangeFS is in Debian. A real one is tested where somebody has mounted it and names it.
INSTANTIATE_TEST_SUITE_P(Pvfs2Mock, Conformance,
                         testing::Values(Variant{
                             .name = "mock", .directory = nullptr, .mock = true}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Pvfs2, Conformance,
                         testing::Values(Variant{
                             .name = "real", .directory = nullptr, .server = "PVFS2"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ceph, StripedConformance, ceph, name_of);

}  // namespace
}  // namespace ferry::storage
