// Placement `service`: calls through the page cache executed by the I/O server's loop or on
// reserved cores. For the bytes see random_calls_test.cpp.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

#include "backend/cpu/lanes.hpp"
#include "runtime/services.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"
#include "support/stripes.hpp"

namespace ferry {
namespace {

using device::BufferExtent;
using device::IoVector;
using device::Opcode;
using device::Placement;
using device::Request;
using device::Target;
using test::pattern;
using test::read_at;
using test::read_file;
using test::same_bytes;

// Parameter: reserved cores.
class Service : public test::OnCachedRuntime, public testing::WithParamInterface<unsigned> {
 protected:
  void SetUp() override { make(1, 64); }
  void make(unsigned device_threads, unsigned pages) {
    arena = Buffer();
    runtime.reset();
    RuntimeOptions options = test::cached_options(pages, Placement::service);
    options.device_threads = device_threads;
    options.service_threads = GetParam();
    runtime = std::make_unique<Runtime>(options);
    arena = runtime->allocate(1 << 20);
  }
  void TearDown() override {
    arena = Buffer();
    end_runtime();
  }
  std::uint64_t served() const { return runtime->statistics().served_calls; }
  // All but those that an overloaded machine let wait for too long.
  void expect_served(std::uint64_t calls) const {
    const RuntimeStatistics statistics = runtime->statistics();
    if (statistics.taken_back_calls > 0) return;
    EXPECT_EQ(statistics.served_calls, calls);
  }

  const std::string data = pattern(10'000, 1);
  Buffer arena;
};

TEST_P(Service, ReadsThroughTheCache) {
  test::write_file(path, data);
  on_file(path, O_RDONLY, [&](Files& files, int file) {
    char* memory = arena.as<char>();
    ASSERT_EQ(files.pread(file, memory, 20'000, 0), 10'000) << "short at the end of the file";
    EXPECT_TRUE(same_bytes({memory, 10'000}, data));
    expect_served(1);
    const std::uint64_t fills = runtime->statistics().cache.fills;
    EXPECT_GT(fills, 0U);
    ASSERT_EQ(files.pread(file, memory, 5000, 3000), 5000);
    EXPECT_TRUE(same_bytes({memory, 5000}, data.substr(3000, 5000)));
    EXPECT_EQ(runtime->statistics().cache.fills, fills) << "every page was there";
    EXPECT_EQ(files.pread(file, memory, 1, 10'000), 0);
    EXPECT_EQ(files.pread(file, memory, 0, 0), 0);
    expect_served(4);
    EXPECT_EQ(runtime->statistics().staged_calls, 0U);
  });
}

TEST_P(Service, WritesStayInTheCacheUntilTheyAreFlushed) {
  on_file(path, O_RDWR | O_CREAT, [&](Files& files, int file) {
    ASSERT_EQ(files.pwrite(file, data.data(), data.size(), 0), 10'000);
    EXPECT_EQ(read_file(path), "");
    files.use(Placement::compute);
    EXPECT_TRUE(same_bytes(read_at(files, file, 10'000, 0), data)) << "of the same cache";
    files.use(Placement::service);
    ASSERT_EQ(files.flush(file), 0);
    EXPECT_TRUE(same_bytes(read_file(path), data));
    ASSERT_EQ(files.write(file, "begin", 5), 5);
  });
  EXPECT_TRUE(same_bytes(read_file(path), "begin" + data.substr(5)));
}

TEST_P(Service, ShutdownWritesBackWhatIsDirty) {
  leave_dirty(data);
  test::expect_good_end(runtime->shutdown(test::patience));
  EXPECT_TRUE(same_bytes(read_file(path), data));
}

// A buffer outside the arena, and one in it: the same results, and as with `compute`.
TEST_P(Service, RefusesWhatComputeRefuses) {
  test::write_file(path, data);
  constexpr std::int64_t far = 0x7fffffffffffffff;
  on_device([&](Files& files) {
    char outside = 'x';
    const int reader = files.open(path.c_str(), O_RDONLY);
    const int writer = files.open(path.c_str(), O_WRONLY);
    const int closed = files.open(path.c_str(), O_RDWR);
    ASSERT_EQ(files.close(closed), 0);
    const auto results = [&](char* byte) {
      const IoVector pieces[] = {{byte, 1}, {byte, 0}};
      return std::vector<std::int64_t>{
          files.pwrite(reader, byte, 1, 0),
          files.pwrite(reader, byte, 1, -1),
          files.pwritev(reader, pieces, 2, 0),
          files.pread(writer, byte, 1, 0),
          files.pread(writer, byte, 0, 0),
          files.preadv(writer, pieces, 2, -5),
          files.pread(reader, byte, 1, -1),
          files.pread(reader, byte, 1, far),
          files.preadv(reader, pieces, 2, far),
          files.pread(reader, nullptr, 1, 0),
          files.pread(closed, byte, 1, 0),
          files.pwrite(closed, byte, 1, 0),
          files.pread(-1, byte, 1, 0),
          files.pread(77, byte, 1, 0),
          files.wait(*std::array{files.pread_async(writer, byte, 1, 0)}.data()),
          files.preadv(reader, pieces, -1, 0)};
    };
    for (char* byte : {&outside, arena.as<char>()}) {
      files.use(Placement::compute);
      const auto wanted = results(byte);
      files.use(Placement::service);
      EXPECT_EQ(results(byte), wanted) << (byte == &outside ? "outside" : "inside");
      EXPECT_EQ(wanted[0], -EBADF);
    }
    EXPECT_EQ(files.pwrite(writer, &outside, 1, 5), 1);
    EXPECT_EQ(files.pread(reader, &outside, 1, 4), 1) << "the gap of a page that nobody could read";
    EXPECT_EQ(outside, data[4]);
    EXPECT_EQ(files.close(reader), 0);
    EXPECT_EQ(files.close(writer), 0);
  });
}

TEST_P(Service, AppendsGoToTheEnd) {
  test::write_file(path, "old");
  on_file(path, O_RDWR | O_APPEND, [&](Files& files, int file) {
    EXPECT_EQ(files.write(file, "new", 3), 3);
    EXPECT_EQ(files.pwrite(file, "est", 3, 0), 3);
    EXPECT_EQ(read_at(files, file, 20, 0), "oldnewest");
  });
}

TEST_P(Service, BuffersOutsideTheArenaAreStagedAndCounted) {
  const std::string large = pattern(700'000, 2);
  on_file(path, O_RDWR | O_CREAT, [&](Files& files, int file) {
    ASSERT_EQ(files.pwrite(file, large.data(), large.size(), 0), 700'000);
    std::string got(700'000, '\0');
    const IoVector pieces[] = {{got.data(), 300'001}, {got.data() + 300'001, 399'999}};
    ASSERT_EQ(files.preadv(file, pieces, 2, 0), 700'000);
    EXPECT_TRUE(same_bytes(got, large));
    EXPECT_EQ(runtime->statistics().staged_calls, 2U);
    EXPECT_EQ(runtime->statistics().staged_bytes, 1'400'000U);
  });
  EXPECT_TRUE(same_bytes(read_file(path), large));
}

TEST_P(Service, VectorsInTheArenaAreOneRequest) {
  test::write_file(path, data);
  on_file(path, O_RDWR, [&](Files& files, int file) {
    char* memory = arena.as<char>();
    const IoVector pieces[] = {{memory + 9000, 5000}, {memory, 0}, {memory, 8000}};
    ASSERT_EQ(files.preadv(file, pieces, 3, 100), 9900);
    EXPECT_TRUE(same_bytes({memory + 9000, 5000}, data.substr(100, 5000)));
    EXPECT_TRUE(same_bytes({memory, 4900}, data.substr(5100)));
    expect_served(1);
    ASSERT_EQ(files.pwritev(file, pieces, 1, 0), 5000);
    expect_served(2);
  });
  EXPECT_TRUE(same_bytes(read_file(path), data.substr(100, 5000) + data.substr(5000)));
}

TEST_P(Service, AsynchronousCallsAreInFlight) {
  test::write_file(path, data);
  on_file(path, O_RDWR, [&](Files& files, int file) {
    char* memory = arena.as<char>();
    std::array<device::BatchTransfer, 10> transfers;
    std::array<device::Pending, 10> pending;
    for (std::size_t i = 0; i < 10; ++i)
      transfers[i] = {file, memory + i * 1000, 1000, static_cast<std::int64_t>(i * 1000)};
    files.pread_batch(transfers.data(), 10, pending.data());
    for (std::uint32_t left = 10; left > 0; --left) {
      const std::uint32_t ready = files.wait_any(pending.data(), left);
      EXPECT_EQ(files.wait(pending[ready]), 1000);
      std::swap(pending[ready], pending[left - 1]);  // those that are ready are left out
    }
    EXPECT_TRUE(same_bytes({memory, 10'000}, data));
    // As many as there are cells, and what is left behind is waited for.
    int refused = 0;
    for (int i = 0; i < 70; ++i) {
      device::Pending one = files.pwrite_async(file, memory + i, 1, i);
      if (one.finished) refused += files.wait(one) == -EAGAIN ? 1 : 0;
    }
    EXPECT_EQ(refused, 7);
    files.drain();
    EXPECT_EQ(files.pread(file, memory, 100, 0), 100);
  });
  EXPECT_TRUE(same_bytes(read_file(path), data));
}

// What a program could write into a ring itself.
TEST_P(Service, RequestsAreValidated) {
  test::write_file(path, data);
  int file = 0;
  on_device([&](Files& files) { file = files.open(path.c_str(), O_RDWR); });
  const device::ArenaView& view = runtime->context().arena;
  device::Requester requester(runtime->context(), 0);
  const auto result = [&](Opcode opcode, std::uint64_t buffer, std::uint64_t length,
                          std::int64_t offset = 0) {
    Request request = test::request_of(opcode, file, buffer, length);
    request.offset = offset;
    std::int64_t got = 0;
    device::Ticket ticket;
    EXPECT_EQ(requester.prepare(request, ticket, 0, Target::service), 0);
    EXPECT_EQ(requester.submit(&request, 1), 0);
    test::within_patience("a request", [&] { got = requester.wait(ticket).result; });
    return got;
  };
  const std::uint64_t inside = view.offset_of(arena.data());
  const std::uint64_t end = view.layout.geometry.arena_bytes;
  EXPECT_EQ(result(Opcode::cached_read, inside, 100), 100);
  EXPECT_TRUE(same_bytes({arena.as<char>(), 100}, data.substr(0, 100)));
  EXPECT_EQ(result(Opcode::cached_read, 0, 100), -EFAULT) << "the control block";
  EXPECT_EQ(result(Opcode::cached_write, view.layout.cells, 64), -EFAULT);
  EXPECT_EQ(result(Opcode::cached_read, end, 1), -EFAULT);
  EXPECT_EQ(result(Opcode::cached_read, end - 1, 2), -EFAULT);
  EXPECT_EQ(result(Opcode::cached_read, inside, ~std::uint64_t{0}), -EFAULT);
  EXPECT_EQ(result(Opcode::cached_read, inside, 100, -1), -EINVAL);
  EXPECT_EQ(result(Opcode::cached_read_vector, inside + 4, 1), -EFAULT);
  EXPECT_EQ(result(Opcode::cached_read_vector, inside, device::extents_max + 1), -EINVAL);
  EXPECT_EQ(result(Opcode::cached_read_vector, end - 16, 2), -EFAULT);
  auto* extents = arena.as<BufferExtent>();
  extents[0] = BufferExtent{inside + 4096, 50};
  extents[1] = BufferExtent{view.layout.cells, 50};
  EXPECT_EQ(result(Opcode::cached_read_vector, inside, 1), 50);
  EXPECT_EQ(result(Opcode::cached_read_vector, inside + 16, 1), -EFAULT);
  EXPECT_EQ(result(Opcode::cached_read_vector, inside, 2), 50) << "up to the piece that may not be";
  EXPECT_EQ(result(Opcode::cached_write_vector, inside, 0), 0);
  file = 77;
  EXPECT_EQ(result(Opcode::cached_read, inside, 100), -EBADF);
}

TEST_P(Service, LanesOfAGroupAllGetTheResult) {
  test::write_file(path, data);
  std::atomic<int> wrong{0};
  const auto call = [&](cpu::LaneGroup group) {
    device::FileCalls files(runtime->context(), group, 0);
    const int file = files.open(path.c_str(), O_RDWR);
    std::string mine(10'000, '\0');
    if (files.pread(file, arena.data(), 10'000, 0) != 10'000) ++wrong;
    if (std::memcmp(arena.data(), data.data(), 10'000) != 0) ++wrong;
    group.sync();
    if (files.pwrite(file, arena.data(), 5000, 5000) != 5000) ++wrong;
    if (files.pread(file, arena.data(), 1, -1) != -EINVAL) ++wrong;
    device::Pending pending = files.pread_async(file, arena.data(), 100, 0);
    if (files.wait(pending) != 100) ++wrong;
    if (files.close(file) != 0) ++wrong;
  };
  test::within_patience("a group's calls", [&] { cpu::run_lanes(4, call); });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(same_bytes(read_file(path), data.substr(0, 5000) + data.substr(0, 5000)));
}

// More callers than pages: every call has to evict, write back and wait for others.
TEST_P(Service, ManyThreadsOnFewPages) {
  make(4, 6);
  const test::OwnStripes stripes{
      3000,
      16,
      test::scaled(3000),
      test::Random().bits(),
      {Placement::service, Placement::service, Placement::service, Placement::compute}};
  EXPECT_EQ(test::write_in_stripes(path, stripes, 4, &runtime->context(), arena.as<unsigned char>(),
                                   [&](const auto& program) {
                                     on_all([&](DeviceThread& self) {
                                       program(self.files, device::ThreadGroup{}, self.index);
                                     });
                                   }),
            "");
  EXPECT_GT(served() + runtime->statistics().taken_back_calls, 0U);
}

TEST_P(Service, ShutdownEndsCallsThatAreUnderWay) {
  test::write_file(path, pattern(100'000, 3));
  for (std::uint64_t round = 0; round < test::scaled(30); ++round) {
    make(3, 8);
    std::atomic<int> wrong{0};
    std::thread host([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 211 % 5000));
      EXPECT_TRUE(runtime->shutdown(std::chrono::seconds(60)).finished);
    });
    on_all([&](DeviceThread& self) {
      const int file = self.files.open(path.c_str(), O_RDWR);
      if (file == -ESHUTDOWN) return;
      char* memory = arena.as<char>() + self.index * 65'536;
      for (std::int64_t at = 0;; at = (at + 7000) % 90'000) {
        self.files.pread_async(file, memory + 32'768, 4096, at);
        const std::int64_t got = self.index == 0 ? self.files.pwrite(file, memory, 5000, at)
                                                 : self.files.pread(file, memory, 5000, at);
        if (got == -ESHUTDOWN) break;
        // Cut short where the end came in the middle.
        if (got <= 0 || got > 5000) ++wrong;
        self.files.drain();
      }
    });
    host.join();
    on_all([&](DeviceThread& self) {
      EXPECT_EQ(self.files.pread(1, arena.data(), 1, 0), -ESHUTDOWN);
      EXPECT_EQ(self.files.pwrite(1 << 16, arena.data(), 1, 0), -ESHUTDOWN);
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST_P(Service, InfoAndStatisticsTell) {
  const RuntimeInfo info = runtime->info();
  EXPECT_EQ(info.service_threads, GetParam());
  EXPECT_EQ(info.service_cpus.empty(), GetParam() == 0);
  EXPECT_EQ(info.crossovers_source, "built-in");
  EXPECT_EQ(served(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, Service, testing::Values(0U, 1U, 2U), [](const auto& mode) {
  return mode.param == 0 ? std::string("beside_the_server")
                         : "on_threads_" + std::to_string(mode.param);
});

TEST(ServiceOptions, WithoutACacheThereIsNothingToServe) {
  RuntimeOptions options;
  options.device_threads = 1;
  options.service_threads = 3;
  options.placement = Placement::service;
  test::ScratchDirectory directory;
  test::write_file(directory / "f", "abc");
  Runtime runtime(options);
  EXPECT_EQ(runtime.info().service_threads, 0U);
  runtime.run([&](DeviceThread& self) {
    const int file = self.files.open((directory / "f").c_str(), O_RDONLY);
    char got[3];
    EXPECT_EQ(self.files.pread(file, got, 3, 0), 3);
  });
}

TEST(ServiceOptions, CrossoversAreTakenOver) {
  RuntimeOptions options;
  options.crossovers = device::Crossovers{1, 2, 3, 4, 5};
  const Runtime runtime(options);
  EXPECT_EQ(runtime.info().crossovers_source, "options");
  EXPECT_EQ(runtime.info().crossovers.host_write_bytes_min, 3U);
}

class Automatic : public testing::Test {
 protected:
  Automatic() {
    options.device_threads = 1;
    options.cache_bytes = 16 * 65'536;
    options.placement = Placement::automatic;
  }
  RuntimeOptions options;
  const test::ScratchDirectory directory;
};

// What a new file's write leaves in the cache, in bytes that the server has not written.
class AutomaticWrites : public Automatic {
 protected:
  static constexpr std::size_t bytes = 100'000;
  void write_a_file(Runtime& runtime, DeviceThread& self, bool flushes, std::uint64_t by_host) {
    const std::string path = directory / std::to_string(++files_);
    const std::string data = pattern(bytes, files_);
    const int file = self.files.open(path.c_str(), O_RDWR | O_CREAT, 0600);
    const std::uint64_t before = runtime.statistics().bytes_written;
    ASSERT_EQ(self.files.pwrite(file, data.data(), bytes, 0), std::int64_t{bytes});
    EXPECT_EQ(runtime.statistics().bytes_written - before, by_host) << "file " << files_;
    std::string got(bytes, '\0');
    ASSERT_EQ(self.files.pread(file, got.data(), bytes, 0), std::int64_t{bytes});
    EXPECT_EQ(got, data);
    if (flushes) {
      EXPECT_EQ(files_ % 2 == 0 ? self.files.flush(file) : self.files.fsync(file), 0);
    }
    ASSERT_EQ(self.files.close(file), 0);
    EXPECT_EQ(read_file(path), data);
  }

 private:
  unsigned files_ = 0;
};

TEST_F(AutomaticWrites, GoToTheHostWhereAFlushUsuallyFollows) {
  Runtime runtime(options);
  runtime.run([&](DeviceThread& self) {
    for (int i = 0; i < 3; ++i)
      write_a_file(runtime, self, false, 0);
    for (int i = 0; i < 2; ++i)
      write_a_file(runtime, self, true, 0);
    for (int i = 0; i < 3; ++i)
      write_a_file(runtime, self, true, bytes);
    for (int i = 0; i < 2; ++i)
      write_a_file(runtime, self, false, bytes);
    write_a_file(runtime, self, false, 0);
  });
}

// A program's view: data read at random often enough ends up in the cache.
TEST_F(Automatic, ReadsPastTheCacheUntilAPageIsWorthItsPlace) {
  const std::string data = pattern(300'000, 4);
  test::write_file(directory / "f", data);
  Runtime runtime(options);
  const auto misses = [&] { return runtime.statistics().cache.misses; };
  const auto hits = [&] { return runtime.statistics().cache.hits; };
  runtime.run([&](DeviceThread& self) {
    const int file = self.files.open((directory / "f").c_str(), O_RDWR);
    char got[4096];
    const auto read_at = [&](std::size_t at) {
      ASSERT_EQ(self.files.pread(file, got, 4096, static_cast<std::int64_t>(at)), 4096);
      EXPECT_EQ(std::memcmp(got, data.data() + at, 4096), 0);
    };
    read_at(100'000);
    read_at(200'000);
    EXPECT_EQ(misses(), 0U) << "at random, and for the first time";
    for (int i = 0; i < 20; ++i) {
      read_at(100'000);
      read_at(200'000);
    }
    EXPECT_EQ(misses(), 2U);
    EXPECT_GT(hits(), 20U);
    read_at(0);
    read_at(4096);
    EXPECT_EQ(misses(), 3U) << "a stream, by the page";
    EXPECT_EQ(self.files.pwrite(file, data.data(), 100, 290'000), 100);
    const std::uint64_t written = runtime.statistics().bytes_written;
    EXPECT_EQ(written, 0U) << "small writes stay in the cache";
    EXPECT_EQ(self.files.close(file), 0);
  });
}

// A program that evicts a file after each pass always reads it past the cache.
TEST_F(Automatic, AnEvictionBeginsTheCountAnew) {
  // More pages than the table of counts has entries, and fewer.
  for (const std::uint64_t bytes : {std::uint64_t{8} << 20, std::uint64_t{1} << 20}) {
    const std::string path = directory / std::to_string(bytes);
    test::write_file(path, pattern(bytes, 4));
    Runtime runtime(options);
    runtime.run([&](DeviceThread& self) {
      const int file = self.files.open(path.c_str(), O_RDONLY);
      std::vector<char> got(65'536);
      const auto pass = [&](std::uint64_t end) {
        for (std::uint64_t at = 0; at < end; at += got.size())
          ASSERT_EQ(self.files.pread(file, got.data(), got.size(), static_cast<std::int64_t>(at)),
                    65'536);
      };
      for (int i = 0; i < 20; ++i) {
        pass(bytes);
        EXPECT_EQ(self.files.evict(file), 0);
      }
      EXPECT_EQ(runtime.statistics().cache.misses, 0U);
      for (int i = 0; i < 20; ++i)
        pass(8 * got.size());
      EXPECT_GT(runtime.statistics().cache.misses, 0U) << "worth their place";
      EXPECT_EQ(self.files.close(file), 0);
    });
  }
}

// ---- the end of the serving side

// Two groups and a service that does not run, unless a test lets it.
class OneService : public testing::Test {
 protected:
  OneService() { make(); }
  void make() {
    geometry.services = 1;
    arena = std::make_unique<test::TestArena>(geometry, 4096);
  }
  const device::ArenaView& view() const { return arena->view(); }
  // A request that has been submitted.
  device::Ticket submit(device::Requester& requester, Request request, Target target) const {
    device::Ticket ticket;
    EXPECT_EQ(requester.prepare(request, ticket, 0, target), 0);
    EXPECT_EQ(request.cell, ticket.cell);
    EXPECT_EQ(requester.submit(&request, 1), 0);
    return ticket;
  }
  // From its beginning to its end, which has been asked for.
  void run_to_its_end() const {
    device::stop_service(arena->context(), 0);
    test::within_patience("the end of a service", [&] {
      device::ServiceLoop(arena->context(), device::ThreadGroup{}, 0, 1).run();
    });
  }

  device::Geometry geometry = test::small_geometry(1, 2);
  std::unique_ptr<test::TestArena> arena;
};
using EndedService = OneService;
using CellsOfServices = OneService;

// A service whose core never existed, as its loop state says.
TEST_F(EndedService, CallersLearnItFromThePhase) {
  for (const auto phase : {device::LoopPhase::dead, device::LoopPhase::stopped}) {
    make();
    device::Requester requester(arena->context(), 0);
    Request request = test::request_of(Opcode::cached_read);
    const device::Ticket ticket = submit(requester, request, Target::service);
    view().loop_state(1).phase = phase;
    const int wanted = phase == device::LoopPhase::dead ? -EIO : -ESHUTDOWN;
    test::within_patience("a call of an ended service",
                          [&] { EXPECT_EQ(requester.wait(ticket).result, wanted); });
    EXPECT_EQ(requester.call(request, Target::service).result, wanted);
  }
}

// A group's cells are two each, the server's and the services', with separate numbers.
TEST_F(CellsOfServices, AreTheDevicesOwn) {
  device::Requester requester(arena->context(), 1);
  const std::uint32_t first = geometry.cells_per_group;
  const auto call = [&](Target target, std::uint32_t cell, std::uint32_t sequence) {
    const device::Ticket ticket = submit(requester, Request{}, target);
    EXPECT_EQ(ticket.cell, cell);
    EXPECT_EQ(ticket.sequence, sequence);
    EXPECT_FALSE(requester.done(ticket));
    device::answer(view().cell(cell), sequence, 70 + sequence, 0);
    EXPECT_EQ(requester.wait(ticket).result, 70 + sequence);
  };
  call(Target::server, first, 1);
  call(Target::server, first, 2);
  call(Target::service, view().cell_count() + first, 1);
  call(Target::service, view().cell_count() + first, 2);
  call(Target::server, first, 3);
  EXPECT_EQ(view().ring(0).tickets->tail, 3U);
  EXPECT_EQ(view().ring(1).tickets->tail, 2U);
}

TEST_F(CellsOfServices, AreTheOnlyOnesThatAServiceAnswersIn) {
  const std::uint32_t cells = view().cell_count();
  const std::uint32_t own = geometry.groups * geometry.cells_per_group;
  const device::RequestRing ring = view().ring(1);
  for (const std::uint32_t cell : {0U, cells - 1, cells + own, ~0U, cells}) {
    Request request = test::request_of(Opcode::cached_read);
    request.cell = cell;
    request.sequence = 5;
    if (cell < cells + own) view().cell(cell).unbegun = 5;
    ring.publish(test::claim(ring), &request, 1);
  }
  run_to_its_end();
  for (std::uint32_t cell = 0; cell < cells + own; ++cell)
    EXPECT_EQ(view().cell(cell).sequence, cell == cells ? 5U : 0U) << cell;
}

TEST_F(EndedService, AnswersWhatWasClaimedWhileItRan) {
  device::Requester requester(arena->context(), 0);
  std::vector<device::Ticket> tickets(10);
  for (device::Ticket& ticket : tickets)
    ticket = submit(requester, test::request_of(Opcode::cached_read, 0, view().layout.heap),
                    Target::service);
  run_to_its_end();
  test::within_patience("answers of an ended service", [&] {
    for (const device::Ticket& ticket : tickets)
      EXPECT_EQ(requester.wait(ticket).result, -ESHUTDOWN);
  });
  EXPECT_EQ(view().loop_state(1).phase, device::LoopPhase::stopped);
}

// A loop stopped by a fault at any point of a call it executes, or of requests it serves meanwhile.
class DyingService : public testing::TestWithParam<server::LoopPoint> {
 protected:
  static constexpr std::uint32_t executor_group = 3;

  DyingService() {
    device::Context& context = rig.arena.context();
    behind_cache = rig.add_cache({4096, 8, 16, executor_group + 1, 4});
    context.placement = Placement::service;
    services = std::make_unique<LoopServices>(context, executor_group);
  }
  ~DyingService() override {
    test::within_patience("destruction of the server", [this] { rig.server.reset(); });
  }
  server::ServerOptions options() {
    server::ServerOptions made;
    made.inject = injection.hook();
    made.execute = [this](std::uint32_t loop, const Request& request, server::Pump& pump) {
      return services->execute(loop, request, pump);
    };
    return made;
  }
  char* memory(std::uint32_t group) const {
    return reinterpret_cast<char*>(behind_cache + group * 16'384);
  }

  test::ScratchDirectory directory;
  const std::string path = directory / "f";
  test::Injection injection;
  test::ServerRig rig{test::small_geometry(1, executor_group + 1),
                      storage::make_posix(storage::Engine::automatic), options()};
  unsigned char* behind_cache = nullptr;
  std::unique_ptr<LoopServices> services;
};

TEST_P(DyingService, NobodyHangs) {
  test::write_file(path, pattern(32'768, 1));
  auto first = rig.calls(0);
  const int file = first.open(path.c_str(), O_RDWR);
  ASSERT_GT(file, 0);
  ASSERT_EQ(first.pread(file, memory(0), 4096, 0), 4096) << "as long as the loop lives";
  injection.arm(test::Injection::Action::stop, 0, GetParam());
  std::vector<std::jthread> others;
  for (std::uint32_t group = 1; group < executor_group; ++group) {
    others.emplace_back([&, group] {
      auto mine = rig.calls(group);
      mine.use(group == 1 ? Placement::compute : Placement::service);
      // Among them pages that the dying loop is about to fill.
      for (int i = 0; i < 20; ++i)
        mine.pread(file, memory(group), 8192, i % 4 * 8192);
    });
  }
  test::within_patience("calls of a dying loop", [&] {
    for (int i = 0; i < 20; ++i)
      first.pread(file, memory(0), 8192, i % 4 * 8192);
    others.clear();
    first.pread(file, memory(0), 4096, 0);
    EXPECT_EQ(first.ping(), -EIO);
    // Frames it was about to fill become free.
    first.use(Placement::compute);
    for (std::size_t at = 0; at < 32'768; at += 4096) {
      const std::int64_t got = first.pread(file, memory(0), 4096, static_cast<std::int64_t>(at));
      EXPECT_TRUE(got == 4096 || got == -EIO) << got;
      if (got < 0) continue;
      EXPECT_TRUE(same_bytes({memory(0), 4096}, pattern(32'768, 1).substr(at, 4096)));
    }
  });
  EXPECT_EQ(rig.phase(0), device::LoopPhase::dead);
}

INSTANTIATE_TEST_SUITE_P(Points, DyingService,
                         testing::Values(server::LoopPoint::taken, server::LoopPoint::validated,
                                         server::LoopPoint::submitted,
                                         server::LoopPoint::finished));

}  // namespace
}  // namespace ferry
