// Eight clients in three processes use the same files at the same time. What they found is checked
// against what Ferry promises (checks.hpp).
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "histories/checks.hpp"
#include "histories/clients.hpp"
#include "histories/recording.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"
#include "support/within.hpp"

namespace ferry::histories {
namespace {

using test::Random;

// A process that plays a round for each byte that it gets, and sends one back.
class Player {
 public:
  using Make = std::function<std::unique_ptr<Member>()>;

  // Make it before this process has threads.
  Player(SharedRecords& shared, const Make& make) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ == 0) {
      ::close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) serve(ends[1], shared, make);
      _exit(1);
    }
    ::close(ends[1]);
    end_ = ends[0];
  }
  ~Player() {
    ::close(end_);
    if (child_ < 0) return;
    // It has nothing to do any more; and it may hang.
    if (!test::eventually([this] { return waitpid(child_, nullptr, WNOHANG) == child_; })) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void begin() const {
    const char word = 'r';
    if (send(end_, &word, 1, MSG_NOSIGNAL) != 1) std::perror("send");
  }
  bool ended_well() const {
    pollfd waits{end_, POLLIN, 0};
    char word = 0;
    return poll(&waits, 1, 1000 * static_cast<int>(test::patience.count())) == 1 &&
           recv(end_, &word, 1, 0) == 1;
  }
  void end() const { kill(child_, SIGKILL); }

 private:
  static void serve(int end, SharedRecords& shared, const Make& make) {
    try {
      const std::unique_ptr<Member> member = make();
      char word = 0;
      while (recv(end, &word, 1, 0) == 1) {
        member->play(shared);
        if (send(end, &word, 1, MSG_NOSIGNAL) != 1) break;
      }
    } catch (const std::exception& error) {
      std::cerr << "a player: " << error.what() << '\n';
      _exit(1);
    }
    _exit(0);
  }

  pid_t child_ = -1;
  int end_ = -1;
};

struct Counts {
  std::uint64_t rounds = 0;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t appends = 0;
  std::uint64_t publications = 0;
  std::uint64_t cuts = 0;
  std::uint64_t looks = 0;
};

std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.rounds << " rounds: " << counts.reads << " reads, " << counts.writes
             << " writes, " << counts.appends << " appends, " << counts.publications
             << " flushes, syncs and closes, " << counts.cuts << " truncations, " << counts.looks
             << " looks at sizes\n";
}

// The histories of a round.
class Histories {
 public:
  explicit Histories(const SharedRecords& shared) : shared_(shared) {}

  std::string check(Counts& counts) const {
    for (const ClientLog& log : shared_.logs)
      if (log.failed()) return log.error();
    for (const FileName file : {of_first_device, of_second_device, shared_by_all}) {
      const std::string last = test::read_file(shared_.round.path(file));
      const bool cuts = shared_.round.cuts;
      if (last.size() > file_bytes || (!cuts && last.size() < file_bytes))
        return "a file has " + std::to_string(last.size()) + " bytes";
      std::vector<FileTransfer> transfers = transfers_of(file);
      // By whom does not matter: all have closed it.
      const Time time = now();
      const FileTransfer at_the_end{.is_read = true,
                                    .client = clients,
                                    .domain = plain_domain,
                                    .offset = 0,
                                    .bytes = last.size(),
                                    .found = reinterpret_cast<const unsigned char*>(last.data()),
                                    .began = time,
                                    .ended = time,
                                    .opened = time};
      if (!last.empty()) transfers.push_back(at_the_end);
      const bool one_way = file != shared_by_all && shared_.round.ways == Ways::through_the_cache;
      std::string wrong =
          one_way && !cuts ? check_linearisable(transfers) : check_close_to_open(transfers);
      if (wrong.empty() && cuts) wrong = check_reach(file, at_the_end);
      if (wrong.empty() && cuts && one_way) wrong = check_sizes(size_calls_of(file), file_bytes);
      if (!wrong.empty()) return "file " + std::to_string(file) + ": " + wrong;
    }
    const std::string wrong =
        check_appends(test::read_file(shared_.round.path(log_of_all)), records());
    if (!wrong.empty()) return "the log: " + wrong;
    count(counts);
    return "";
  }

 private:
  template <class Work>
  void each(const Work& work) const {
    for (unsigned client = 0; client < clients; ++client)
      for (std::uint32_t i = 0; i < shared_.logs[client].count(); ++i)
        work(client, shared_.logs[client].event(i));
  }
  // When what the domain had written to the file by then was in the storage.
  Time published(const RecordedCall& write) const {
    if (write.at_once || write.kind == CallKind::cut) return write.ended;
    Time first = never;
    each([&](unsigned, const RecordedCall& event) {
      if (event.kind == CallKind::publish && event.file == write.file &&
          event.domain == write.domain && event.began > write.ended)
        first = std::min(first, event.ended);
    });
    return first;
  }
  std::vector<FileTransfer> transfers_of(FileName file) const {
    std::vector<FileTransfer> found;
    each([&](unsigned client, const RecordedCall& event) {
      if (event.file != file) return;
      FileTransfer one = transfer_of(client, event);
      switch (event.kind) {
        case CallKind::read:
          one.found = shared_.logs[client].found(event);
          break;
        case CallKind::write:
          one.value = static_cast<unsigned>(event.value);
          break;
        case CallKind::cut:  // to zeros
          one.bytes = file_bytes - event.offset;
          break;
        default:
          return;
      }
      if (one.bytes > 0) found.push_back(one);
    });
    return found;
  }
  FileTransfer transfer_of(unsigned client, const RecordedCall& event) const {
    const bool is_read = event.kind == CallKind::read || event.kind == CallKind::look;
    return {.is_read = is_read,
            .client = client,
            .domain = event.domain,
            .offset = event.offset,
            .bytes = event.bytes,
            .began = event.began,
            .ended = event.ended,
            .published = is_read ? never : published(event),
            .opened = event.opened,
            .how = event.how};
  }

  // Whether the file reached as far as calls found, and no further: for each byte a register that
  // is 1 where the file has ended before it. All of them are 0 at first.
  std::string check_reach(FileName file, const FileTransfer& at_the_end) const {
    static const std::vector<unsigned char> there(file_bytes, 0);
    static const std::vector<unsigned char> behind(file_bytes, 1);
    std::vector<FileTransfer> found;
    // Up to `size` the file is there, and from `end` on it is not.
    const auto add = [&](FileTransfer one, std::uint64_t from, std::uint64_t size,
                         std::uint64_t end) {
      one.offset = from;
      one.bytes = size - from;
      one.value = 0;
      one.found = there.data();
      if (one.bytes > 0) found.push_back(one);
      one.offset = size;
      one.bytes = end - size;
      one.value = 1;
      one.found = behind.data();
      if (one.bytes > 0) found.push_back(one);
    };
    each([&](unsigned client, const RecordedCall& event) {
      if (event.file != file) return;
      const std::uint64_t end = event.offset + event.bytes;
      const FileTransfer one = transfer_of(client, event);
      if (event.kind == CallKind::read) add(one, event.offset, end, event.offset + event.wanted);
      if (event.kind == CallKind::write) add(one, 0, end, end);
      if (event.kind == CallKind::cut || event.kind == CallKind::look)
        add(one, 0, event.offset, file_bytes);
    });
    add(at_the_end, 0, at_the_end.bytes, file_bytes);
    const std::string wrong = check_close_to_open(found);
    return wrong.empty() ? "" : "1 is behind the end of the file: " + wrong;
  }
  std::vector<SizeCall> size_calls_of(FileName file) const {
    std::vector<SizeCall> found;
    each([&](unsigned client, const RecordedCall& event) {
      if (event.file != file) return;
      SizeCall one{client, SizeCall::Does::find, event.offset, 0, event.began, event.ended};
      switch (event.kind) {
        case CallKind::cut:
          one.does = SizeCall::Does::set;
          break;
        case CallKind::look:
          break;
        case CallKind::write:
          one.does = SizeCall::Does::grow;
          one.from = event.offset;
          one.size = event.offset + event.bytes;
          break;
        case CallKind::read:
          one.size = event.offset + event.bytes;
          one.does = SizeCall::Does::find_more;
          if (event.bytes > 0) found.push_back(one);
          if (event.bytes == event.wanted) return;
          one.does = SizeCall::Does::find_less;
          break;
        default:
          return;
      }
      found.push_back(one);
    });
    return found;
  }
  std::vector<Appended> records() const {
    std::vector<Appended> found;
    each([&](unsigned client, const RecordedCall& event) {
      if (event.kind == CallKind::append)
        found.push_back({client, static_cast<std::uint32_t>(event.value), event.bytes, event.began,
                         event.ended});
    });
    return found;
  }
  void count(Counts& counts) const {
    ++counts.rounds;
    each([&](unsigned, const RecordedCall& event) {
      switch (event.kind) {
        case CallKind::read:
          ++counts.reads;
          break;
        case CallKind::write:
          ++counts.writes;
          break;
        case CallKind::append:
          ++counts.appends;
          break;
        case CallKind::publish:
          ++counts.publications;
          break;
        case CallKind::cut:
          ++counts.cuts;
          break;
        case CallKind::look:
          ++counts.looks;
      }
    });
  }

  const SharedRecords& shared_;
};

// Small caches, which evict and write back all the time, and larger ones.
RuntimeOptions any_options(Random& random, unsigned threads) {
  static constexpr unsigned pages[] = {0, 3, 5, 8, 24, 64};
  static constexpr StorageEngine engines[] = {StorageEngine::automatic, StorageEngine::threads};
  RuntimeOptions options;
  options.device_threads = threads;
  options.server_threads = static_cast<unsigned>(random.between(1, 2));
  options.arena_bytes = 4 << 20;
  options.files_max = 64;
  options.page_bytes = 4096;
  options.cache_bytes = std::uint64_t{4096} * random.pick(pages);
  options.engine = random.pick(engines);
  options.crossovers = device::Crossovers{2000, 3000, 4000, 3000, 3000};  // all paths are taken
  options.use_profile = false;
  return options;
}

// A file system with versions (see docs/internals/page-cache.md), and one without.
std::string any_parent(Random& random) {
  const bool in_memory = random.one_in(2) && access("/dev/shm", W_OK) == 0;
  return in_memory ? "/dev/shm" : test::build_folder();
}

struct HistoriesServer {
  RoundPlace place;
  test::ServedFolder folder;
};

class RecordedHistories : public testing::Test {
 protected:
  RecordedHistories() {
    void* memory = mmap(nullptr, sizeof(SharedRecords), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) shared_ = new (memory) SharedRecords{};
  }
  ~RecordedHistories() override { munmap(shared_, sizeof(SharedRecords)); }
  void SetUp() override {
    ASSERT_NE(shared_, nullptr);
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "its clients race for the bytes of files";
#endif
  }

  // Some rounds of the same processes, on a server where one is given. Returns what is wrong.
  std::string play(Random& random, std::uint64_t rounds, ClientFault fault, Counts& counts,
                   const HistoriesServer* server = nullptr) {
    RuntimeOptions first = any_options(random, first_device_threads);
    RuntimeOptions second = any_options(random, second_device_threads);
    if (fault != ClientFault::none) first.cache_bytes = std::uint64_t{4096} * 64;
    const test::ScratchDirectory directory(server != nullptr ? server->folder.directory
                                                             : any_parent(random));
    Player one(*shared_,
               [&] { return std::make_unique<DeviceMember>(first, 0, first_device, true); });
    Player other(*shared_, [&] {
      return std::make_unique<DeviceMember>(second, second_device_client, second_device, false);
    });
    Player plain(*shared_, [] { return std::make_unique<PlainMember>(); });
    const Player* players[] = {&one, &other, &plain};
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (server == nullptr) {
        begin_round(random, fault, RoundPlace::local, directory.path() + "/",
                    directory.path() + "/", "");
      } else {
        // Which file a name means, a server may find out late.
        if (round == 0 || random.one_in(2)) ++generation_;
        const std::string name = std::to_string(generation_) + "-";
        const std::string folder = std::filesystem::path(directory.path()).filename();
        const std::string uri = server->folder.uri_of(folder + "/" + name);
        const std::size_t query = uri.find('?');
        begin_round(random, fault, server->place, directory / name, uri.substr(0, query),
                    uri.substr(std::min(query, uri.size())));
      }
      for (const Player* player : players)
        player->begin();
      bool well = true;
      for (const Player* player : players) {
        well = well && player->ended_well();
        if (!well) player->end();
      }
      if (!well) {
        for (const Player* player : players)
          player->end();
        return "a process died or hangs";
      }
      const std::string wrong = Histories(*shared_).check(counts);
      if (!wrong.empty())
        return "round " + std::to_string(round) + " in " + directory.path() + ", caches of " +
               std::to_string(first.cache_bytes / 4096) + " and " +
               std::to_string(second.cache_bytes / 4096) + " pages: " + wrong;
    }
    return "";
  }

 private:
  void begin_round(Random& random, ClientFault fault, RoundPlace place, const std::string& folder,
                   const std::string& uri, const std::string& settings) {
    Round& round = shared_->round;
    round.place = place;
    round.seed = random.bits() / clients;
    round.ways = random.one_in(3) ? Ways::through_the_cache : Ways::all;
    round.cuts = fault == ClientFault::none ? random.one_in(2) : needs_cuts(fault);
    round.fault = fault;
    std::snprintf(round.folder, sizeof round.folder, "%s", folder.c_str());
    std::snprintf(round.uri, sizeof round.uri, "%s", uri.c_str());
    std::snprintf(round.settings, sizeof round.settings, "%s", settings.c_str());
    shared_->arrived = 0;
    shared_->finished = 0;
    for (auto& values : shared_->values)
      values = 0;
    for (ClientLog& log : shared_->logs)
      log.clear();
    for (const FileName file : {of_first_device, of_second_device, shared_by_all, log_of_all}) {
      if (place == RoundPlace::local && random.one_in(2))
        unlink(round.path(file).c_str());  // else the same inode
      test::write_file(round.path(file), file == log_of_all ? "" : std::string(file_bytes, '\0'));
    }
  }

  SharedRecords* shared_ = nullptr;
  unsigned generation_ = 0;  // of a server's files
};

TEST_F(RecordedHistories, AreWhatIsPromised) {
  Random random;
  Counts counts;
  const std::uint64_t episodes = test::scaled(40);
  for (std::uint64_t episode = 0; episode < episodes; ++episode)
    ASSERT_EQ(play(random, 10, ClientFault::none, counts), "") << "episode " << episode;
  std::cout << counts;
}

struct Named {
  const char* name;
  ClientFault fault;
};

void PrintTo(const Named& one, std::ostream* out) {
  *out << one.name;
}

class FaultyClient : public RecordedHistories, public testing::WithParamInterface<Named> {};

TEST_P(FaultyClient, IsFound) {
  Random random;
  Counts counts;
  const std::string wrong = play(random, 1, GetParam().fault, counts);
  EXPECT_NE(wrong, "");
  EXPECT_EQ(wrong.find("returned"), std::string::npos) << "a call failed: " << wrong;
  std::cout << wrong.substr(0, wrong.find('\n')) << '\n';
}

INSTANTIATE_TEST_SUITE_P(Seeded, FaultyClient,
                         testing::Values(Named{"StaleRead", ClientFault::stale_read},
                                         Named{"StaleAfterOpen", ClientFault::stale_after_open},
                                         Named{"LostWrite", ClientFault::lost_write},
                                         Named{"LostFlush", ClientFault::lost_flush},
                                         Named{"ForeignBytes", ClientFault::foreign_bytes},
                                         Named{"DoubleAppend", ClientFault::double_append},
                                         Named{"LostAppend", ClientFault::lost_append},
                                         Named{"LostCut", ClientFault::lost_cut},
                                         Named{"RevivedBytes", ClientFault::revived_bytes},
                                         Named{"StaleSize", ClientFault::stale_size}),
                         [](const auto& one) { return std::string(one.param.name); });

// ---- on servers --------------------------------------------------------------------------------

struct ServerKind {
  const char* name;
  RoundPlace place;
  std::uint64_t episodes;
};

void PrintTo(const ServerKind& one, std::ostream* out) {
  *out << one.name;
}

// As between two machines: each process has its own connections, or clients of the cluster. The
// third makes plain calls in the folder that the server exports, or in a mounted CephFS.
template <class Parameter>
class OnAServer : public RecordedHistories, public testing::WithParamInterface<Parameter> {
 protected:
  // False without one: then the test is to be skipped.
  bool has(const ServerKind& kind) {
    const std::optional<test::ServedFolder> folder = test::served_folder(kind.name);
    if (folder) server_ = HistoriesServer{kind.place, *folder};
    return folder.has_value();
  }
  HistoriesServer server_{};
};

class ServedHistories : public OnAServer<ServerKind> {};

TEST_P(ServedHistories, AreWhatIsPromised) {
  if (!has(GetParam())) GTEST_SKIP() << test::no_server(GetParam().name);
  Random random;
  Counts counts;
  const std::uint64_t episodes = test::scaled(GetParam().episodes);
  for (std::uint64_t episode = 0; episode < episodes; ++episode)
    ASSERT_EQ(play(random, 10, ClientFault::none, counts, &server_), "") << "episode " << episode;
  std::cout << counts;
}

constexpr ServerKind nfs{"NFS", RoundPlace::nfs, 3};
constexpr ServerKind ceph{"CEPH", RoundPlace::ceph, 1};

INSTANTIATE_TEST_SUITE_P(, ServedHistories, testing::Values(nfs, ceph),
                         [](const auto& one) { return std::string(one.param.name); });

class ServedFaultyClient : public OnAServer<std::tuple<ServerKind, Named>> {};

TEST_P(ServedFaultyClient, IsFound) {
  const auto& [kind, seeded] = GetParam();
  if (!has(kind)) GTEST_SKIP() << test::no_server(kind.name);
  Random random;
  Counts counts;
  const std::string wrong = play(random, 1, seeded.fault, counts, &server_);
  EXPECT_NE(wrong, "");
  EXPECT_EQ(wrong.find("returned"), std::string::npos) << "a call failed: " << wrong;
  std::cout << wrong.substr(0, wrong.find('\n')) << '\n';
}

INSTANTIATE_TEST_SUITE_P(
    , ServedFaultyClient,
    testing::Combine(testing::Values(nfs, ceph),
                     testing::Values(Named{"StaleAfterOpen", ClientFault::stale_after_open},
                                     Named{"LostFlush", ClientFault::lost_flush},
                                     Named{"LateWrite", ClientFault::late_write},
                                     Named{"DoubleAppend", ClientFault::double_append},
                                     Named{"RevivedBytes", ClientFault::revived_bytes})),
    [](const auto& one) {
      return std::string(std::get<1>(one.param).name) + "_" + std::get<0>(one.param).name;
    });

}  // namespace
}  // namespace ferry::histories
