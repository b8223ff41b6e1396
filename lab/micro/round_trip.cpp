// The time of an empty request and its answer, compared with the bare ways of two threads to answer
// each other: a cache line, a futex, an eventfd. On the same two CPUs, then on one; also an idle
// server's cost, and how fast it wakes.
#include <atomic>
#include <latch>
#include <thread>

#include <sys/eventfd.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "base/cpus.hpp"
#include "base/futex.hpp"
#include "micro/benchmark.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr long line_trips = 100'000;
constexpr long system_call_trips = 2'000;

// Lets the server of the runtime fall asleep, so that its CPU is free for a baseline's peer.
void let_server_park() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Runs `peer` on the CPU beside the calling thread while `trips` are timed.
template <class Peer, class Trip>
double with_peer(const std::string& cpu, long trips, Peer peer, Trip trip) {
  let_server_park();
  std::latch in_place(1);
  std::thread other([&] {
    run_this_thread_on(parse_cpus(cpu));
    in_place.count_down();
    for (long i = 0; i < trips; ++i)
      peer(i);
  });
  in_place.wait();
  const double each = nanoseconds_each(trips, trip);
  other.join();
  return each;
}

double cache_line_ping_pong(const std::string& cpu) {
  alignas(128) std::atomic<long> line{0};
  return with_peer(
      cpu, line_trips,
      [&](long i) {
        while (line.load(std::memory_order_acquire) != 2 * i + 1) {
        }
        line.store(2 * i + 2, std::memory_order_release);
      },
      [&](long i) {
        line.store(2 * i + 1, std::memory_order_release);
        while (line.load(std::memory_order_acquire) != 2 * i + 2) {
        }
      });
}

double futex_ping_pong(const std::string& cpu, long trips) {
  alignas(128) std::uint32_t word = 0;
  std::atomic_ref<std::uint32_t> value(word);
  constexpr std::uint64_t second_ns = 1'000'000'000;
  const auto wait_until = [&](std::uint32_t wanted) {
    for (std::uint32_t seen = value.load(); seen != wanted; seen = value.load()) {
      futex_wait(&word, seen, second_ns);
    }
  };
  const auto tell = [&](std::uint32_t next) {
    value.store(next);
    futex_wake_all(&word);
  };
  return with_peer(
      cpu, trips,
      [&](long i) {
        wait_until(static_cast<std::uint32_t>(2 * i + 1));
        tell(static_cast<std::uint32_t>(2 * i + 2));
      },
      [&](long i) {
        tell(static_cast<std::uint32_t>(2 * i + 1));
        wait_until(static_cast<std::uint32_t>(2 * i + 2));
      });
}

double eventfd_ping_pong(const std::string& cpu) {
  const int there = eventfd(0, 0);
  const int back = eventfd(0, 0);
  eventfd_t value = 0;
  const double each = with_peer(
      cpu, system_call_trips,
      [&](long) {
        eventfd_t got = 0;
        eventfd_read(there, &got);
        eventfd_write(back, 1);
      },
      [&](long) {
        eventfd_write(there, 1);
        eventfd_read(back, &value);
      });
  close(there);
  close(back);
  return each;
}

void two_cpus() {
  Runtime runtime;
  const RuntimeInfo info = runtime.info();
  if (info.oversubscribed) {
    std::cerr << "ferry-micro: round-trip needs two CPUs for the polling measures\n";
    return;
  }
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    auto& files = self.files;
    const std::string peer = info.server_cpus.substr(0, info.server_cpus.find_first_of("-,"));
    const auto ping = [&] {
      for (int i = 0; i < 1000; ++i)
        files.ping();
      return nanoseconds_each(line_trips, [&](long) { files.ping(); });
    };
    measure_pairs("round trip / cache line ping-pong", "ns", ping,
                  [&] { return cache_line_ping_pong(peer); });
    measure_pairs(
        "futex ping-pong / round trip", "ns",
        [&] { return futex_ping_pong(peer, system_call_trips); }, ping);
    measure_pairs(
        "eventfd ping-pong / round trip", "ns", [&] { return eventfd_ping_pong(peer); }, ping);
    measure_figure("requests per second per server thread, batches of 16", "1/s", 20, [&] {
      constexpr long batches = 5'000;
      constexpr int depth = 16;
      return depth * 1e9 / nanoseconds_each(batches, [&](long) { files.ping_batch(depth); });
    });
  });
}

void one_cpu() {
  const std::string cpu = std::to_string(allowed_cpus().front());
  RuntimeOptions options;
  options.device_cpus = options.server_cpus = cpu;
  options.device_threads = 1;
  Runtime runtime(options);
  runtime.run([&](DeviceThread& self) {
    measure_pairs(
        "one CPU: round trip / futex ping-pong", "ns",
        [&] { return nanoseconds_each(system_call_trips, [&](long) { self.files.ping(); }); },
        [&] { return futex_ping_pong(cpu, system_call_trips); });
  });
}

void idle_server() {
  Runtime runtime;
  measure_figure("idle server", "% of a core", 5, [&] {
    const std::uint64_t before = runtime.statistics().server_cpu_ns;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return static_cast<double>(runtime.statistics().server_cpu_ns - before) / 1e7;
  });
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    measure_figure("first request after idling", "us", 50, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return nanoseconds_of([&] { self.files.ping(); }) / 1000;
    });
  });
}

void round_trip(const BenchmarkOptions&) {
  two_cpus();
  one_cpu();
  idle_server();
}

const Subcommand registered("round-trip", "", "empty requests, and what an idle server costs",
                            round_trip);

}  // namespace
