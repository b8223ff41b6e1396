#include "load/faulty_storages.hpp"

#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "storage/router.hpp"

namespace ferry::load {
namespace {

FaultyStorages* faulty = nullptr;

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sleeps until then, or until it should stop.
void sleep_for(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

FaultyStorages::FaultyStorages(std::uint64_t seed) : random_(seed) {
  faulty = this;
}

FaultyStorages::~FaultyStorages() {
  faulty = nullptr;
}

std::unique_ptr<storage::Storage> FaultyStorages::wrap(std::unique_ptr<storage::Storage> real) {
  if (faulty == nullptr) return real;
  auto files = std::make_unique<test::NthStorage>(std::move(real));
  test::NthStorage* const its_files = files.get();
  auto both = std::make_unique<test::TwoStorages>(faulty->random_.fork(), std::move(files));
  faulty->made_.push_back({both.get(), its_files});
  return both;
}

void FaultyStorages::start(std::chrono::milliseconds longest_hang, const std::string& trouble,
                           std::chrono::milliseconds pause) {
  for (const Made& one : made_) {
    test::FailingStorage::Faults& faults = one.both->failing().faults;
    faults.reads = 50;
    faults.writes = 30;
    faults.short_reads = 40;
    faults.short_writes = 40;
    faults.syncs = 20;
    faults.delays = 10;
  }
  const auto begin = [this](auto work) {
    threads_.emplace_back(
        [work, random = random_.fork()](const std::stop_token& stop) { work(stop, random); });
  };
  begin([this](const std::stop_token& stop, test::Random random) {
    fail_operations(stop, std::move(random));
  });
  begin([this, longest_hang, pause](const std::stop_token& stop, test::Random random) {
    hang(stop, std::move(random), longest_hang, pause);
  });
  if (trouble.empty()) return;
  begin([this, trouble, pause](const std::stop_token& stop, const test::Random&) {
    make_trouble(stop, trouble, pause);
  });
}

void FaultyStorages::stop() {
  for (std::jthread& thread : threads_)
    thread.request_stop();
  threads_.clear();
  for (const Made& one : made_) {
    one.both->failing().faults.stop();
    one.files->point.disarm();
  }
}

std::uint64_t FaultyStorages::injected() const {
  std::uint64_t sum = struck_;
  for (const Made& one : made_)
    sum += one.both->failing().injected;
  return sum;
}

std::uint64_t FaultyStorages::hung_ns() const {
  const std::int64_t hung = hung_;
  return static_cast<std::uint64_t>(hung < 0 ? hung + now_ns() : hung);
}

void FaultyStorages::fail_operations(const std::stop_token& stop, test::Random random) {
  while (!stop.stop_requested()) {
    for (const Made& one : made_) {
      test::NthPoint& point = one.files->point;
      if (point.armed() && !point.struck()) continue;
      if (point.struck()) ++struck_;
      one.files->mode = random.pick(test::fault_modes);
      one.files->error = random.pick(test::fault_errors);
      point.arm(random.between(1, 300));
    }
    sleep_for(stop, std::chrono::milliseconds(1));
  }
}

void FaultyStorages::hang(const std::stop_token& stop, test::Random random,
                          std::chrono::milliseconds longest, std::chrono::milliseconds pause) {
  while (!stop.stop_requested()) {
    sleep_for(stop, pause);
    const Made& one = random.pick(made_);
    hung_ -= now_ns();
    one.both->failing().all_hang = true;
    ++hangs_;
    // One in ten is as long as they get.
    sleep_for(stop, random.one_in(10) ? longest : longest / 10);
    one.both->failing().all_hang = false;
    hung_ += now_ns();
  }
}

void FaultyStorages::make_trouble(const std::stop_token& stop, const std::string& command,
                                  std::chrono::milliseconds pause) {
  while (!stop.stop_requested()) {
    if (std::system(command.c_str()) == 0) ++troubles_;
    sleep_for(stop, pause);
  }
}

}  // namespace ferry::load

// The linker puts these in the place of storage::make_router(): --wrap.
namespace ferry::storage {
std::unique_ptr<Storage> real_router(const RouterOptions& options) asm(
    "__real__ZN5ferry7storage11make_routerERKNS0_13RouterOptionsE");
std::unique_ptr<Storage> faulty_router(const RouterOptions& options) asm(
    "__wrap__ZN5ferry7storage11make_routerERKNS0_13RouterOptionsE");
std::unique_ptr<Storage> faulty_router(const RouterOptions& options) {
  return load::FaultyStorages::wrap(real_router(options));
}
}  // namespace ferry::storage
