// What is served, and what readers get of it.
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <ferry/device/cache/page_table.hpp>

#include "base/socket_messages.hpp"
#include "daemon/daemon_rig.hpp"
#include "support/depth.hpp"
#include "support/in_a_child.hpp"

namespace {

using ferry::daemon::Client;
using ferry::test::DaemonRig;
using ferry::test::Descriptor;
using ferry::test::eventually;
using ferry::test::OfferedFile;
using ferry::test::pattern;
using ferry::test::same_bytes;
using ferry::test::status_of;

TEST(Serving, ReadsAreTheFilesBytes) {
  DaemonRig rig;
  ferry::test::Random random;
  const std::string contents = pattern(1'234'567, random.bits());
  OfferedFile file(rig.client, rig.file("data", contents));
  ASSERT_EQ(file.error(), 0);
  std::string got;
  for (std::uint64_t i = 0; i < ferry::test::scaled(2000); ++i) {
    const std::uint64_t offset = random.below(contents.size() + 100'000);
    const std::uint64_t bytes = random.one_in(8) ? random.below(500'000) : random.below(9000);
    const std::string wanted =
        offset < contents.size() ? contents.substr(offset, bytes) : std::string();
    ASSERT_EQ(file.read(got, bytes, offset), static_cast<std::int64_t>(wanted.size()));
    ASSERT_TRUE(same_bytes(got, wanted)) << offset;
  }
  EXPECT_GT(status_of(rig.socket()).hits, 0U);
}

TEST(Serving, EndsOfFilesAndOfNumbers) {
  DaemonRig rig;
  const std::string contents = pattern((64 << 10) + 1, 1);
  OfferedFile file(rig.client, rig.file("data", contents));
  ASSERT_EQ(file.error(), 0);
  std::string got;
  EXPECT_EQ(file.read(got, 0, 0), 0);
  EXPECT_EQ(file.read(got, 10, contents.size()), 0);
  EXPECT_EQ(file.read(got, 10, contents.size() - 1), 1);
  EXPECT_EQ(got, contents.substr(contents.size() - 1));
  EXPECT_EQ(file.read(got, 10, ~std::uint64_t{0}), 0);
  EXPECT_EQ(file.read(got, 10, ~std::uint64_t{0} >> 1), 0);
  ASSERT_EQ(file.read(got, 1 << 20, 1), static_cast<std::int64_t>(contents.size()) - 1);
  EXPECT_TRUE(same_bytes(got, contents.substr(1)));
}

TEST(Serving, ManyFilesInASmallCache) {
  DaemonRig rig(1 << 20);  // 16 pages
  ferry::test::Random random;
  std::vector<std::string> contents;
  std::vector<std::unique_ptr<OfferedFile>> files;
  for (int i = 0; i < 5; ++i) {
    contents.push_back(pattern(1'000'000, random.bits()));
    files.push_back(std::make_unique<OfferedFile>(
        rig.client, rig.file("data" + std::to_string(i), contents.back())));
    ASSERT_EQ(files.back()->error(), 0);
  }
  ferry::test::at_once("readers of a small cache", 3, random, [&](std::uint32_t, auto& own) {
    std::string got;
    for (std::uint64_t i = 0; i < ferry::test::scaled(3000); ++i) {
      const std::uint64_t which = own.below(files.size());
      const std::uint64_t offset = own.below(contents[which].size());
      const std::string wanted = contents[which].substr(offset, own.below(5000));
      const std::int64_t n = files[which]->try_read(got, wanted.size(), offset);
      if (n == Client::missed) continue;
      ASSERT_EQ(n, static_cast<std::int64_t>(wanted.size()));
      ASSERT_TRUE(same_bytes(got, wanted));
    }
  });
}

TEST(Serving, WhatIsNotServed) {
  DaemonRig rig;
  const auto offer = [&](const Descriptor& descriptor) {
    EXPECT_GE(descriptor, 0);
    ferry::daemon::ServedFile file;
    return rig.client.offer(descriptor, file);
  };
  const std::string path = rig.file("data", "some bytes");
  EXPECT_EQ(offer(Descriptor(open(path.c_str(), O_RDWR))), EOPNOTSUPP);
  EXPECT_EQ(offer(Descriptor(open(path.c_str(), O_WRONLY))), EOPNOTSUPP);
  EXPECT_EQ(offer(Descriptor(open(path.c_str(), O_PATH))), EOPNOTSUPP);
  EXPECT_EQ(offer(Descriptor(open(rig.file("empty", "").c_str(), O_RDONLY))), ENODATA);
  EXPECT_EQ(offer(Descriptor(open("/", O_RDONLY))), EOPNOTSUPP);
  EXPECT_EQ(offer(Descriptor(open("/dev/zero", O_RDONLY))), EOPNOTSUPP);
  EXPECT_EQ(offer(Descriptor(open("/proc/self/stat", O_RDONLY))), EOPNOTSUPP);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor writing(ends[1]);
  EXPECT_EQ(offer(Descriptor(ends[0])), EOPNOTSUPP);
  ferry::daemon::ServedFile file;
  EXPECT_EQ(rig.client.offer(-1, file), EBADF);
  {
    const Descriptor writer(open(path.c_str(), O_RDWR));
    EXPECT_EQ(offer(Descriptor(open(path.c_str(), O_RDONLY))), EBUSY);
  }
  EXPECT_EQ(offer(Descriptor(open(path.c_str(), O_RDONLY))), 0);
}

TEST(Serving, AMappingThatWritesKeepsItFromBeingServed) {
  DaemonRig rig;
  const std::string path = rig.file("data", pattern(8192, 1));
  void* mapped = nullptr;
  {
    const Descriptor writer(open(path.c_str(), O_RDWR));
    mapped = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    ASSERT_NE(mapped, MAP_FAILED);
  }
  OfferedFile file(rig.client, path);
  EXPECT_EQ(file.error(), EBUSY);
  munmap(mapped, 8192);
  EXPECT_EQ(file.offer(), 0);
}

TEST(Serving, ADeletedFileIsTheKernelsAgain) {
  DaemonRig rig;
  const std::string contents = pattern(100'000, 3);
  const std::string path = rig.file("data", contents);
  OfferedFile file(rig.client, path);
  std::string got;
  ASSERT_EQ(file.read(got, 100'000, 0), 100'000);
  ASSERT_EQ(unlink(path.c_str()), 0);
  OfferedFile other(rig.client, rig.file("data", pattern(100'000, 4)));
  ASSERT_EQ(other.error(), 0);
  ASSERT_EQ(other.read(got, 100'000, 0), 100'000);
  EXPECT_TRUE(same_bytes(got, pattern(100'000, 4)));
  EXPECT_TRUE(eventually([&] {
    const std::int64_t n = file.try_read(got, 100'000, 0);
    EXPECT_TRUE(n == Client::gone || got == contents);
    return n == Client::gone;
  }));
  EXPECT_EQ(file.offer(), ESTALE);
}

TEST(Serving, WithoutReadersNoFileIsOpenAndPagesStay) {
  DaemonRig rig;
  const std::string contents = pattern(300'000, 3);
  const std::string path = rig.file("data", contents);
  ASSERT_EQ(ferry::test::in_a_child([&] {
              OfferedFile file(rig.client, path);
              std::string got;
              return file.read(got, contents.size(), 0) == 300'000 ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(eventually([&] { return status_of(rig.socket()).files == 0; }));
  EXPECT_GT(status_of(rig.socket()).fills, 0U);
  EXPECT_GT(status_of(rig.socket()).cached_bytes, contents.size());
}

TEST(Serving, ServesNothingWithoutADaemon) {
  ferry::test::ScratchDirectory folder;
  Client nobody((folder / "ferryd.sock").c_str());
  Client nowhere("");
  Client too_long(std::string(300, 'x').c_str());
  for (Client* client : {&nobody, &nowhere, &too_long}) {
    const Descriptor descriptor(open("/etc/os-release", O_RDONLY));
    ferry::daemon::ServedFile file;
    EXPECT_NE(client->offer(descriptor, file), 0);
    char byte = 'x';
    EXPECT_EQ(client->pread(file, &byte, 1, 0), Client::gone);
    EXPECT_EQ(byte, 'x');
  }
}

TEST(Serving, WhatWasNeverServedIsGone) {
  DaemonRig rig;
  OfferedFile file(rig.client, rig.file("data", "contents"));
  ASSERT_EQ(file.error(), 0);
  char byte = 'x';
  EXPECT_EQ(rig.client.pread(ferry::daemon::ServedFile{}, &byte, 1, 0), Client::gone);
  EXPECT_EQ(rig.client.pread({1, 0, 0}, &byte, 1, 1 << 20), Client::gone);
  EXPECT_EQ(byte, 'x');
}

TEST(Serving, MoreFilesThanEntries) {
  DaemonRig rig(1 << 20);
  OfferedFile first(rig.client, rig.file("first", pattern(5000, 1)));
  ASSERT_EQ(first.error(), 0);
  std::string got;
  ASSERT_EQ(first.read(got, 5000, 0), 5000);
  for (std::uint32_t i = 0; i < ferry::daemon::files_max; ++i) {
    const std::string path = rig.file("file" + std::to_string(i), "x" + std::to_string(i));
    OfferedFile file(rig.client, path);
    ASSERT_EQ(file.error(), 0) << i;
    ASSERT_EQ(file.read(got, 100, 0), static_cast<std::int64_t>(1 + std::to_string(i).size()));
    EXPECT_EQ(got, "x" + std::to_string(i));
  }
  EXPECT_EQ(first.try_read(got, 5000, 0), Client::gone);
  EXPECT_EQ(first.offer(), 0);
  EXPECT_EQ(first.read(got, 5000, 0), 5000);
  EXPECT_EQ(status_of(rig.socket()).files, ferry::daemon::files_max);
}

// Otherwise a program that goes round them would have one opened for every third read.
TEST(Serving, FilesThatWereOfferedAMomentAgoStay) {
  DaemonRig rig(1 << 20, std::chrono::hours(1));
  OfferedFile first(rig.client, rig.file("first", pattern(5000, 1)));
  ASSERT_EQ(first.error(), 0);
  for (std::uint32_t i = 1; i < ferry::daemon::files_max; ++i)
    ASSERT_EQ(OfferedFile(rig.client, rig.file("file" + std::to_string(i), "x")).error(), 0) << i;
  OfferedFile more(rig.client, rig.file("more", "x"));
  EXPECT_EQ(more.error(), ENFILE);
  std::string got;
  EXPECT_EQ(first.read(got, 5000, 0), 5000);
  ASSERT_EQ(unlink((rig.file("file1", "")).c_str()), 0);
  EXPECT_TRUE(eventually([&] { return more.offer() == 0; }));
}

TEST(Serving, EndsWhenItsSocketHasLostItsName) {
  DaemonRig rig;
  OfferedFile file(rig.client, rig.file("data", "contents"));
  ASSERT_EQ(file.error(), 0);
  EXPECT_FALSE(rig.has_ended());
  ASSERT_EQ(unlink(rig.socket().c_str()), 0);
  EXPECT_TRUE(eventually([&] { return rig.has_ended(); }));
}

// Another process may have stored anything into the memory that all of them share.
TEST(Serving, GarbageInTheSharedTableHarmsNoReader) {
  DaemonRig rig;
  OfferedFile file(rig.client, rig.file("data", pattern(100'000, 1)));
  ASSERT_EQ(file.error(), 0);
  std::string read;
  ASSERT_EQ(file.read(read, 1000, 0), 1000);
  const Descriptor socket(ferry::daemon::connect_to(rig.socket().c_str(), 10'000));
  ferry::daemon::DaemonRequest request;
  request.kind = ferry::daemon::RequestKind::attach;
  ferry::daemon::DaemonAnswer answer;
  int received = -1;
  ASSERT_EQ(ferry::daemon::exchange(socket, request, -1, answer, received), 0);
  const Descriptor memory(received);
  // ferryd itself uses the table as well.
  rig.end();
  const ferry::device::cache::CacheLayout& layout = answer.memory.layout;
  void* mapped = mmap(nullptr, answer.memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ferry::device::cache::View view;
  view.layout = layout;
  view.base = static_cast<unsigned char*>(mapped) + answer.memory.cache;
  for (std::uint32_t bucket = 0; bucket <= layout.bucket_mask; ++bucket)
    for (std::uint64_t& entry : view.bucket(bucket).entries)
      entry = 0;
  namespace cache = ferry::device::cache;
  const std::uint64_t key = cache::key_of(file.served().inode, 0);
  cache::PageTable(view).insert(cache::hash_of(key), key, cache::frames_max - 1);
  EXPECT_EQ(file.try_read(read, 1000, 0), Client::gone);
  munmap(mapped, answer.memory.bytes);
}

TEST(Serving, DescriptorsThatNobodyAskedForAreClosed) {
  constexpr int messages = 20;
  DaemonRig rig;
  status_of(rig.socket());
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_descriptors();
  ferry::daemon::DaemonRequest request;
  iovec piece{&request, sizeof request};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  cmsghdr* control = CMSG_FIRSTHDR(&header);
  *control = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  const std::array<int, 2> both{STDIN_FILENO, STDERR_FILENO};
  std::memcpy(CMSG_DATA(control), both.data(), sizeof both);
  for (int i = 0; i < messages; ++i) {
    const Descriptor socket(ferry::daemon::connect_to(rig.socket().c_str(), 10'000));
    ASSERT_EQ(sendmsg(socket, &header, 0), static_cast<ssize_t>(sizeof request));
    ferry::daemon::DaemonAnswer answer;
    int received = -1;
    ASSERT_EQ(ferry::receive_message(socket, &answer, sizeof answer, received), 0);
    EXPECT_EQ(answer.error, 0);
  }
  // ferryd may still have had the first connection open, and be closing the last.
  EXPECT_TRUE(eventually([&] { return open_descriptors() < before + messages / 2; }));
}

TEST(Serving, ADescriptorThatFindsNoRoomIsAnError) {
  DaemonRig rig;
  const Descriptor file(open(rig.file("data", "contents").c_str(), O_PATH));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  ferry::daemon::DaemonRequest request;
  request.kind = ferry::daemon::RequestKind::offer;
  ferry::daemon::DaemonAnswer answer;
  const auto offer = [&](bool is_limited) {
    rlimit limit = before;
    if (is_limited) {  // two sockets fit
      const Descriptor first(dup(file));
      const Descriptor second(dup(file));
      limit.rlim_cur = static_cast<rlim_t>(second) + 1;
    }
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const Descriptor socket(ferry::daemon::connect_to(rig.socket().c_str(), 1000));
    int received = -1;
    const int error =
        socket < 0 ? ENOTCONN : ferry::daemon::exchange(socket, request, file, answer, received);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_NE(error, EBADF) << "as if no descriptor had been sent";
    return error;
  };
  // ferryd hangs up on who is slow, and may still have another socket open.
  EXPECT_TRUE(eventually([&] { return offer(true) == EMFILE; }));
  EXPECT_TRUE(eventually([&] { return offer(false) == 0; }));
}

TEST(Serving, AChildAttachesItself) {
  DaemonRig rig;
  const std::string contents = pattern(200'000, 5);
  OfferedFile file(rig.client, rig.file("data", contents));
  std::string got;
  ASSERT_EQ(file.read(got, contents.size(), 0), 200'000);
  EXPECT_EQ(ferry::test::in_a_child([&] {
              if (file.try_read(got, 100, 0) != Client::gone) return 1;
              if (file.offer() != 0) return 2;
              if (file.read(got, contents.size(), 0) != 200'000) return 3;
              return got == contents ? 0 : 4;
            }),
            0);
  ASSERT_EQ(file.try_read(got, contents.size(), 0), 200'000);
  EXPECT_TRUE(eventually([&] { return status_of(rig.socket()).clients == 1; }));
}

TEST(Serving, ThreadsBeyondThePlacesMakeTheirOwnCalls) {
  DaemonRig rig;
  const std::string contents = pattern(4096, 6);
  OfferedFile file(rig.client, rig.file("data", contents));
  std::string first;
  ASSERT_EQ(file.read(first, 4096, 0), 4096);
  // All hold their place until every other has asked for one.
  constexpr std::uint32_t threads = 80;
  std::atomic<std::uint32_t> here{0};
  std::atomic<std::uint32_t> served{0};
  ferry::test::at_once("many threads", threads, [&](std::uint32_t) {
    std::string got;
    const std::int64_t n = file.try_read(got, 4096, 0);
    if (n == 4096 && got == contents) ++served;
    ASSERT_TRUE(n == 4096 || n == Client::missed);
    ++here;
    ASSERT_TRUE(eventually([&] { return here.load() == threads; }));
  });
  EXPECT_GT(served.load(), 0U);
  // Their places are free again.
  served = 0;
  ferry::test::at_once("a few more", 4, [&](std::uint32_t) {
    std::string got;
    if (file.try_read(got, 4096, 0) == 4096) ++served;
  });
  EXPECT_EQ(served.load(), 4U);
}

}  // namespace
