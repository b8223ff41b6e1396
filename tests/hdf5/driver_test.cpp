// The driver as HDF5 calls it: by the functions of its class, on a mounted file, on a mock of
// PVFS2, and on real servers where the environment names them.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <ferry/bulk.hpp>

#include "hdf5/block_cache.hpp"
#include "hdf5/driver_interface.hpp"
#include "hdf5/pending_writes.hpp"
#include "support/client_mocks.hpp"
#include "support/depth.hpp"
#include "support/in_a_child.hpp"

extern "C" {
int H5PLget_plugin_type();
const void* H5PLget_plugin_info();
}

namespace {
std::string last_error;
}

// HDF5's, which the driver looks up.
extern "C" __attribute__((visibility("default"))) int H5Epush2(std::int64_t, const char*,
                                                               const char*, unsigned, std::int64_t,
                                                               std::int64_t, std::int64_t,
                                                               const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  last_error = va_arg(arguments, const char*);
  va_end(arguments);
  return std::strcmp(format, "%s") == 0 ? 0 : -1;
}

namespace {

struct SelectedRun {
  std::uint64_t offset;
  std::size_t bytes;
};

// Dataspaces by their identifiers, and the iterators over them.
struct Spaces {
  struct Iterator {
    std::int64_t space;
    std::size_t next = 0;
  };
  std::vector<std::vector<SelectedRun>> runs;
  std::vector<Iterator> iterators;
  std::size_t closed = 0;
  std::size_t runs_max = 1000;  // of one call
  std::size_t fails_at = 0;     // the call that does, from 1

  std::int64_t add(std::vector<SelectedRun> selected) {
    runs.push_back(std::move(selected));
    return static_cast<std::int64_t>(runs.size()) - 1;
  }
  bool fails() { return fails_at != 0 && --fails_at == 0; }
};
Spaces spaces;

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): as HDF5 has them
__attribute__((visibility("default"))) std::int64_t H5Ssel_iter_create(std::int64_t space,
                                                                       std::size_t, unsigned) {
  if (spaces.fails()) return -1;
  spaces.iterators.push_back({space});
  return static_cast<std::int64_t>(spaces.iterators.size()) - 1;
}

__attribute__((visibility("default"))) int H5Ssel_iter_get_seq_list(
    std::int64_t iterator, std::size_t sequences_max, std::size_t /*elements_max*/,
    std::size_t* sequences, std::size_t* /*elements*/, std::uint64_t* offsets, std::size_t* bytes) {
  if (spaces.fails()) return -1;
  Spaces::Iterator& at = spaces.iterators.at(static_cast<std::size_t>(iterator));
  const auto& runs = spaces.runs.at(static_cast<std::size_t>(at.space));
  *sequences = 0;
  while (*sequences < std::min(sequences_max, spaces.runs_max) && at.next < runs.size()) {
    offsets[*sequences] = runs[at.next].offset;
    bytes[(*sequences)++] = runs[at.next++].bytes;
  }
  return 0;
}

__attribute__((visibility("default"))) int H5Ssel_iter_close(std::int64_t /*iterator*/) {
  ++spaces.closed;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
}

namespace ferry::hdf5 {
namespace {

using test::ScratchDirectory;
using Bytes = std::vector<unsigned char>;

const DriverClass& driver() {
  return *static_cast<const DriverClass*>(H5PLget_plugin_info());
}

constexpr unsigned read_write = access_flag::read_write;
constexpr unsigned make_new = read_write | access_flag::create | access_flag::truncate;

// An open file, by the functions that HDF5 calls.
class Opened {
 public:
  explicit Opened(const std::string& name, unsigned flags = make_new)
      : file_(driver().open(name.c_str(), flags, 0, driver().address_max)) {}
  ~Opened() {
    if (file_ != nullptr) close();
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  bool is_open() const { return file_ != nullptr; }
  LibraryFile* get() const { return file_; }
  int close() { return driver().close(std::exchange(file_, nullptr)); }
  int read(Address at, void* data, std::size_t bytes) {
    if (!is_open()) return failed;
    return driver().read(file_, AllocationType::draw, 0, at, bytes, data);
  }
  int write(Address at, const void* data, std::size_t bytes) {
    if (!is_open()) return failed;
    return driver().write(file_, AllocationType::draw, 0, at, bytes, data);
  }
  int write(Address at, const std::string& text) { return write(at, text.data(), text.size()); }
  std::string read(Address at, std::size_t bytes) {
    std::string text(bytes, '?');
    return read(at, text.data(), bytes) == succeeded ? text : "failed";
  }
  int flush() { return is_open() ? driver().flush(file_, 0, false) : failed; }
  int truncate(Address bytes) {
    driver().set_end_of_allocation(file_, AllocationType::super, bytes);
    return driver().truncate(file_, 0, false);
  }
  Address end() { return driver().get_end_of_file(file_, AllocationType::super); }

 private:
  LibraryFile* file_;
};

// The parameter is "local", "mock", or a variable with the URI of a server's folder.
class Drivers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (kind == "local") {
      uri_ = scratch_ / "";
    } else if (kind == "mock") {
      mock_ = std::make_unique<test::Pvfs2Faults>();
      uri_ = table_.uri_of(scratch_ / "");
    } else {
      const char* server = std::getenv(GetParam());
      if (server == nullptr)
        GTEST_SKIP() << "absent: no server; ./test --stage storages starts one";
      uri_ = server;
      const std::size_t query = std::min(uri_.find('?'), uri_.size());
      if (uri_[query - 1] != '/') uri_.insert(query, "/");
    }
  }
  void TearDown() override {
    for (const std::string& name : names_)
      bulk::Engine::common().unlink(name);
  }

  // A file that goes with the test.
  std::string at(const std::string& name) {
    std::string full = uri_;
    full.insert(std::min(full.find('?'), full.size()), name + std::to_string(getpid()));
    names_.push_back(full);
    return full;
  }
  bool is_local() const { return std::string(GetParam()) == "local"; }

  ScratchDirectory scratch_;
  test::MockTable table_;
  std::unique_ptr<test::Pvfs2Faults> mock_;
  std::string uri_;
  std::vector<std::string> names_;
};

// What another program finds there.
Bytes contents(const std::string& name) {
  const bulk::File file(name);
  Bytes data(file.size());
  file.read_at(data.data(), data.size(), 0);
  return data;
}

constexpr std::size_t size_max = 12 << 20;

// Random calls beside a file in memory.
class RandomCalls {
 public:
  explicit RandomCalls(std::string name)
      : name_(std::move(name)), file_(std::make_unique<Opened>(name_)) {}

  void make_one() {
    switch (random_.below(18)) {
      case 0:
      case 1:
      case 2:
        return read(any_range());
      case 3:
        return read_on();
      case 4:
      case 5:
      case 6:
        return write(any_range());
      case 7:
      case 8:
        return read_vector();
      case 9:
      case 10:
        return write_vector();
      case 11:
        return truncate();
      case 12:
      case 13:
        return read_selections();
      case 14:
      case 15:
        return write_selections();
      case 16:
        EXPECT_EQ(file_->flush(), succeeded);
        if (random_.one_in(3)) check_contents();
        return;
      default:
        if (random_.one_in(4)) reopen();
    }
  }
  void check_contents() {
    EXPECT_EQ(file_->flush(), succeeded);
    ASSERT_TRUE(contents(name_) == expected_) << expected_.size();
  }

 private:
  struct Range {
    std::size_t offset;
    std::size_t bytes;
  };

  std::size_t any_size() {
    static constexpr std::size_t sizes[] = {1, 8, 512, 4096, 70'000, 300'000, 2 << 20, 5 << 20};
    return 1 + random_.below(random_.pick(sizes));
  }
  Range any_range() {
    const std::size_t bytes = any_size();
    const std::size_t near = random_.one_in(2) ? size_max : 200'000;
    return {random_.below(near - std::min(bytes, near - 1)), bytes};
  }
  Bytes any_bytes(std::size_t count) {
    Bytes bytes(count);
    const std::uint64_t first = random_.bits();
    for (std::size_t i = 0; i < count; ++i)
      bytes[i] = static_cast<unsigned char>(first + i * 7 + (i >> 8));
    return bytes;
  }
  void expect_at(const Range& range, const Bytes& found) {
    Bytes wanted(range.bytes);
    if (range.offset < expected_.size()) {
      std::memcpy(wanted.data(), expected_.data() + range.offset,
                  std::min(range.bytes, expected_.size() - range.offset));
    }
    ASSERT_TRUE(found == wanted) << range.bytes << " at " << range.offset;
  }
  void expect_written(const Range& range, const unsigned char* data) {
    expected_.resize(std::max(expected_.size(), range.offset + range.bytes));
    std::memcpy(expected_.data() + range.offset, data, range.bytes);
  }

  void read(const Range& range) {
    Bytes found(range.bytes, 0xee);
    ASSERT_EQ(file_->read(range.offset, found.data(), range.bytes), succeeded) << last_error;
    expect_at(range, found);
  }
  void read_on() {
    Range range{any_range().offset, 1 + random_.below(100'000)};
    for (int i = 0; i < 20; ++i) {
      read(range);
      range.offset += range.bytes + random_.below(3) * 100;
    }
  }
  void write(const Range& range) {
    const Bytes data = any_bytes(range.bytes);
    ASSERT_EQ(file_->write(range.offset, data.data(), range.bytes), succeeded) << last_error;
    expect_written(range, data.data());
    ASSERT_EQ(file_->end(), expected_.size());
  }
  // Strided, or anywhere. A zero in `bytes` stands for the size before it.
  std::vector<Range> any_ranges(std::vector<std::size_t>& bytes) {
    const std::size_t count = 1 + random_.below(100);
    const std::size_t same = 1 + random_.below(10'000);
    const std::size_t gap = random_.below(3) * random_.below(5000);
    const bool anywhere = random_.one_in(3);
    const std::size_t begin = random_.below(size_max / 2);
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < count; ++i) {
      ranges.push_back(anywhere ? any_range() : Range{begin + i * (same + gap), same});
      bytes.push_back(ranges[i].bytes);
    }
    if (anywhere) return ranges;
    if (random_.one_in(2)) std::fill(bytes.begin() + 1, bytes.end(), 0);
    if (random_.one_in(3)) std::reverse(ranges.begin(), ranges.end());
    return ranges;
  }
  void read_vector() {
    std::vector<std::size_t> bytes;
    const std::vector<Range> ranges = any_ranges(bytes);
    std::vector<Bytes> found;
    std::vector<Address> addresses;
    std::vector<void*> data;
    found.reserve(ranges.size());
    for (const Range& range : ranges) {
      addresses.push_back(range.offset);
      data.push_back(found.emplace_back(range.bytes, 0xee).data());
    }
    ASSERT_EQ(driver().read_vector(file_->get(), 0, static_cast<unsigned>(ranges.size()), nullptr,
                                   addresses.data(), bytes.data(), data.data()),
              succeeded)
        << last_error;
    for (std::size_t i = 0; i < ranges.size(); ++i)
      expect_at(ranges[i], found[i]);
  }
  void write_vector() {
    std::vector<std::size_t> bytes;
    const std::vector<Range> ranges = any_ranges(bytes);
    std::vector<Bytes> written;
    std::vector<Address> addresses;
    std::vector<const void*> data;
    written.reserve(ranges.size());
    for (const Range& range : ranges) {
      addresses.push_back(range.offset);
      data.push_back(written.emplace_back(any_bytes(range.bytes)).data());
    }
    ASSERT_EQ(driver().write_vector(file_->get(), 0, static_cast<unsigned>(ranges.size()), nullptr,
                                    addresses.data(), bytes.data(), data.data()),
              succeeded)
        << last_error;
    for (std::size_t i = 0; i < ranges.size(); ++i)
      expect_written(ranges[i], written[i].data());
  }
  // Of several dataspaces, whose memory is one buffer. The pieces of file and memory are cut at
  // places of their own.
  struct AnySelections {
    std::vector<std::int64_t> memory_spaces;
    std::vector<std::int64_t> file_spaces;
    std::vector<Address> offsets;
    std::vector<std::size_t> element_bytes;
    std::vector<Range> in_file;    // in the order of the elements
    std::vector<Range> in_memory;  // likewise; other cuts
    std::size_t memory_bytes = 0;
  };
  AnySelections any_selections() {
    AnySelections made;
    spaces.runs.clear();
    spaces.iterators.clear();
    spaces.closed = 0;
    spaces.runs_max = 1 + random_.below(1000);
    const std::size_t count = 1 + random_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t element = random_.one_in(2) ? 8 : 1 + random_.below(5000);
      const std::size_t pieces = 1 + random_.below(element == 8 ? 5000 : 100);
      const std::size_t gap = random_.below(3) * random_.below(200);
      const Address begin = random_.below(size_max / 2);
      std::vector<SelectedRun> file_runs;
      for (std::size_t piece = 0; piece < pieces; ++piece)
        file_runs.push_back({piece * (element + gap), element});
      if (random_.one_in(3)) std::reverse(file_runs.begin(), file_runs.end());
      for (const SelectedRun& run : file_runs)
        made.in_file.push_back({begin + run.offset, run.bytes});
      // In memory: cut into runs of several elements with gaps between them.
      std::vector<SelectedRun> memory_runs;
      for (std::size_t left = pieces; left > 0;) {
        const std::size_t elements = 1 + random_.below(std::min<std::size_t>(left, 50));
        made.memory_bytes += random_.below(2) * 24;
        memory_runs.push_back({made.memory_bytes, elements * element});
        made.in_memory.push_back({made.memory_bytes, elements * element});
        made.memory_bytes += elements * element;
        left -= elements;
      }
      made.offsets.push_back(begin);
      made.element_bytes.push_back(element);
      made.file_spaces.push_back(spaces.add(std::move(file_runs)));
      made.memory_spaces.push_back(spaces.add(std::move(memory_runs)));
    }
    return made;
  }
  // The bytes of the elements, one after the other.
  static Bytes gathered(const std::vector<Range>& ranges, const Bytes& from) {
    Bytes bytes;
    for (const Range& range : ranges) {
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(range.offset);
      bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(range.bytes));
    }
    return bytes;
  }
  void read_selections() {
    const AnySelections some = any_selections();
    Bytes found(some.memory_bytes, 0xee);
    std::vector<void*> data(some.offsets.size());  // null: as before
    data[0] = found.data();
    ASSERT_EQ(driver().read_selection(file_->get(), AllocationType::draw, 0,
                                      static_cast<unsigned>(data.size()), some.memory_spaces.data(),
                                      some.file_spaces.data(), some.offsets.data(),
                                      some.element_bytes.data(), data.data()),
              succeeded)
        << last_error;
    EXPECT_EQ(spaces.closed, spaces.iterators.size());
    Bytes all = expected_;
    all.resize(std::max(all.size(), 2 * size_max));
    ASSERT_TRUE(gathered(some.in_memory, found) == gathered(some.in_file, all));
    for (const Range& range : some.in_memory)
      std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(range.offset), range.bytes, 0xee);
    ASSERT_TRUE(found == Bytes(some.memory_bytes, 0xee)) << "between the elements";
  }
  void write_selections() {
    const AnySelections some = any_selections();
    const Bytes written = any_bytes(some.memory_bytes);
    std::vector<const void*> data(some.offsets.size());
    data[0] = written.data();
    ASSERT_EQ(driver().write_selection(file_->get(), AllocationType::draw, 0,
                                       static_cast<unsigned>(data.size()),
                                       some.memory_spaces.data(), some.file_spaces.data(),
                                       some.offsets.data(), some.element_bytes.data(), data.data()),
              succeeded)
        << last_error;
    const Bytes elements = gathered(some.in_memory, written);
    std::size_t at = 0;
    for (const Range& range : some.in_file) {
      expect_written(range, elements.data() + at);
      at += range.bytes;
    }
  }
  void truncate() {
    const std::size_t bytes = random_.below(size_max);
    ASSERT_EQ(file_->truncate(bytes), succeeded) << last_error;
    expected_.resize(bytes);
    ASSERT_EQ(file_->end(), bytes);
  }
  void reopen() {
    ASSERT_EQ(file_->close(), succeeded) << last_error;
    ASSERT_TRUE(contents(name_) == expected_);
    file_ = std::make_unique<Opened>(name_, read_write);
    ASSERT_TRUE(file_->is_open()) << last_error;
    ASSERT_EQ(file_->end(), expected_.size());
  }

  test::Random random_;
  const std::string name_;
  std::unique_ptr<Opened> file_;
  Bytes expected_;
};

TEST_P(Drivers, RandomCallsAreThoseOfAFileInMemory) {
  RandomCalls calls(at("random"));
  const std::uint64_t count = test::scaled(400);
  for (std::uint64_t i = 0; i < count && !HasFailure(); ++i)
    calls.make_one();
  if (!HasFailure()) calls.check_contents();
}

TEST_P(Drivers, SelectionsThatCannotBeListedAreErrors) {
  Opened file(at("selected"));
  ASSERT_EQ(file.write(0, std::string(64, 'a')), succeeded);
  spaces = {};
  const std::int64_t space = spaces.add({{0, 8}, {16, 8}});
  const Address offset = 0;
  const std::size_t bytes = 8;
  char memory[32] = {};
  void* data = memory;
  for (std::size_t call = 1; call <= 4; ++call) {
    spaces.fails_at = call;
    EXPECT_EQ(driver().read_selection(file.get(), AllocationType::draw, 0, 1, &space, &space,
                                      &offset, &bytes, &data),
              failed);
    EXPECT_NE(last_error.find("file read failed: name = '"), std::string::npos) << last_error;
    EXPECT_EQ(spaces.closed, spaces.iterators.size());
  }
  spaces.fails_at = 0;
  EXPECT_EQ(driver().read_selection(file.get(), AllocationType::draw, 0, 1, &space, &space, &offset,
                                    &bytes, &data),
            succeeded);
  EXPECT_EQ(std::string(memory, 24),
            std::string(8, 'a') + std::string(8, '\0') + std::string(8, 'a'));
}

TEST_P(Drivers, FilesThatCannotBeOpenedAreErrorsWithTheirErrno) {
  EXPECT_FALSE(Opened(scratch_ / "none", read_write).is_open());
  EXPECT_NE(last_error.find("unable to open file: name = '"), std::string::npos) << last_error;
  EXPECT_NE(last_error.find("errno = 2, error message = 'No such"), std::string::npos)
      << last_error;
  const std::string name = at("there");
  EXPECT_TRUE(Opened(name).is_open());
  EXPECT_FALSE(Opened(name, read_write | access_flag::create | access_flag::exclusive).is_open());
  EXPECT_NE(last_error.find("errno = 17,"), std::string::npos) << last_error;
  EXPECT_FALSE(Opened("nfs://").is_open());
  EXPECT_NE(last_error.find("errno = 22,"), std::string::npos) << last_error;
}

TEST_P(Drivers, AFileThatIsOpenedTwiceIsKnown) {
  const std::string name = at("twice");
  const Opened one(name);
  const Opened again(name, read_write);
  const Opened other(at("other"));
  EXPECT_EQ(driver().compare(one.get(), again.get()), 0);
  EXPECT_NE(driver().compare(one.get(), other.get()), 0);
  EXPECT_EQ(driver().compare(one.get(), other.get()), -driver().compare(other.get(), one.get()));
}

TEST_P(Drivers, AFileMayBeWrittenOnlyIfItWasOpenedForIt) {
  const std::string name = at("read-only");
  {
    Opened file(name);
    ASSERT_TRUE(file.is_open()) << last_error;
    EXPECT_EQ(file.write(0, "abc"), succeeded);
    EXPECT_EQ(file.close(), succeeded);
  }
  Opened file(name, 0);
  ASSERT_TRUE(file.is_open()) << last_error;
  EXPECT_EQ(file.read(1, 4), std::string("bc\0\0", 4));
  const bool refused = file.write(0, "x") == failed || file.flush() == failed;
  EXPECT_TRUE(refused);
  EXPECT_NE(last_error.find("errno = 9,"), std::string::npos) << last_error;
}

TEST_P(Drivers, OnlyMountedFilesHaveDescriptorsAndLocks) {
  const std::string name = at("handle");
  Opened file(name);
  ASSERT_TRUE(file.is_open()) << last_error;
  void* handle = nullptr;
  const int outcome = driver().get_handle(file.get(), 0, &handle);
  unsigned long features = 0;
  EXPECT_EQ(driver().query(file.get(), &features), succeeded);
  EXPECT_EQ(driver().lock(file.get(), true), succeeded);
  if (!is_local()) {
    EXPECT_EQ(outcome, failed);
    EXPECT_EQ(features & feature::posix_compatible_handle, 0U);
    EXPECT_EQ(driver().unlock(file.get()), succeeded);
    setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
    const Opened insisting(name, read_write);
    unsetenv("HDF5_USE_FILE_LOCKING");
    EXPECT_EQ(driver().lock(insisting.get(), true), failed);
    return;
  }
  ASSERT_EQ(outcome, succeeded);
  EXPECT_NE(features & feature::posix_compatible_handle, 0U);
  EXPECT_EQ(pwrite(*static_cast<int*>(handle), "by hand", 7, 0), 7);
  EXPECT_EQ(file.read(0, 7), "by hand");
  const int other = open(name.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(flock(other, LOCK_SH | LOCK_NB), -1);
  EXPECT_EQ(driver().unlock(file.get()), succeeded);
  EXPECT_EQ(flock(other, LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(driver().lock(file.get(), false), succeeded);
  EXPECT_EQ(driver().lock(file.get(), true), failed);
  EXPECT_NE(last_error.find("errno = 11,"), std::string::npos) << last_error;
  close(other);
}

TEST_P(Drivers, AChildOfForkGoesOnByItself) {
  const std::string name = at("forked");
  Opened file(name);
  ASSERT_TRUE(file.is_open()) << last_error;
  EXPECT_EQ(file.write(0, std::string(100'000, 'p')), succeeded);
  EXPECT_EQ(file.flush(), succeeded);
  EXPECT_EQ(file.write(200'000, "the parent's"), succeeded);  // maybe not yet sent
  // The client libraries of the others stay with the process that used them first.
  const bool can_fork = is_local() || std::string(GetParam()) == "FERRY_TEST_NFS";
  if (!can_fork) {
    EXPECT_EQ(test::in_a_child([&] {
                const bool refused = file.read(0, 10) == "failed" && file.flush() == failed;
                return refused && last_error.find("by spawn") != std::string::npos ? 0 : 1;
              }),
              0);
    EXPECT_EQ(file.read(200'000, 12), "the parent's");
    return;
  }
  EXPECT_EQ(test::in_a_child([&] {
              if (file.read(99'990, 10) != std::string(10, 'p')) return 1;
              if (file.write(300'000, "the child's") != succeeded) return 2;
              if (file.read(300'000, 11) != "the child's") return 3;
              return file.close() == succeeded ? 0 : 4;
            }),
            0);
  EXPECT_EQ(file.read(200'000, 12), "the parent's");
  EXPECT_EQ(file.close(), succeeded);
  Opened again(name, read_write);
  EXPECT_EQ(again.read(300'000, 11), "the child's");
  EXPECT_EQ(again.read(200'000, 12), "the parent's");
}

TEST_P(Drivers, FilesAreDeleted) {
  const std::string name = at("deleted");
  EXPECT_EQ(Opened(name).close(), succeeded);
  EXPECT_EQ(driver().remove(name.c_str(), 0), succeeded);
  EXPECT_EQ(driver().remove(name.c_str(), 0), failed);
  EXPECT_NE(last_error.find("errno = 2,"), std::string::npos) << last_error;
  names_.clear();
}

INSTANTIATE_TEST_SUITE_P(Hdf5, Drivers,
                         ::testing::Values("local", "mock", "FERRY_TEST_NFS", "FERRY_TEST_CEPH"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.starts_with("FERRY") ? name.substr(11) : name;
                         });

TEST(Hdf5Plugin, IsADriver) {
  EXPECT_EQ(H5PLget_plugin_type(), plugin_is_driver);
  EXPECT_STREQ(driver().name, "ferry");
  unsigned long features = 0;
  EXPECT_EQ(driver().query(nullptr, &features), succeeded);
  EXPECT_NE(features, 0U);
}

TEST(Hdf5Plugin, AFullDiskIsAnError) {
  Opened file("/dev/full", read_write);
  ASSERT_TRUE(file.is_open()) << last_error;
  EXPECT_EQ(file.write(0, "abc"), failed);
  EXPECT_NE(last_error.find("errno = 28, error message = 'No space"), std::string::npos)
      << last_error;
}

class Hdf5OnMock : public test::ClientMock {
 protected:
  std::string at(const std::string& name, int timeout_s = 60) const {
    return table.uri_of(path(name)) + "&timeout=" + std::to_string(timeout_s);
  }
  // Writes so many bytes, all of them 'a'.
  static void fill(Opened& file, std::size_t bytes) {
    ASSERT_TRUE(file.is_open()) << last_error;
    EXPECT_EQ(file.write(0, std::string(bytes, 'a')), succeeded);
    EXPECT_EQ(file.flush(), succeeded);
  }

  test::MockTable table;
  test::Pvfs2Faults faults;
};

// HDF5 takes what it has passed on for written. An error of that must not get lost.
TEST_F(Hdf5OnMock, AnErrorOfAWriteIsToldAndStays) {
  Opened file(at("full"));
  fill(file, 10'000);
  faults.fail("PVFS_sys_io", ENOSPC);
  file.write(10'000, std::string(10'000, 'b'));
  EXPECT_EQ(file.flush(), failed);
  EXPECT_NE(last_error.find("errno = 28,"), std::string::npos) << last_error;
  faults.fail("", 0);
  EXPECT_EQ(file.flush(), failed) << "the bytes are still missing";
  EXPECT_EQ(file.truncate(50'000), failed);
  // What was not written cannot be read; the rest goes on.
  EXPECT_EQ(file.read(15'000, 5), "failed");
  EXPECT_EQ(file.read(0, 5), "aaaaa");
  EXPECT_EQ(file.write(300'000, "c"), succeeded);
  EXPECT_EQ(file.read(300'000, 1), "c");
  EXPECT_EQ(file.close(), failed);
  EXPECT_NE(last_error.find("errno = 28,"), std::string::npos) << last_error;
  EXPECT_EQ(contents(at("full")).at(300'000), 'c');
}

TEST_F(Hdf5OnMock, TheNextWriteTellsOfAnError) {
  Opened file(at("told"));
  faults.fail("PVFS_sys_io", ENOSPC);
  EXPECT_EQ(file.write(0, std::string(2 << 20, 'a')), succeeded);
  EXPECT_TRUE(test::eventually([&] { return file.write(5 << 20, "b") == failed; }));
  faults.fail("", 0);
  EXPECT_NE(last_error.find("errno = 28,"), std::string::npos) << last_error;
  EXPECT_EQ(file.write(5 << 20, "b"), succeeded);
  EXPECT_EQ(file.close(), failed);
}

// A client may keep writes to itself until it is told.
TEST_F(Hdf5OnMock, FlushAndCloseMakeWritesDurable) {
  Opened file(at("durable"));
  ASSERT_TRUE(file.is_open()) << last_error;
  EXPECT_EQ(file.flush(), succeeded);
  faults.fail("PVFS_sys_flush", EIO);
  EXPECT_EQ(file.flush(), succeeded) << "nothing was written";
  EXPECT_EQ(file.write(0, "a"), succeeded);
  EXPECT_EQ(file.flush(), failed);
  EXPECT_EQ(file.close(), failed);
}

TEST_F(Hdf5OnMock, AReadThatFailsMayBeTriedAgain) {
  Opened file(at("again"));
  fill(file, 200'000);
  faults.fail("PVFS_sys_io", EIO);
  EXPECT_EQ(file.read(100'000, 5), "failed");
  EXPECT_NE(last_error.find("errno = 5,"), std::string::npos) << last_error;
  faults.fail("", 0);
  EXPECT_EQ(file.read(100'000, 5), "aaaaa");
}

TEST_F(Hdf5OnMock, AServerThatHangsIsAnErrorInTime) {
  Opened file(at("hangs", 1));
  fill(file, 200'000);
  faults.hang("PVFS_sys_io");
  EXPECT_EQ(file.read(100'000, 5), "failed");
  EXPECT_NE(last_error.find("errno = 110,"), std::string::npos) << last_error;
  EXPECT_EQ(file.write(0, "b"), succeeded);
  EXPECT_EQ(file.close(), failed);
  faults.hang("");
  await_late_calls();
}

// A server is asked for blocks and far ahead, not for each piece.
TEST_F(Hdf5OnMock, ManySmallTransfersAreFewRequests) {
  Opened file(at("few"));
  ASSERT_TRUE(file.is_open()) << last_error;
  constexpr std::size_t piece_bytes = 512;
  constexpr std::size_t pieces = 20'000;  // about 10 MB
  const std::string piece(piece_bytes, 'x');
  const auto requests = [&](const auto& action) {
    const int before = faults.calls();
    for (std::size_t i = 0; i < pieces; ++i)
      action(i * piece_bytes);
    EXPECT_EQ(file.flush(), succeeded);
    return faults.calls() - before;
  };
  EXPECT_LT(requests([&](std::size_t at) { file.write(at, piece); }), 100);
  EXPECT_LT(requests([&](std::size_t at) { EXPECT_EQ(file.read(at, piece_bytes), piece); }), 250);
}

// A column of a matrix, and rows of a matrix that is too large to be read whole.
TEST_F(Hdf5OnMock, VectorsOfSmallPiecesAreFewRequests) {
  Opened file(at("vectors"));
  ASSERT_TRUE(file.is_open()) << last_error;
  const auto read = [&](std::size_t count, std::size_t stride) {
    EXPECT_EQ(file.truncate(count * stride), succeeded);
    EXPECT_EQ(file.write((count - 1) * stride, "lastone"), succeeded);
    EXPECT_EQ(file.flush(), succeeded);
    std::vector<std::uint64_t> found(count, 1);
    std::vector<Address> addresses(count);
    std::vector<std::size_t> bytes(count, 8);
    std::vector<void*> data(count);
    for (std::size_t i = 0; i < count; ++i) {
      addresses[i] = i * stride;
      data[i] = &found[i];
    }
    const int before = faults.calls();
    EXPECT_EQ(hdf5::driver().read_vector(file.get(), 0, static_cast<unsigned>(count), nullptr,
                                         addresses.data(), bytes.data(), data.data()),
              succeeded);
    const int requests = faults.calls() - before;
    EXPECT_STREQ(reinterpret_cast<const char*>(&found.back()), "lastone");
    found.pop_back();
    EXPECT_EQ(std::count(found.begin(), found.end(), 0U), static_cast<long>(count) - 1);
    return requests;
  };
  EXPECT_LT(read(1'000'000, 80), 200);
  EXPECT_LT(read(1000, 200'000), 1010);
}

// Memory is bounded, whatever is read and written.
TEST_F(Hdf5OnMock, ReadsAnywhereStayRight) {
  test::Random random;
  Opened file(at("large"));
  ASSERT_TRUE(file.is_open()) << last_error;
  constexpr std::size_t bytes = 3 * BlockCache::memory_bytes_max;
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; i += 8)
    std::memcpy(&data[i], &i, 8);
  ASSERT_EQ(file.write(0, data.data(), bytes), succeeded);
  for (std::uint64_t i = 0; i < test::scaled(2000); ++i) {
    const std::size_t from = random.below(bytes - 300'000);
    Bytes found(1 + random.below(300'000));
    ASSERT_EQ(file.read(from, found.data(), found.size()), succeeded);
    ASSERT_EQ(std::memcmp(found.data(), data.data() + from, found.size()), 0) << from;
  }
}

}  // namespace
}  // namespace ferry::hdf5
