// A program that makes every bulk call and checks each result against what the files may hold when
// one call has failed.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "faults/faulty_work.hpp"
#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry::test {

// Each range of a file is written once: it holds the old bytes, the new ones or some of each.
class BulkProgram : FaultyWork {
 public:
  static constexpr std::uint64_t part_bytes = 136 << 10;  // more than a caller moves by itself
  static constexpr std::uint64_t file_bytes = 4 * part_bytes;

  using IsExpected = std::function<bool(int error)>;

  // The name in calls of a file of this machine.
  using NameOf = std::function<std::string(const std::string& path)>;

  BulkProgram(const bulk::Engine& engine, const ScratchDirectory& scratch, const NthPoint& point,
              IsExpected is_expected, NameOf name_of = std::identity())
      : FaultyWork(point, std::move(is_expected)),
        engine_(engine),
        scratch_(scratch),
        name_of_(std::move(name_of)) {}

  void run() {
    // Of the last run; what failed in it may have come later.
    for (const char* name : {"file", "other", "renamed", "folder"})
      std::filesystem::remove(scratch_ / name);
    const std::string path = scratch_ / "file";
    write_file(path, old_bytes());
    write_file(scratch_ / "other", old_bytes().substr(0, 1000));
    attempt("work on a file", [&] {
      bulk::File file(engine_, name_of_(path), O_RDWR);
      transfer(file);
      change(file);
      attempt("close", [&] { file.close(); });
    });
    look_at_file("after the close");
    append();
    use_names();
  }

 private:
  static const std::string& old_bytes() {
    static const std::string bytes = pattern(file_bytes, 1);
    return bytes;
  }
  static const std::string& new_bytes() {
    static const std::string bytes = pattern(file_bytes, 2);
    return bytes;
  }
  // Part i of the file is certainly new.
  bool is_new(std::size_t part) const { return certain_[part]; }

  // Whole parts, from the start of the file.
  void expect_legal(const char* what, std::string_view got) const {
    for (std::size_t at = 0; at < got.size(); at += part_bytes) {
      const std::size_t part = at / part_bytes;
      const std::string_view mine = got.substr(at, part_bytes);
      const std::string_view old_part = std::string_view(old_bytes()).substr(at, part_bytes);
      const std::string_view new_part = std::string_view(new_bytes()).substr(at, part_bytes);
      if ((!is_new(part) && mine == old_part) || (written_[part] && mine == new_part)) continue;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if ((!is_new(part) && mine[i] == old_part[i]) || (written_[part] && mine[i] == new_part[i]))
          continue;
        ADD_FAILURE() << what << ": byte " << at + i << " is foreign, or older than it may be";
        return;
      }
    }
  }
  void look_at_file(const char* what) const {
    const std::string got = read_file(scratch_ / "file");
    EXPECT_EQ(got.size(), file_bytes) << what;
    if (got.size() == file_bytes) expect_legal(what, got);
  }

  void write(std::size_t part, const std::function<void(const char* from, std::uint64_t at)>& how) {
    written_[part] = true;
    const std::uint64_t at = part * part_bytes;
    certain_[part] = attempt("write", [&] { how(new_bytes().data() + at, at); });
  }

  void transfer(const bulk::File& file) {
    std::string got(file_bytes, '?');
    if (attempt("read_at", [&] { file.read_at(got.data(), part_bytes, 0); }))
      expect_legal("read_at", std::string_view(got).substr(0, part_bytes));
    write(0, [&](const char* from, std::uint64_t at) { file.write_at(from, part_bytes, at); });
    write(1, [&](const char* from, std::uint64_t at) {
      file.write_at_async(from, part_bytes, at).get();
    });
    write(2, [&](const char* from, std::uint64_t at) {
      // Small ones, and one that is not aligned.
      constexpr std::uint64_t third = part_bytes / 3;
      std::vector<bulk::Part> parts;
      for (std::uint64_t i = 0; i < 3; ++i)
        parts.push_back({&file, const_cast<char*>(from) + i * third,
                         i < 2 ? third : part_bytes - 2 * third, at + i * third});
      engine_.write(parts).get();
    });
    const auto read_parts = [&] {
      std::vector<bulk::Part> parts;
      for (std::uint64_t i = 0; i < 4; ++i)
        parts.push_back({&file, got.data() + i * part_bytes, part_bytes, i * part_bytes});
      const bulk::Future all = engine_.read(parts);
      bool called = false;
      all.wait();
      all.then([&] { called = true; });
      EXPECT_TRUE(called);
      all.get();
    };
    if (attempt("read", read_parts)) expect_legal("read", got);
    if (attempt("read_at_async", [&] { file.read_at_async(got.data(), file_bytes, 0).get(); }))
      expect_legal("read_at_async", got);
  }
  void change(const bulk::File& file) {
    if (attempt("sync", [&] { file.sync(); })) look_at_file("after a sync");
    attempt("size", [&] { EXPECT_EQ(file.size(), file_bytes); });
    const bool grows = attempt("truncate", [&] { file.truncate(file_bytes + 4096); });
    attempt("status", [&] {
      const std::uint64_t size = file.status().size_bytes;
      EXPECT_TRUE(size == file_bytes + 4096 || (!grows && size == file_bytes)) << size;
    });
    // A change that failed may come later, and refuses others until then.
    EXPECT_TRUE(
        eventually([&] { return attempt("truncate", [&] { file.truncate(file_bytes); }); }));
  }
  void append() const {
    const std::string path = scratch_ / "other";
    std::uint64_t end = 0;
    attempt("append", [&] {
      const bulk::File file(engine_, name_of_(path), O_WRONLY | O_APPEND);
      end = file.append(new_bytes().data(), 5000);
    });
    const std::string got = read_file(path);
    EXPECT_TRUE(same_bytes(got.substr(0, 1000), old_bytes().substr(0, 1000)));
    EXPECT_TRUE(same_bytes(got.substr(1000),
                           new_bytes().substr(0, std::min<std::size_t>(got.size() - 1000, 5000))));
    if (end != 0) {
      EXPECT_EQ(end, 6000U);
      EXPECT_EQ(got.size(), 6000U);
    }
  }
  void use_names() const {
    const std::string other = scratch_ / "other";
    const auto named = [&](const char* name) { return name_of_(scratch_ / name); };
    attempt("status", [&] { EXPECT_EQ(engine_.status(named("file")).size_bytes, file_bytes); });
    attempt("list", [&] { EXPECT_EQ(engine_.list(name_of_(scratch_.path())).size(), 2U); });
    read_whole_files();
    attempt("make_directory", [&] { engine_.make_directory(named("folder")); });
    if (std::filesystem::exists(scratch_ / "folder"))
      attempt("remove_directory", [&] { engine_.remove_directory(named("folder")); });
    attempt("explain", [&] { EXPECT_EQ(engine_.explain(named("file")).file_bytes, file_bytes); });
    const bool is_renamed =
        attempt("rename", [&] { engine_.rename(named("other"), named("renamed")); });
    // One that failed may come later, at any time.
    EXPECT_TRUE((!is_renamed && std::filesystem::exists(other)) ||
                std::filesystem::exists(scratch_ / "renamed"));
    if (is_renamed) attempt("unlink", [&] { engine_.unlink(named("renamed")); });
  }
  void read_whole_files() const {
    const std::vector<std::string> paths = {scratch_ / "other", scratch_ / "file"};
    attempt("read_files", [&] {
      std::vector<std::string> names;
      std::vector<std::string> before;
      for (const std::string& path : paths) {
        names.push_back(name_of_(path));
        before.push_back(read_file(path));
      }
      const std::vector<bulk::Contents> all = engine_.read_files(names);
      ASSERT_EQ(all.size(), paths.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bulk::Contents& one = all[i];
        if (one.error_number != 0) {
          expect(one.error_number);
          continue;
        }
        // A change that failed may come meanwhile.
        const std::string_view got(reinterpret_cast<const char*>(one.data), one.bytes);
        EXPECT_TRUE(got == before[i] || same_bytes(got, read_file(paths[i])));
      }
    });
  }

  const bulk::Engine& engine_;
  const ScratchDirectory& scratch_;
  const NameOf name_of_;
  std::array<bool, 4> written_{};
  std::array<bool, 4> certain_{};
};

// Runs the program on an engine that `make()` returns. `is_expected(error)`: the fault's own error.
template <class Make>
void run_engine(const Make& make, const ScratchDirectory& scratch, const NthPoint& point,
                const BulkProgram::IsExpected& is_expected,
                const BulkProgram::NameOf& name_of = std::identity()) {
  const PointsHere counts(true);
  try {
    const bulk::Engine engine = make();
    const PointsHere not_here(false);
    BulkProgram(engine, scratch, point, is_expected, name_of).run();
  } catch (const Error& error) {
    EXPECT_TRUE(point.struck()) << "without a fault: " << error.what();
    EXPECT_TRUE(is_expected(error.code().value())) << error.what();
  } catch (const std::bad_alloc&) {
    EXPECT_TRUE(point.struck() && is_expected(ENOMEM)) << "no memory";
  }
}

inline void run_engine(bulk::Route route, const ScratchDirectory& scratch, const NthPoint& point,
                       const BulkProgram::IsExpected& is_expected) {
  const auto make = [&] {
    return bulk::Engine({.workers = 2, .depth = 2, .task_bytes = 64 << 10, .route = route});
  };
  run_engine(make, scratch, point, is_expected);
}

inline std::string name_of_route(const testing::TestParamInfo<bulk::Route>& test) {
  constexpr const char* names[] = {"Automatic", "Buffered", "Direct"};
  return names[static_cast<std::size_t>(test.param)];
}

}  // namespace ferry::test
