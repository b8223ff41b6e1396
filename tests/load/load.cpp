#include "load/load.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <latch>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/bulk.hpp>
#include <ferry/ferry.hpp>

#include "base/cpus.hpp"
#include "load/bystander.hpp"
#include "load/callers.hpp"
#include "load/calls.hpp"
#include "load/faulty_storages.hpp"
#include "load/files.hpp"
#include "load/resources.hpp"
#include "server/job.hpp"
#include "support/files.hpp"
#include "support/servers.hpp"

namespace ferry::load {
namespace {

constexpr unsigned stretches = 10;
constexpr std::uint64_t bulk_slab_bytes = 2 << 20;  // of Lanes
constexpr std::size_t warm_up = 3;                  // of these
constexpr std::uint64_t caller_bytes = 4096;        // of device memory
constexpr std::chrono::seconds server_timeout{5};
constexpr unsigned pool_threads = 64;  // of a pool of blocking calls, at most; they stay

// What a leak keeps, until the end.
class Kept {
 public:
  explicit Kept(Leak leak) : leak_(leak) {}
  ~Kept() {
    end_.count_down();
    for (const int descriptor : descriptors_)
      ::close(descriptor);
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  // One caller at a time.
  void at_open() {
    if (leak_ == Leak::descriptors)
      descriptors_.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (leak_ == Leak::memory) memory_.emplace_back(std::size_t{64} << 10, 'x');
    if (leak_ == Leak::threads && ++opens_ % 2 == 0 && threads_.size() < 200)
      threads_.emplace_back([this] { end_.wait(); });
  }

 private:
  const Leak leak_;
  std::latch end_{1};
  unsigned opens_ = 0;
  std::vector<int> descriptors_;
  std::vector<std::string> memory_;
  std::vector<std::jthread> threads_;
};

class LoadRun {
 public:
  explicit LoadRun(const LoadOptions& options)
      : options_(options), kept_(options.leak), storages_(options.seed) {
    load_.seed = options.seed;
    make_places();
    latencies_ =
        std::make_unique<Latencies>(load_.places, scheduling_bound(options.callers, usable_cpus()));
    load_.latencies = latencies_.get();
    load_.hung_ns = [this] { return storages_.hung_ns(); };
    bystander_ = std::make_unique<Bystander>(load_.places);
    RuntimeOptions wishes;
    wishes.device_threads = options.callers;
    wishes.server_threads = 2;
    wishes.cache_bytes = std::max<std::uint64_t>(options.callers * std::uint64_t{4096}, 256 << 10);
    wishes.page_bytes = 4096;
    wishes.arena_bytes = wishes.cache_bytes + options.callers * caller_bytes + (8 << 20);
    wishes.files_max = std::min(4 * options.callers + 64, 65'536U);
    wishes.use_profile = false;
    runtime_ = std::make_unique<Runtime>(wishes);
    engine_ = std::make_unique<bulk::Engine>(bulk::EngineOptions{.workers = 4});
    for (const std::string& folder : folders_)
      engine_->make_directory(folder);
    memory_ = runtime_->allocate(options.callers * caller_bytes);
    const std::size_t places = load_.places.size();
    for (unsigned i = 0; i < options.callers; ++i)
      callers_.push_back(std::make_unique<LoadCaller>(load_, i % places, "device", i / places));
    for (unsigned i = 0; i < options.bulk_callers; ++i) {
      callers_.push_back(std::make_unique<LoadCaller>(load_, i % places, "bulk", i / places));
      bulk_files_.push_back(std::make_unique<BulkFiles>(*engine_));
    }
    if (storages_.made().size() != 2)
      throw std::logic_error("the runtime and the engine have a storage each");
    for (const FaultyStorages::Made& one : storages_.made()) {
      one.both->failing().instead = [this](const storage::Operation& operation) {
        if (operation.kind == storage::Kind::open) {
          const std::lock_guard lock(kept_mutex_);
          kept_.at_open();
        }
        return false;
      };
    }
  }

  ~LoadRun() { storages_.stop(); }
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  LoadReport run() {
    const std::jthread watch([this](const std::stop_token& stop) { watch_calls(stop); });
    storages_.start(options_.longest_hang, options_.trouble, options_.pause);
    const auto began = Clock::now();
    for (unsigned i = 1; i <= stretches; ++i) {
      const auto until = began + options_.time * i / stretches;
      bystander_->start();
      on_all([this, until](LoadCaller& caller, CallerFiles& files) {
        caller.work(files, until, options_.steps);
      });
      bystander_->stop();
      samples_.push_back(settled_holdings());
      in_flight_.push_back(storages_.made().front().both->most_in_flight());
      bulk_workers_.push_back(engine_->statistics().workers_started);
      if (options_.says_progress) std::cout << line_of(samples_.size() - 1) << std::endl;
    }
    const auto took = Clock::now() - began;
    storages_.stop();
    load_.faults = false;
    on_all([](LoadCaller& caller, CallerFiles& files) { caller.check_all(files); });
    leave_servers();
    const ShutdownReport end = runtime_->shutdown(std::chrono::seconds(60));
    if (!end.finished) load_.findings.add("the shutdown left something");
    for (const std::string& error : end.errors)
      load_.findings.add("shutdown: " + error);
    return report(took);
  }

 private:
  void make_places() {
    using std::chrono::milliseconds;
    const auto local = [&](const char* name, const std::string& folder) {
      load_.places.push_back({name, folder + "/", "", folder, options_.local_bound,
                              "the kernel bounds no request to it; " +
                                  std::to_string(options_.local_bound.count()) +
                                  " ms are given each"});
    };
    local("disk", disk_.path());
    if (memory_folder_ != nullptr) local("tmpfs", memory_folder_->path());
    load_.places.push_back({"failing", std::string(test::TwoStorages::prefix), "", "",
                            options_.longest_hang + milliseconds(100),
                            "the longest injected hang, for each request", true});
    // A server's requests wait for a turn there.
    const auto served = [&](const std::string& kind, const char* name, unsigned workers) {
      const std::optional<test::ServedFolder> server = test::served_folder(kind);
      if (!server) return;
      const std::string folder = "load-" + std::to_string(getpid());
      const std::string uri = server->uri_of(folder);
      const std::string settings = "&timeout=" + std::to_string(server_timeout.count());
      folders_.push_back(uri + settings);
      const std::size_t query = uri.find('?');
      const unsigned turns = workers == 0 ? 1 : 1 + options_.callers / workers;
      load_.places.push_back({name, uri.substr(0, query) + "/", uri.substr(query) + settings,
                              server->directory.empty() ? "" : server->directory + "/" + folder,
                              server_timeout * turns,
                              "?timeout= of " + std::to_string(server_timeout.count()) +
                                  " s for each request, at most " + std::to_string(turns) +
                                  " turns at the workers",
                              false, true});
    };
    served("NFS", "nfs", 16);
    served("CEPH", "ceph", 0);
  }

  void leave_servers() {
    try {
      for (const LoadPlace& place : load_.places) {
        if (!place.is_served) continue;
        for (const bulk::PathEntry& entry : engine_->list(place.path_of("")))
          engine_->unlink(place.path_of(entry.name));
      }
      for (const std::string& folder : folders_)
        engine_->remove_directory(folder);
    } catch (const Error& error) {
      load_.findings.add(std::string("what it made on a server could not be removed: ") +
                         error.what());
    }
  }

  // Calls `work` with every caller, at the same time.
  template <class Work>
  void on_all(const Work& work) {
    std::vector<std::jthread> bulk;
    for (std::size_t i = 0; i < bulk_files_.size(); ++i) {
      bulk.emplace_back([&, i] { work(*callers_[options_.callers + i], *bulk_files_[i]); });
    }
    runtime_->run([&](DeviceThread& self) {
      DeviceFiles files(self.files, memory_.as<unsigned char>() + self.index * caller_bytes,
                        caller_bytes);
      work(*callers_[self.index], files);
    });
  }

  // Threads and connections that end a moment later are no leak.
  static Holdings settled_holdings() {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return holdings_now();
  }

  // A call that does not return cannot be stopped.
  void watch_calls(const std::stop_token& stop) {
    Nanoseconds longest{0};
    for (std::size_t place = 0; place < load_.places.size(); ++place)
      longest = std::max(longest, latencies_->bound_of(place, LoadCall::sync));
    const ReadyTime server("ferry-server");
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      load_.server_ready_ns = server.ns();
      const auto now = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
      for (const auto& caller : callers_) {
        const std::uint64_t began = caller->call_began();
        if (began == 0 || now < began + 3 * static_cast<std::uint64_t>(longest.count())) continue;
        std::fprintf(stderr, "\nFAILED: this hangs: %s\n", caller->doing().c_str());
        for (const std::string& line : load_.findings.lines())
          std::fprintf(stderr, "%s\n", line.c_str());
        std::fflush(nullptr);
        std::_Exit(1);
      }
    }
  }

  std::string line_of(std::size_t sample) const {
    const Holdings& held = samples_[sample];
    std::ostringstream line;
    line << held.descriptors << " descriptors, " << held.threads << " threads, "
         << held.resident_bytes / 1024 << " KiB resident, " << held.heap_bytes / 1024
         << " KiB of the heap, at most " << in_flight_[sample] << " requests in flight ("
         << in_flight_[sample] * sizeof(server::Job) / 1024 << " KiB of the loops' tables)";
    return line.str();
  }

  static std::string text_of(const bench::LatencyHistogram& hand_overs) {
    char text[120];
    const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
    std::snprintf(
        text, sizeof text,
        "a hand-over to a thread and back took %.3f ms (50 %%), %.1f (99 %%), %.1f (longest)",
        ms(hand_overs.percentile(500)), ms(hand_overs.percentile(990)), ms(hand_overs.longest_ns));
    return text;
  }

  LoadReport report(Clock::duration took) const {
    LoadReport made;
    made.problems = load_.findings.lines();
    const std::vector<std::string> late = latencies_->beyond_bounds();
    made.problems.insert(made.problems.end(), late.begin(), late.end());
    Allowance allowance;
    // The pools of two storages for each server, which start when it first holds much up.
    allowance.threads += 2 * pool_threads * folders_.size();
    // The loops' tables, which grow when a storage that hangs holds more requests than before.
    // They start with 256 entries, and grow by as many.
    if (in_flight_.back() > in_flight_[warm_up - 1]) {
      const std::uint64_t tables = 2 * in_flight_.back() * sizeof(server::Job);
      allowance.heap_bytes += tables;
      allowance.resident_bytes += tables;
    }
    // Workers of the bulk engine that started because those before them were held up, each with a
    // queue and a slab of memory.
    const std::uint64_t started = bulk_workers_.back() - bulk_workers_[warm_up - 1];
    allowance.threads += started;
    allowance.descriptors += 2 * started;
    allowance.resident_bytes += started * (bulk_slab_bytes + (std::uint64_t{1} << 20));
    made.growth = growth(samples_, warm_up, allowance);
    std::uint64_t calls = 0;
    for (std::size_t place = 0; place < load_.places.size(); ++place)
      for (std::size_t kind = 0; kind < kinds; ++kind)
        calls += latencies_->of(place, static_cast<LoadCall>(kind)).samples();
    std::ostringstream text;
    text << options_.callers << " device threads and " << options_.bulk_callers
         << " threads with bulk transfers for "
         << std::chrono::duration_cast<std::chrono::seconds>(took).count() << " s, seed "
         << options_.seed << ":\n"
         << calls << " calls, " << load_.failed_calls << " of them failed; " << storages_.injected()
         << " faults injected, " << storages_.hangs() << " hangs, " << storages_.troubles()
         << " troubles of servers; " << load_.checked_bytes << " bytes checked, "
         << load_.findings.count() << " findings\n"
         << "after the warm-up: " << line_of(warm_up - 1) << "\n"
         << "at the end:        " << line_of(samples_.size() - 1) << "\n"
         << latencies_->table(bystander_->calls()) << "plain: system calls beside the load; "
         << text_of(bystander_->hand_overs()) << "\n"
         << "the longest calls on storages that do not hang:\n"
         << load_.slow.text();
    made.text = text.str();
    return made;
  }

  const LoadOptions options_;
  std::mutex kept_mutex_;
  Kept kept_;
  const test::ScratchDirectory disk_{test::build_folder()};
  const std::unique_ptr<test::ScratchDirectory> memory_folder_ =
      access("/dev/shm", W_OK) == 0 ? std::make_unique<test::ScratchDirectory>("/dev/shm")
                                    : nullptr;
  Load load_;
  std::vector<std::string> folders_;  // made on servers
  std::unique_ptr<Latencies> latencies_;
  std::unique_ptr<Bystander> bystander_;
  FaultyStorages storages_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<bulk::Engine> engine_;
  Buffer memory_;
  std::vector<std::unique_ptr<LoadCaller>> callers_;
  std::vector<std::unique_ptr<BulkFiles>> bulk_files_;
  std::vector<Holdings> samples_;
  // At each sample: the most requests that the server's loops have had in flight at once.
  std::vector<std::uint64_t> in_flight_;
  std::vector<std::uint64_t> bulk_workers_;
};

}  // namespace

LoadReport run_load(const LoadOptions& options) {
  return LoadRun(options).run();
}

}  // namespace ferry::load
