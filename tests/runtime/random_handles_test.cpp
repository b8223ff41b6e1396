// Random calls through up to eight handles with mixed flags on four files on two storages, one of
// which fails, compared with a model of every file; beside a second process that writes, maps, cuts
// and replaces the files closed here. Covers two handles of one file, changing names, offsets up to
// 2^63, and pages with more written ranges than fit.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/other_process.hpp"
#include "support/server_rig.hpp"
#include "support/sparse_file.hpp"
#include "support/two_storages.hpp"

namespace ferry::random_handles_test {
namespace {

using device::Placement;
using test::OtherProcess;
using test::Random;

constexpr std::uint32_t page = 4096;
constexpr std::uint64_t offset_max = std::numeric_limits<std::int64_t>::max();
// The host transfers what is beyond: it must not be confused with other pages.
constexpr std::uint64_t cacheable_end = std::uint64_t{page} * device::cache::pages_max;
constexpr std::uint64_t near_end = 64 * 1024;  // most calls stay below this offset
constexpr std::size_t handles_max = 8;

// A file, under any name or none.
struct Node {
  test::SparseFile contents;
  bool fails = false;  // on the failing storage
  int handles = 0;     // open here
  int mapping = -1;    // the other process's, or none
  std::uint64_t mapped_bytes = 0;
  bool long_write = false;  // the other process's, in flight
};

struct Name {
  std::string path;
  std::shared_ptr<Node> node;  // null: there is no such file
  bool fails = false;
};

struct Handle {
  int file = 0;
  int flags = 0;
  std::shared_ptr<Node> node;
  std::size_t name = 0;  // it was opened by

  bool reads() const { return (flags & O_ACCMODE) != O_WRONLY; }
  bool writes() const { return (flags & O_ACCMODE) != O_RDONLY; }
  bool appends() const { return (flags & O_APPEND) != 0; }
  // Whether it can write back what other handles wrote.
  bool writes_back() const { return writes() && (flags & (O_APPEND | O_DSYNC)) == 0; }
};

class RandomHandles : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (access(GetParam(), W_OK) != 0) GTEST_SKIP() << GetParam() << " is not there";
    other = std::make_unique<OtherProcess>();  // while this process has no threads
    directory = std::make_unique<test::ScratchDirectory>(GetParam());
    names = {Name{*directory / "one", nullptr, false}, Name{*directory / "two", nullptr, false},
             Name{"failing:one", nullptr, true}, Name{"failing:two", nullptr, true}};
  }
  void make(std::uint32_t pages) {
    auto both = std::make_unique<test::TwoStorages>(random.fork());
    failing = &both->failing();
    rig = std::make_unique<test::ServerRig>(test::small_geometry(1, 1), std::move(both));
    memory = rig->add_cache({page, pages, 16, 1, 4});
    files = std::make_unique<test::Calls>(rig->calls(0));
  }

  // ---- the run ---------------------------------------------------------------------------------

  void run(std::uint64_t steps) {
    // Watched in parts: the total time depends on their number.
    constexpr std::uint64_t part = 10'000;
    for (std::uint64_t done = 0; done < steps && !HasFailure(); done += part)
      test::within_patience("random calls", [&] { make_calls(std::min(part, steps - done)); });
    if (!HasFailure()) test::within_patience("the end of random calls", [&] { end(); });
  }

  void make_calls(std::uint64_t calls) {
    for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
      // This server executes no cached calls, so not `service`.
      files->use(random.one_in(2) ? Placement::compute
                                  : random.pick(std::array{Placement::host, Placement::automatic}));
      step();
    }
  }

  void end() {
    failing->faults.stop();
    while (!handles.empty())
      close_one();
    check_quiet();
    for (const Name& name : names)
      if (name.node != nullptr && !HasFailure()) compare(name, "in the end");
  }

  void step() {
    const std::uint64_t choice = random.below(1000);
    if (handles.empty() || (choice < 30 && handles.size() < handles_max)) return open_one();
    if (choice < 55) return close_one();
    if (choice < 85) return outside();
    if (choice < 100) return toggle_faults();
    Handle& handle = handles[random.below(handles.size())];
    if (choice < 480) return write(handle);
    if (choice < 860) return read(handle);
    if (choice < 885) return flush(handle);
    if (choice < 900) return sync(handle);
    if (choice < 910) return truncate(handle);
    if (choice < 930) return evict(handle);
    if (choice < 950) return status(handle);
    if (choice < 970) return hold(handle);
    if (choice < 980) return use_closed();
    const auto offset = static_cast<std::int64_t>(some_offset(handle));
    note("prefetch", handle, 0, 0);
    const int got = files->prefetch(handle.file, offset, random.below(5 * page));
    if (handle.reads()) expect_done(handle, got);
  }

  // ---- choosing --------------------------------------------------------------------------------

  bool far_offsets() const { return std::string(GetParam()) == "/dev/shm"; }
  std::uint64_t some_offset(const Handle& handle) {
    std::uint64_t offset = random.below(near_end);
    if (random.one_in(4)) offset = random.below(3 * page);  // many ranges in few pages
    if (random.one_in(8)) offset = offset / page * page;
    if (handle.node->fails || !random.one_in(12)) return offset;
    static constexpr std::array<std::uint64_t, 3> on_disk{1ULL << 31, 1ULL << 32, 1ULL << 43};
    static constexpr std::array<std::uint64_t, 5> in_memory{
        1ULL << 44, cacheable_end - near_end / 2, cacheable_end, 1ULL << 56,
        offset_max - 2 * near_end};
    return offset +
           (far_offsets() && random.one_in(2) ? random.pick(in_memory) : random.pick(on_disk));
  }
  std::uint64_t some_bytes() {
    if (random.one_in(200)) return 1 + random.below(300'000);
    if (random.one_in(10)) return 1 + random.below(5 * page);
    if (random.one_in(10)) return page;
    return 1 + random.below(400);
  }
  // Inside the arena, where it fits, or not.
  char* buffer(std::uint64_t bytes, std::string& outside) {
    if (bytes <= memory_bytes() && random.one_in(2)) return reinterpret_cast<char*>(memory);
    outside.assign(bytes, '?');
    return outside.data();
  }
  std::uint64_t memory_bytes() const {
    return static_cast<std::uint64_t>(rig->heap() + test::ServerRig::heap_bytes - memory);
  }

  // ---- what may be answered --------------------------------------------------------------------

  bool faulty(const Handle& handle, std::int64_t got) const {
    return handle.node->fails && got == -failing->faults.error;
  }
  bool may_be_short(const Handle& handle) const { return handle.node->fails; }
  void expect_done(const Handle& handle, std::int64_t got) {
    expect(got == 0 || faulty(handle, got), got, 0);
  }
  void expect(bool right, std::int64_t got, std::int64_t wanted) {
    if (!history.empty()) history.back() += " -> " + std::to_string(got);
    if (!right) fail(std::to_string(got) + " instead of " + std::to_string(wanted));
  }
  void fail(const std::string& what) {
    std::string text = what + ", after:";
    for (const std::string& one : history)
      text += "\n  " + one;
    ADD_FAILURE() << text;
  }
  void note(const char* what, const Handle& handle, std::uint64_t bytes, std::uint64_t offset) {
    note(std::string(what) + " handle " + std::to_string(handle.file) + " of " +
         names[handle.name].path + ": " + std::to_string(bytes) + " at " + std::to_string(offset));
  }
  void note(std::string text) {
    history.push_back(std::move(text));
    if (history.size() > 40) history.pop_front();
  }

  // ---- calls -----------------------------------------------------------------------------------

  void open_one() {
    const std::size_t number = random.below(names.size());
    Name& name = names[number];
    if (name.node != nullptr && name.node->long_write) end_long_write(name);
    Handle handle;
    handle.name = number;
    handle.flags = random.pick(std::array{O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_RDONLY});
    if (random.one_in(4)) handle.flags |= O_APPEND;
    if (random.one_in(8)) handle.flags |= random.one_in(2) ? O_SYNC : O_DSYNC;
    if (random.one_in(8)) handle.flags |= O_TRUNC;
    if (random.one_in(6)) handle.flags |= O_DIRECT;
    const bool creates = name.node == nullptr || random.one_in(4);
    if (creates) handle.flags |= O_CREAT;
    note("open " + name.path + " flags " + std::to_string(handle.flags));
    handle.file = files->open(name.path.c_str(), handle.flags, 0644);
    if (handle.file == -EINVAL) {  // no direct I/O there
      handle.flags &= ~O_DIRECT;
      handle.file = files->open(name.path.c_str(), handle.flags, 0644);
    }
    if (handle.file <= 0) return fail("open: " + std::to_string(handle.file));
    if (name.node == nullptr) {
      name.node = std::make_shared<Node>();
      name.node->fails = name.fails;
    }
    handle.node = name.node;
    ++handle.node->handles;
    if ((handle.flags & O_TRUNC) != 0) handle.node->contents.resize(0);
    handles.push_back(handle);
  }

  // Whether the node keeps a handle that can write dirty pages.
  bool can_still_write(const Node& node) const {
    return std::any_of(handles.begin(), handles.end(), [&](const Handle& one) {
      return one.node.get() == &node && one.writes_back();
    });
  }
  void close_one() {
    const std::size_t which = random.below(handles.size());
    const Handle handle = handles[which];
    const int got = close(which);
    expect_done(handle, got);
    const Name* name = name_of(*handle.node);
    // Unwritable data is lost with the last writable handle, whose close reports it.
    if (got != 0 && !can_still_write(*handle.node)) {
      if (name == nullptr) return close_all(*handle.node);  // its contents cannot be checked
      handle.node->contents = {};
      handle.node->contents.write(0, failing->contents(name->path));
    } else if (name != nullptr && handle.node->handles == 0) {
      compare(*name, "after the last close");
    }
  }
  int close(std::size_t which) {
    const Handle handle = handles[which];
    handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(which));
    --handle.node->handles;
    closed.push_back(handle.file);
    if (closed.size() > 16) closed.pop_front();
    note("close", handle, 0, 0);
    return files->close(handle.file);
  }
  void close_all(const Node& node) {
    for (std::size_t i = handles.size(); i-- > 0;)
      if (handles[i].node.get() == &node) close(i);
  }

  void write(Handle& handle) {
    const std::uint64_t bytes = some_bytes();
    const std::uint64_t offset = some_offset(handle);
    if (bytes > offset_max - offset) return;
    const std::string data = OtherProcess::data_of(random.bits(), bytes);
    std::string outside;
    char* from = buffer(bytes, outside);
    std::memcpy(from, data.data(), bytes);
    note(handle.appends() ? "append" : "write", handle, bytes, offset);
    const std::int64_t got =
        files->pwrite(handle.file, from, bytes, static_cast<std::int64_t>(offset));
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (!handle.writes()) return expect(got == -EBADF || faulty(handle, got), got, -EBADF);
    const std::uint64_t at = handle.appends() ? handle.node->contents.size() : offset;
    const bool refused = got == -EFBIG && bytes > offset_max - at;
    expect(got == wanted || refused || faulty(handle, got) ||
               (got > 0 && got < wanted && (may_be_short(handle) || bytes > offset_max - at)),
           got, wanted);
    if (got > 0)
      handle.node->contents.write(at,
                                  std::string_view(data).substr(0, static_cast<std::size_t>(got)));
  }

  void read(Handle& handle) {
    const std::uint64_t bytes = some_bytes();
    const std::uint64_t offset = some_offset(handle);
    if (bytes > offset_max - offset) return;
    std::string outside;
    char* to = buffer(bytes, outside);
    note("read", handle, bytes, offset);
    const std::int64_t got =
        files->pread(handle.file, to, bytes, static_cast<std::int64_t>(offset));
    if (!handle.reads()) return expect(got == -EBADF || faulty(handle, got), got, -EBADF);
    if (faulty(handle, got)) return;
    const std::string wanted = handle.node->contents.read(offset, bytes);
    const auto full = static_cast<std::int64_t>(wanted.size());
    expect(got == full || (got > 0 && got < full && may_be_short(handle)), got, full);
    if (got > 0) same(std::string_view(to, static_cast<std::size_t>(got)), wanted, offset);
  }
  void same(std::string_view got, std::string_view wanted, std::uint64_t offset) {
    wanted = wanted.substr(0, got.size());
    const auto where = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
    if (where.first == got.end()) return;
    fail("other bytes from " +
         std::to_string(offset + static_cast<std::uint64_t>(where.first - got.begin())) + " on");
  }

  void flush(Handle& handle) {
    note("flush", handle, 0, 0);
    expect_done(handle, files->flush(handle.file));
  }
  void sync(Handle& handle) {
    note("sync", handle, 0, 0);
    const int got = random.one_in(2) ? files->fsync(handle.file) : files->fdatasync(handle.file);
    expect_done(handle, got);
    const Name* name = name_of(*handle.node);
    if (got == 0 && name != nullptr) compare(*name, "after a sync");
  }
  void truncate(Handle& handle) {
    const std::uint64_t size = some_offset(handle);
    note("truncate", handle, 0, size);
    const int got = files->ftruncate(handle.file, static_cast<std::int64_t>(size));
    if (!handle.writes()) {
      return expect(got == -EINVAL || got == -EBADF || faulty(handle, got), got, -EINVAL);
    }
    expect_done(handle, got);
    if (got == 0) handle.node->contents.resize(size);
  }
  void evict(Handle& handle) {
    note("evict", handle, 0, 0);
    expect_done(handle, files->evict(handle.file));
  }
  void status(Handle& handle) {
    note("fstat", handle, 0, 0);
    device::FileStatus status{};
    const int got = files->fstat(handle.file, &status);
    expect(got == 0, got, 0);
    const std::uint64_t wanted = handle.node->contents.size();
    expect(status.size_bytes == wanted, static_cast<std::int64_t>(status.size_bytes),
           static_cast<std::int64_t>(wanted));
  }
  void hold(Handle& handle) {
    const std::uint64_t offset = some_offset(handle);
    note("hold", handle, 0, offset);
    device::cache::PinnedView view;
    const std::int64_t got =
        files->hold(handle.file, static_cast<std::int64_t>(offset), 1 + random.below(6000), view);
    if (got <= 0) {
      const bool ended = got == 0 && offset >= handle.node->contents.size();
      const bool refused = got == -EAGAIN || got == -EOPNOTSUPP || faulty(handle, got) ||
                           (got == -EBADF && !handle.reads());
      return expect(ended || refused, got, 1);
    }
    const auto bytes = static_cast<std::size_t>(got);
    same(std::string_view(reinterpret_cast<const char*>(view.data), bytes),
         handle.node->contents.read(offset, bytes), offset);
    files->release(view);
  }
  void use_closed() {
    if (closed.empty()) return;
    const int file = closed[random.below(closed.size())];
    char byte = 0;
    note("read closed handle " + std::to_string(file));
    const std::int64_t got = files->pread(file, &byte, 1, 0);
    expect(got == -EBADF, got, -EBADF);
  }
  void toggle_faults() {
    if (random.one_in(2)) {
      note("no faults");
      return failing->faults.stop();
    }
    note("faults");
    const auto seldom = [&] {
      return random.one_in(2) ? 0 : 1 + static_cast<unsigned>(random.below(12));
    };
    failing->faults.reads = seldom();
    failing->faults.writes = seldom();
    failing->faults.short_reads = seldom();
    failing->faults.short_writes = seldom();
    failing->faults.syncs = seldom();
    failing->faults.delays = seldom();
  }

  // ---- what happens outside --------------------------------------------------------------------

  const Name* name_of(const Node& node) const {
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const Name& name) { return name.node.get() == &node; });
    return found != names.end() ? &*found : nullptr;
  }
  void outside() {
    const std::size_t number = random.below(names.size());
    Name& name = names[number];
    if (name.node == nullptr) return;
    if (name.fails) return outside_failing(name);
    if (name.node->long_write) return end_long_write(name);
    if (random.one_in(5)) return change_name(name);
    // Other processes and this one are close-to-open: each has its turn.
    if (name.node->handles == 0) change(name);
  }
  void outside_failing(Name& name) {
    if (!random.one_in(4)) return;
    if (random.one_in(2)) {
      note("unlink " + name.path);
      expect(files->unlink(name.path.c_str()) == 0, -1, 0);
      name.node.reset();
      return;
    }
    Name& target = &name == &names[2] ? names[3] : names[2];
    note("rename " + name.path + " to " + target.path);
    failing->rename(name.path, target.path);
    target.node = std::move(name.node);
    name.node.reset();
  }
  void change_name(Name& name) {
    const std::uint64_t seed = random.bits();
    if (random.one_in(4)) {
      note("the other process unlinks " + name.path);
      expect_done(other->ask(OtherProcess::Command::unlink, name.path));
      name.node.reset();
      return;
    }
    const std::uint64_t bytes = random.below(near_end);
    note("the other process replaces " + name.path + " by " + std::to_string(bytes) + " bytes");
    expect_done(other->ask(OtherProcess::Command::replace, name.path, 0, bytes, seed));
    name.node = std::make_shared<Node>();
    name.node->contents.write(0, OtherProcess::data_of(seed, bytes));
  }
  void change(Name& name) {
    using Command = OtherProcess::Command;
    Node& node = *name.node;
    const std::uint64_t seed = random.bits();
    const std::uint64_t bytes = 1 + random.below(random.one_in(10) ? 2'000'000 : 9000);
    const std::uint64_t offset = random.below(near_end);
    const std::uint64_t choice = random.below(10);
    if (choice < 3) {
      note("the other process writes " + std::to_string(bytes) + " at " + std::to_string(offset));
      expect_done(other->ask(Command::write, name.path, offset, bytes, seed));
      node.contents.write(offset, OtherProcess::data_of(seed, bytes));
    } else if (choice < 5) {
      if (writes_long) return;  // another file
      // Not waited for: this process may open, read and close the file meanwhile.
      note("the other process begins to write " + std::to_string(bytes));
      expect_done(other->ask(Command::begin_long, name.path, offset, bytes, seed));
      node.contents.write(offset, OtherProcess::data_of(seed, bytes));
      node.long_write = writes_long = true;
      look_meanwhile(name);
    } else if (choice < 6) {
      if (node.contents.size() > offset_max - bytes) return;
      expect_done(other->ask(Command::append, name.path, 0, bytes, seed));
      node.contents.write(node.contents.size(), OtherProcess::data_of(seed, bytes));
    } else if (choice < 7) {
      expect_done(other->ask(Command::truncate, name.path, offset));
      node.contents.resize(offset);
    } else {
      store(name, seed);
    }
  }
  // Opens, reads and closes the file, whatever it holds.
  void look_meanwhile(const Name& name) {
    const int file = files->open(name.path.c_str(), O_RDONLY);
    if (file <= 0) return fail("open: " + std::to_string(file));
    std::string bytes(near_end, '\0');
    for (int i = 0; i < 3; ++i)
      files->pread(file, bytes.data(), bytes.size(), 0);
    const int closed_with = files->close(file);
    expect(closed_with == 0, closed_with, 0);
  }
  void end_long_write(Name& name) {
    note("the other process has written " + name.path);
    expect_done(other->ask(OtherProcess::Command::end_long, name.path));
    name.node->long_write = writes_long = false;
  }
  void store(Name& name, std::uint64_t seed) {
    using Command = OtherProcess::Command;
    Node& node = *name.node;
    if (node.mapping < 0) {
      const std::uint64_t bytes = std::min(node.contents.size(), near_end);
      if (bytes == 0 || mappings >= OtherProcess::mappings_max) return;
      note("the other process maps " + name.path);
      expect_done(other->ask(Command::map, name.path, 0, bytes, 0, mappings));
      node.mapping = mappings++;
      node.mapped_bytes = bytes;
    }
    // Truncations are allowed meanwhile; a store past the end of the file would be a SIGBUS.
    const std::uint64_t reach = std::min(node.mapped_bytes, node.contents.size());
    if (reach == 0) return;
    const std::uint64_t offset = random.below(reach);
    const std::uint64_t bytes = 1 + random.below(std::min<std::uint64_t>(reach - offset, 3000));
    note("the other process stores " + std::to_string(bytes) + " at " + std::to_string(offset) +
         " of " + name.path);
    expect_done(other->ask(Command::store, name.path, offset, bytes, seed, node.mapping));
    node.contents.write(offset, OtherProcess::data_of(seed, bytes));
  }
  void expect_done(int result) { expect(result == 0, result, 0); }

  // ---- comparing -------------------------------------------------------------------------------

  // What the storage has, with the model.
  void compare(const Name& name, const char* when) {
    if (name.node->long_write) return;
    note(std::string("compare ") + name.path + " " + when);
    if (name.fails) {
      const std::string there = failing->contents(name.path);
      expect(there.size() == name.node->contents.size(), static_cast<std::int64_t>(there.size()),
             static_cast<std::int64_t>(name.node->contents.size()));
      if (there.size() == name.node->contents.size())
        same(there, name.node->contents.read(0, there.size()), 0);
      return;
    }
    const test::Descriptor fd(::open(name.path.c_str(), O_RDONLY));
    const auto size = test::plain(lseek(fd, 0, SEEK_END));
    const auto wanted = static_cast<std::int64_t>(name.node->contents.size());
    expect(size == wanted, size, wanted);
    name.node->contents.each_block([&](std::uint64_t offset, std::string_view block) {
      if (HasFailure()) return;
      std::string there(block.size(), '?');
      const std::int64_t got =
          test::plain(::pread(fd, there.data(), there.size(), static_cast<off_t>(offset)));
      if (got != static_cast<std::int64_t>(block.size()))
        return fail("the storage has " + std::to_string(got) + " bytes at " +
                    std::to_string(offset));
      same(there, block, offset);
    });
  }
  // With every file closed no page is in use or dirty.
  void check_quiet() {
    using device::cache::State;
    const device::cache::View& cache = rig->arena.context().cache;
    EXPECT_EQ(cache.shared().dirty_pages, 0U);
    for (std::uint32_t i = 0; i < cache.layout.geometry.inodes; ++i)
      EXPECT_EQ(cache.inode(i).dirty_pages, 0U) << "file " << i;
    files->ping();
    for (std::uint32_t i = 0; i < cache.layout.geometry.frames; ++i) {
      const std::uint64_t state = cache.frame(i).state;
      EXPECT_EQ(state & (State::pins | State::writers | State::filling | State::writing), 0U)
          << "frame " << i;
    }
  }

  Random random;
  std::unique_ptr<OtherProcess> other;
  std::unique_ptr<test::ScratchDirectory> directory;
  std::vector<Name> names;
  test::FailingStorage* failing = nullptr;
  std::unique_ptr<test::ServerRig> rig;
  std::unique_ptr<test::Calls> files;
  unsigned char* memory = nullptr;
  std::vector<Handle> handles;
  std::deque<int> closed;
  std::deque<std::string> history;
  int mappings = 0;
  bool writes_long = false;
};

TEST_P(RandomHandles, SeeWhatWasWritten) {
  for (const std::uint32_t pages : {6U, 24U, 100U}) {
    make(pages);
    run(test::scaled(170'000));
    if (HasFailure()) return;
    files.reset();
    rig.reset();
    for (Name& name : names) {
      if (name.node != nullptr && name.node->long_write) end_long_write(name);
      if (name.fails) name.node.reset();  // gone with its storage
    }
    closed.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(OnDisk, RandomHandles, testing::Values("/tmp"));
INSTANTIATE_TEST_SUITE_P(InMemory, RandomHandles, testing::Values("/dev/shm"));

}  // namespace
}  // namespace ferry::random_handles_test
