// A page cache over in-memory files, and the calls of its tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/cache/page_cache.hpp>

#include "support/files.hpp"
#include "support/hooks.hpp"
#include "support/memory_io.hpp"

namespace ferry::test {

constexpr std::uint32_t page = 4096;

class PageCacheTest : public testing::Test {
 protected:
  using Cache = device::cache::PageCache<MemoryFiles>;
  using Piece = device::cache::Piece;
  using State = device::cache::State;

  void make(std::uint32_t frames, std::uint32_t files, std::uint32_t groups,
            device::cache::Switches switches = {}) {
    caches.clear();
    memory = std::make_unique<TestCache>(page, frames, files, groups, switches);
    storage = std::make_unique<MemoryFiles>(files);
    for (std::uint32_t group = 0; group < groups; ++group)
      caches.push_back(std::make_unique<Cache>(memory->view(), hooks, *storage, group));
    for (std::uint32_t file = 0; file < files; ++file)
      memory->view().inode(file).write_handle = static_cast<int>(file) + 1;
  }
  // A cache, and a file of this many pages. Returns what it holds.
  std::string make_file(std::uint32_t frames, std::size_t pages, std::uint32_t groups = 1,
                        device::cache::Switches switches = {}) {
    make(frames, 1, groups, switches);
    std::string data = pattern(pages * page, 1);
    put(0, data);
    return data;
  }
  void put(std::uint32_t file, const std::string& data) {
    storage->set_contents(static_cast<int>(file) + 1, data);
    memory->view().inode(file).size_bytes = data.size();
  }
  std::int64_t write(std::uint32_t file, const std::string& data, std::size_t offset,
                     std::uint32_t group = 0) {
    storage->announce(static_cast<int>(file) + 1, offset, data.size());
    return caches[group]->write(file, data.data(), data.size(), offset);
  }
  std::string read(std::uint32_t file, std::size_t offset, std::size_t bytes,
                   std::uint32_t group = 0) {
    std::string data(bytes, '?');
    const std::int64_t got =
        caches[group]->read(file, static_cast<int>(file) + 1, data.data(), bytes, offset);
    if (got < 0) return "error " + std::to_string(got);
    data.resize(static_cast<std::size_t>(got));
    return data;
  }
  void truncate(std::uint32_t file, std::size_t size) {
    Cache& cache = *caches[0];
    cache.begin_outside(file);
    ASSERT_EQ(cache.flush(file), 0);
    storage->cut(static_cast<int>(file) + 1, size);
    cache.resize(file, size);
    cache.end_outside(file);
  }
  void outside_write(std::uint32_t file, const std::string& data, std::size_t offset,
                     std::uint32_t group = 0) {
    const int handle = static_cast<int>(file) + 1;
    storage->announce(handle, offset, data.size());
    Cache& cache = *caches[group];
    cache.begin_outside(file);
    ASSERT_EQ(cache.flush(file), 0);
    const Piece piece{reinterpret_cast<unsigned char*>(const_cast<char*>(data.data())),
                      data.size()};
    ASSERT_EQ(storage->write(handle, &piece, 1, static_cast<std::int64_t>(offset)),
              static_cast<std::int64_t>(data.size()));
    cache.update(file, data.data(), data.size(), offset);
    cache.end_outside(file);
  }
  // Every frame is unpinned, nothing is in flight, and the table holds each page once.
  void expect_calm() {
    caches[0]->settle();
    const device::cache::View& view = memory->view();
    std::map<std::uint64_t, int> pages;
    for (std::uint32_t frame = 0; frame < view.layout.geometry.frames; ++frame) {
      const std::uint64_t state = view.frame(frame).state;
      EXPECT_EQ(state & (State::pins | State::writers | State::filling | State::writing), 0U)
          << "frame " << frame;
      if ((state & (State::taken | State::orphan)) != 0) continue;
      EXPECT_EQ(++pages[view.frame(frame).key], 1) << "a page is there twice";
      EXPECT_EQ((state & State::dirty) != 0, view.frame(frame).range_count > 0);
      EXPECT_EQ(view.frame(frame).taken_count, 0U);
    }
    std::uint64_t entries = 0;
    std::uint64_t overflow = 0;
    for (std::uint64_t i = 0; i <= view.layout.bucket_mask; ++i) {
      for (const std::uint64_t entry : view.bucket(i).entries)
        entries += entry != 0 ? 1 : 0;
      overflow += view.bucket(i).overflow;
    }
    EXPECT_EQ(entries, pages.size());
    if (pages.empty()) {
      EXPECT_EQ(overflow, 0U);
    }
  }

  device::HostHooks hooks = cpu::host_hooks();
  std::unique_ptr<TestCache> memory;
  std::unique_ptr<MemoryFiles> storage;
  std::vector<std::unique_ptr<Cache>> caches;
};

// Tests of one file.
class OneFileTest : public PageCacheTest {
 protected:
  void make_file(std::uint32_t frames, std::size_t pages, std::uint32_t groups = 1,
                 device::cache::Switches switches = {}) {
    data = PageCacheTest::make_file(frames, pages, groups, switches);
  }
  void expect_read(std::size_t offset, std::size_t bytes, std::uint32_t group = 0) {
    ASSERT_TRUE(same_bytes(read(0, offset, bytes, group), data.substr(offset, bytes)))
        << "at " << offset;
  }
  std::string data;
};

}  // namespace ferry::test
