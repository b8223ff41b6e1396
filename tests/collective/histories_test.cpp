// Ranks use one file by collective and independent calls, beside a thread that makes plain ones.
// Each call is recorded with its times. What was written before a sync or a close of all ranks is
// found by their calls after it, after the next open, and by plain calls.
#include <atomic>
#include <cstring>
#include <iostream>
#include <optional>
#include <ostream>
#include <thread>
#include <type_traits>

#include "collective/world.hpp"
#include "histories/checks.hpp"
#include "histories/recording.hpp"
#include "support/servers.hpp"

namespace ferry::collective {
namespace {

using namespace test;
using histories::FileTransfer;
using histories::now;
using histories::Time;

constexpr std::int64_t history_bytes = 20'000;

struct RankEvent {
  enum class Kind : std::uint8_t { read, write, open, sync, close };
  Kind kind;
  unsigned client;  // a rank, or the number of ranks: the plain client
  unsigned value;   // of a write
  std::int64_t offset;
  std::int64_t bytes;
  std::uint64_t found;  // of a read: where its bytes lie
  Time began;
  Time ended;
};
static_assert(std::is_trivially_copyable_v<RankEvent>);

// What one client did.
class RankLog {
 public:
  explicit RankLog(int client)
      : client_(static_cast<unsigned>(client)), each_(255U / static_cast<unsigned>(ranks() + 1)) {}

  // Of its next write: no other has it. 0: there are none left.
  unsigned next_value() { return used_ < each_ ? client_ * each_ + ++used_ : 0; }
  // Makes a call that moves these extents of the file.
  template <class Call>
  void write(const std::vector<Extent>& extents, unsigned value, const Call& call) {
    const RankEvent event = made(RankEvent::Kind::write, call);
    for (const Extent& one : extents)
      add(event, one).value = value;
  }
  template <class Call>
  void read(const std::vector<Extent>& extents, const std::string& data, const Call& call) {
    const RankEvent event = made(RankEvent::Kind::read, call);
    std::uint64_t at = found_.size();
    for (const Extent& one : extents) {
      add(event, one).found = at;
      at += static_cast<std::uint64_t>(one.bytes);
    }
    found_ += data;
  }
  // A call in which all ranks meet.
  template <class Call>
  void meet(RankEvent::Kind kind, const Call& call) {
    events_.push_back(made(kind, call));
  }

  const std::vector<RankEvent>& events() const { return events_; }
  const std::string& found() const { return found_; }

 private:
  template <class Call>
  RankEvent made(RankEvent::Kind kind, const Call& call) const {
    RankEvent event{};
    event.kind = kind;
    event.client = client_;
    event.began = now();
    call();
    event.ended = now();
    return event;
  }
  RankEvent& add(RankEvent event, const Extent& extent) {
    event.offset = extent.offset;
    event.bytes = extent.bytes;
    return events_.emplace_back(event);
  }

  unsigned client_;
  unsigned each_;
  unsigned used_ = 0;
  std::vector<RankEvent> events_;
  std::string found_;
};

// The logs of all clients, on rank 0.
struct RankHistories {
  std::vector<RankEvent> events;
  std::string found;

  void add(const RankEvent* more, std::size_t count, const std::string& data) {
    for (std::size_t i = 0; i < count; ++i) {
      events.push_back(more[i]);
      events.back().found += found.size();
    }
    found += data;
  }
  std::string check() const {
    std::vector<FileTransfer> transfers;
    std::vector<std::vector<RankEvent>> meetings(static_cast<std::size_t>(ranks()));
    for (const RankEvent& event : events)
      if (is_meeting(event)) meetings[event.client].push_back(event);
    for (const auto& theirs : meetings)
      if (theirs.size() != meetings[0].size()) return "ranks did not meet as often";
    for (const RankEvent& event : events)
      if (!is_meeting(event)) transfers.push_back(transfer_of(event, meetings));
    return histories::check_close_to_open(transfers);
  }

 private:
  static bool is_meeting(const RankEvent& event) {
    return event.kind != RankEvent::Kind::read && event.kind != RankEvent::Kind::write;
  }
  FileTransfer transfer_of(const RankEvent& event,
                           const std::vector<std::vector<RankEvent>>& meetings) const {
    FileTransfer one{.is_read = event.kind == RankEvent::Kind::read,
                     .client = event.client,
                     .domain = event.client,
                     .offset = static_cast<std::uint64_t>(event.offset),
                     .bytes = static_cast<std::uint64_t>(event.bytes),
                     .value = event.value,
                     .began = event.began,
                     .ended = event.ended};
    if (one.is_read) one.found = reinterpret_cast<const unsigned char*>(found.data()) + event.found;
    if (event.client == static_cast<unsigned>(ranks())) {  // plain calls
      one.published = event.ended;
      one.opened = event.began;
      return one;
    }
    const auto& mine = meetings[event.client];
    for (std::size_t i = 0; i < mine.size(); ++i) {
      // It ends on no rank before all have begun it.
      if (mine[i].kind != RankEvent::Kind::close && mine[i].ended <= event.began)
        one.opened = mine[i].ended + 1;
      if (mine[i].kind == RankEvent::Kind::open || mine[i].began < event.ended) continue;
      for (const auto& theirs : meetings)
        one.published = std::min(one.published, theirs[i].ended);
    }
    return one;
  }
};

// Collective: everything comes to rank 0.
template <class Value>
std::vector<std::vector<Value>> gather(const Value* mine, std::size_t count) {
  int bytes = static_cast<int>(count * sizeof(Value));
  std::vector<int> sizes(static_cast<std::size_t>(ranks()));
  MPI_Gather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> begins(sizes.size(), 0);
  for (std::size_t i = 1; i < sizes.size(); ++i)
    begins[i] = begins[i - 1] + sizes[i - 1];
  std::vector<char> all(static_cast<std::size_t>(rank() == 0 ? begins.back() + sizes.back() : 0));
  MPI_Gatherv(mine, bytes, MPI_BYTE, all.data(), sizes.data(), begins.data(), MPI_BYTE, 0,
              MPI_COMM_WORLD);
  std::vector<std::vector<Value>> found;
  for (std::size_t i = 0; rank() == 0 && i < sizes.size(); ++i) {
    found.emplace_back(static_cast<std::size_t>(sizes[i]) / sizeof(Value));
    if (sizes[i] > 0)
      std::memcpy(found.back().data(), all.data() + begins[i], static_cast<std::size_t>(sizes[i]));
  }
  return found;
}

// Rank 0 is made to do wrong, so that the check has something to find.
enum class RankFault : std::uint8_t {
  none,
  stale_read,  // behind a sync, it finds what it found before
  lost_write,  // its write is acknowledged and not made
  late_write,  // its write is made when the sync behind it has ended
};

// Where a file lies: its name in plain calls, and in Ferry's.
struct RankFile {
  std::string path;
  std::string name;
};

// One round, on one rank. `all` draws the same on each rank.
class RankClient {
 public:
  RankClient(const RankFile& tested, Random& all)
      : tested_(tested), all_(all), own_(all.bits() + static_cast<std::uint64_t>(rank())) {
    options_ = options_of(all.pick(own_methods), static_cast<int>(all.below(3)),
                          all.one_in(2) ? 0 : static_cast<std::int64_t>(4096 * all.between(1, 3)));
    options_.writes_first = all.one_in(3);
    options_.node_merge = all.one_in(2);
    options_.progress_thread = all.one_in(2);
    if (all.one_in(4)) options_.read_method = options_.write_method = Method::automatic;
  }

  void play(RankFault fault) {
    open();
    for (std::uint64_t i = all_.between(6, 12); i > 0; --i)
      step();
    if (fault != RankFault::none) do_wrong(fault);
    close();
  }
  const RankLog& log() const { return log_; }

 private:
  // Bytes of the view from `offset` on.
  struct Range {
    std::int64_t offset;
    std::int64_t bytes;
  };

  void open() {
    log_.meet(RankEvent::Kind::open,
              [&] { file_.emplace(MPI_COMM_WORLD, tested_.name, O_RDWR, options_); });
    view();
  }
  void close() {
    log_.meet(RankEvent::Kind::close, [&] { file_->close(); });
    file_.reset();
  }
  // All bytes, or blocks that are this rank's alone.
  void view() {
    block_ = all_.one_in(2) ? 0 : static_cast<std::int64_t>(all_.between(1, 2000));
    if (block_ == 0) {
      file_->set_view(0, TypeMap());
    } else {
      file_->set_view(rank() * block_, TypeMap::strided(1, block_, ranks() * block_));
    }
  }
  std::int64_t view_bytes() const {
    return block_ == 0 ? history_bytes : history_bytes / (ranks() * block_) * block_;
  }
  // Of nothing, at times.
  Range some_range() {
    const std::int64_t all = view_bytes();
    if (all == 0 || own_.one_in(6)) return {0, 0};
    const auto offset = static_cast<std::int64_t>(own_.below(static_cast<std::uint64_t>(all)));
    const auto bytes = static_cast<std::int64_t>(own_.between(1, own_.one_in(2) ? 300 : 9000));
    return {offset, std::min(bytes, all - offset)};
  }
  std::vector<Extent> extents_of(Range range) const {
    std::vector<Extent> found;
    if (block_ == 0 && range.bytes > 0) found.push_back({range.offset, range.bytes});
    for (std::int64_t at = range.offset; block_ > 0 && at < range.offset + range.bytes;) {
      const std::int64_t in_block = at % block_;
      const std::int64_t bytes = std::min(block_ - in_block, range.offset + range.bytes - at);
      found.push_back({(at / block_ * ranks() + rank()) * block_ + in_block, bytes});
      at += bytes;
    }
    return found;
  }

  void step() {
    switch (all_.below(10)) {
      case 0:
        return log_.meet(RankEvent::Kind::sync, [&] { file_->sync(); });
      case 1:
        close();
        return open();
      case 2:
        return view();
      case 3:
      case 4:
        for (std::uint64_t i = own_.below(4); i > 0; --i) {
          if (own_.one_in(2)) {
            write(some_range(), [&](std::int64_t offset, std::span<const std::byte> data) {
              return file_->write_at(offset, data);
            });
          } else {
            read(some_range(), [&](std::int64_t offset, std::span<std::byte> data) {
              return file_->read_at(offset, data);
            });
          }
        }
        return;
      case 5:
        return write(some_range(), [&](std::int64_t offset, std::span<const std::byte> data) {
          return file_->iwrite_at_all(offset, data).wait();
        });
      case 6:
        return read(some_range(), [&](std::int64_t offset, std::span<std::byte> data) {
          return file_->iread_at_all(offset, data).wait();
        });
      case 7:
        return read_all(some_range());
      default:
        return write_all(some_range());
    }
  }
  void write_all(Range range) {
    write(range, [&](std::int64_t offset, std::span<const std::byte> data) {
      return file_->write_at_all(offset, data);
    });
  }
  void read_all(Range range) {
    read(range, [&](std::int64_t offset, std::span<std::byte> data) {
      return file_->read_at_all(offset, data);
    });
  }
  template <class Call>
  void write(Range range, const Call& call) {
    const unsigned value = range.bytes > 0 ? log_.next_value() : 0;
    if (value == 0) range = {0, 0};
    const std::string data(static_cast<std::size_t>(range.bytes), static_cast<char>(value));
    log_.write(extents_of(range), value,
               [&] { EXPECT_EQ(call(range.offset, bytes_of(data)), range.bytes); });
  }
  template <class Call>
  void read(Range range, const Call& call) {
    std::string data(static_cast<std::size_t>(range.bytes), '?');
    log_.read(extents_of(range), data,
              [&] { EXPECT_EQ(call(range.offset, bytes_of(data)), range.bytes); });
  }

  void do_wrong(RankFault fault) {
    close();
    open();
    block_ = 0;
    file_->set_view(0, TypeMap());
    const Range all{0, history_bytes};
    const Range none{0, 0};
    std::string first(history_bytes, '?');
    read(all, [&](std::int64_t offset, std::span<std::byte> data) {
      const std::int64_t got = file_->read_at_all(offset, data);
      std::memcpy(first.data(), data.data(), data.size());
      return got;
    });
    const bool is_lost = fault == RankFault::lost_write || fault == RankFault::late_write;
    std::string late;
    write(rank() == 0 ? all : none, [&](std::int64_t offset, std::span<const std::byte> data) {
      late.assign(reinterpret_cast<const char*>(data.data()), data.size());
      file_->write_at_all(offset, is_lost ? data.first(0) : data);
      return std::ssize(data);
    });
    log_.meet(RankEvent::Kind::sync, [&] { file_->sync(); });
    read(all, [&](std::int64_t offset, std::span<std::byte> data) {
      const std::int64_t got = file_->read_at_all(offset, data);
      if (fault == RankFault::stale_read && rank() == 0)
        std::memcpy(data.data(), first.data(), data.size());
      return got;
    });
    if (fault == RankFault::late_write) file_->write_at_all(0, bytes_of(late));
  }

  const RankFile& tested_;
  Random& all_;
  Random own_;
  Options options_;
  RankLog log_{rank()};
  std::optional<File> file_;
  std::int64_t block_ = 0;  // 0: the view shows all bytes
};

// Reads and writes until it is to end.
class PlainCalls {
 public:
  PlainCalls(const std::string& path, std::uint64_t seed)
      : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)), random_(seed) {
    thread_ = std::thread([this] { play(); });
  }
  ~PlainCalls() { end(); }
  PlainCalls(const PlainCalls&) = delete;
  PlainCalls& operator=(const PlainCalls&) = delete;
  void end() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const RankLog& log() const { return log_; }

 private:
  void play() {
    for (int i = 0; i < 60 && !ends_; ++i) {
      const auto at = static_cast<std::int64_t>(random_.below(history_bytes));
      const std::int64_t bytes = std::min<std::int64_t>(
          static_cast<std::int64_t>(random_.between(1, 3000)), history_bytes - at);
      std::string data(static_cast<std::size_t>(bytes), '?');
      const unsigned value = random_.one_in(3) ? log_.next_value() : 0;
      if (value == 0) {
        log_.read({{at, bytes}}, data,
                  [&] { EXPECT_EQ(plain(::pread(file_, data.data(), data.size(), at)), bytes); });
      } else {
        data.assign(data.size(), static_cast<char>(value));
        log_.write({{at, bytes}}, value,
                   [&] { EXPECT_EQ(plain(::pwrite(file_, data.data(), data.size(), at)), bytes); });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(500)));
    }
  }

  const Descriptor file_;
  Random random_;
  RankLog log_{ranks()};
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// Returns the same on all ranks.
std::string play_and_check(const RankFile& file, RankFault fault, Random& random,
                           std::uint64_t& calls) {
  if (rank() == 0) write_file(file.path, std::string(history_bytes, '\0'));
  barrier();
  RankClient client(file, random);
  const std::uint64_t plain_seed = random.bits();
  std::optional<PlainCalls> beside;
  if (rank() == 0) beside.emplace(file.path, plain_seed);
  client.play(fault);
  if (beside) beside->end();
  const std::string& found = client.log().found();
  const auto events = gather(client.log().events().data(), client.log().events().size());
  const auto data = gather(found.data(), found.size());
  char wrong[2000] = {};
  if (rank() == 0) {
    RankHistories all;
    for (std::size_t i = 0; i < events.size(); ++i)
      all.add(events[i].data(), events[i].size(), {data[i].begin(), data[i].end()});
    all.add(beside->log().events().data(), beside->log().events().size(), beside->log().found());
    calls += all.events.size();
    RankLog last(ranks());
    const std::string left = read_file(file.path);
    if (left.size() == history_bytes) last.read({{0, history_bytes}}, left, [] {});
    all.add(last.events().data(), last.events().size(), last.found());
    std::string text = all.check();
    if (left.size() != history_bytes)
      text = "the file has " + std::to_string(left.size()) + " bytes";
    text.copy(wrong, sizeof wrong - 1);
  }
  world().broadcast(wrong, sizeof wrong);
  return wrong;
}

struct RankStorage {
  const char* name;
  std::uint64_t rounds;
};

void PrintTo(const RankStorage& one, std::ostream* out) {
  *out << one.name;
}

class RecordedRanks : public testing::TestWithParam<RankStorage> {
 protected:
  // False without the server.
  bool find_files() {
    const std::string name = GetParam().name;
    if (name != "local") {
      served_ = served_folder(name);
      if (!served_) return false;
    }
    directory_ = std::make_unique<SharedDirectory>(served_ ? served_->directory : build_folder());
    return true;
  }
  RankFile next_file() {
    const std::string name = std::to_string(++files_);
    const std::string path = *directory_ / name;
    if (!served_) return {path, path};
    return {path, served_->uri_of(path.substr(served_->directory.size() + 1))};
  }

  std::optional<ServedFolder> served_;
  std::unique_ptr<SharedDirectory> directory_;
  unsigned files_ = 0;
};

TEST_P(RecordedRanks, FindWhatWasWrittenBeforeTheyMet) {
  if (!find_files()) GTEST_SKIP() << no_server(GetParam().name);
  Random random;
  std::uint64_t calls = 0;
  const std::uint64_t rounds = scaled(GetParam().rounds);
  for (std::uint64_t round = 0; round < rounds; ++round)
    ASSERT_EQ(play_and_check(next_file(), RankFault::none, random, calls), "") << "round " << round;
  std::cout << rounds << " rounds: " << calls << " pieces read and written, and meetings\n";
}

TEST_P(RecordedRanks, ThatDoWrongAreFound) {
  if (!find_files()) GTEST_SKIP() << no_server(GetParam().name);
  Random random;
  std::uint64_t calls = 0;
  for (const RankFault fault :
       {RankFault::stale_read, RankFault::lost_write, RankFault::late_write})
    EXPECT_NE(play_and_check(next_file(), fault, random, calls), "")
        << "fault " << static_cast<int>(fault);
}

INSTANTIATE_TEST_SUITE_P(, RecordedRanks,
                         testing::Values(RankStorage{"local", 5}, RankStorage{"NFS", 3},
                                         RankStorage{"CEPH", 2}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace ferry::collective
