// A device whose program stores garbage into everything that it can reach, while another device and
// bulk transfers of the same process work on files.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>
#include <ferry/gpu.hpp>

#include "storage/storage.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/kernel_threads.hpp"
#include "support/runtimes.hpp"
#include "support/within.hpp"

namespace ferry::wild_device {
namespace {

using test::pattern;
using test::Random;
using test::same_bytes;

// Works on its own files, and counts what went wrong.
class Bystanders {
 public:
  explicit Bystanders(const test::ScratchDirectory& directory)
      : runtime_(test::cached_options(16, device::Placement::compute)),
        device_([this, path = directory / "device"] { use_device(path); }),
        bulk_([this, path = directory / "bulk"] { use_bulk(path); }) {}
  ~Bystanders() { end(); }

  void end() {
    ending_ = true;
    if (device_.joinable()) device_.join();
    if (bulk_.joinable()) bulk_.join();
  }

  std::atomic<int> rounds{0};
  std::atomic<int> failures{0};

 private:
  void expect(bool holds) {
    if (!holds) ++failures;
  }

  void use_device(const std::string& path) {
    runtime_.run([&](DeviceThread& self) {
      const int file = self.files.open(path.c_str(), O_RDWR | O_CREAT, 0644);
      for (std::uint64_t round = 0; !ending_; ++round) {
        const std::string text = pattern(20'000, round);
        std::string read(text.size(), '\0');
        const auto size = static_cast<std::int64_t>(text.size());
        expect(self.files.pwrite(file, text.data(), text.size(), 0) == size);
        expect(self.files.fsync(file) == 0);
        expect(test::read_file(path) == text);
        expect(self.files.pread(file, read.data(), read.size(), 0) == size && read == text);
        ++rounds;
      }
      expect(self.files.close(file) == 0);
    });
  }

  void use_bulk(const std::string& path) {
    bulk::File file(path, O_RDWR | O_CREAT);
    for (std::uint64_t round = 0; !ending_; ++round) {
      const std::string text = pattern(300'000, round);
      std::string read(text.size(), '\0');
      expect(file.write_at(text.data(), text.size(), 0) == text.size());
      expect(file.read_at(read.data(), read.size(), 0) == read.size() && read == text);
      ++rounds;
    }
  }

  std::atomic<bool> ending_{false};
  Runtime runtime_;
  std::thread device_;
  std::thread bulk_;
};

// Stores anything anywhere from `first` to `end`, at last everywhere.
void store_garbage(unsigned char* first, unsigned char* end, Random& random) {
  const auto bytes = static_cast<std::uint64_t>(end - first);
  const std::uint64_t at = random.below(bytes);
  const std::uint64_t length = std::min(bytes - at, random.below(random.one_in(4) ? bytes : 200));
  const auto value = static_cast<unsigned char>(random.one_in(2) ? random.bits() : 0xff);
  if (random.one_in(3)) {
    std::memset(first + at, value, length);
    return;
  }
  for (std::uint64_t i = 0; i < length; ++i)
    first[at + i] = static_cast<unsigned char>(random.bits());
}

constexpr std::chrono::milliseconds deadline{500};
// The destructor's ten, and time for a busy machine.
constexpr std::chrono::seconds end_max = std::chrono::seconds(10) + test::patience / 4;

class WildDevice : public test::OnMockGpu {
 protected:
#if defined(__SANITIZE_THREAD__)
  void SetUp() override {
    GTEST_SKIP() << "what it stores is a race, and meant to be one";
  }
#endif

  // `last` stores to the end of what it reaches.
  template <class Device>
  void run_wild(Device& device, const device::Context& context, std::uint64_t reach) {
    Bystanders others(directory);
    test::write_file(directory / "own", pattern(10'000, 1));
    const device::ArenaView& arena = context.arena;
    const std::uint64_t shared = arena.layout.local;
    const std::uint64_t rounds = test::scaled(400);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      store_garbage(arena.base, arena.base + std::min(shared, reach), random);
      if (reach > shared) store_garbage(arena.local + shared, arena.local + reach, random);
      storage::Doorbell{&arena.doorbell(0).count}.ring();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const auto begin = std::chrono::steady_clock::now();
    test::within_patience("the end of a wild device", [&] {
      device->shutdown(deadline);
      device.reset();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, end_max);
    const int before = others.rounds;
    EXPECT_TRUE(test::eventually([&] { return others.rounds > before + 2; })) << "they go on";
    others.end();
    EXPECT_EQ(others.failures, 0);
    EXPECT_TRUE(same_bytes(test::read_file(directory / "own"), pattern(10'000, 1)));
  }

  Random random;
  test::ScratchDirectory directory;
};

// All of its memory: rings, cells, the page cache.
TEST_F(WildDevice, OfAGpuHarmsNoOther) {
  RuntimeOptions options = test::small_runtime(1, 4 << 20);
  auto runtime = std::make_unique<GpuRuntime>(options, test::small_gpu());
  const test::KernelThreads kernel(*runtime);
  const device::Context context = kernel.context();
  run_wild(runtime, context, context.arena.layout.geometry.arena_bytes);
}

// What its server reads. The tables of the page cache are used by threads of this process as well:
// they are as safe as its other memory.
TEST_F(WildDevice, OfThisMachinesCoresHarmsNoOther) {
  auto runtime = std::make_unique<Runtime>(test::cached_options(16));
  const device::Context context = runtime->context();
  run_wild(runtime, context, context.arena.layout.local);
}

}  // namespace
}  // namespace ferry::wild_device
