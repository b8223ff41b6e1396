// All storages of this program's runtimes and bulk engines fail now and then: the program is linked
// so that storage::make_router() is the one of faulty_storages.cpp. Paths with the prefix
// "failing:" are in memory, with errors, short transfers, delays and hangs. In the others, which
// are Ferry's own, one operation after the other is refused, carried out and reported as failed,
// shortened, or answered with -ETIMEDOUT and carried out later.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "faults/nth_storage.hpp"
#include "support/two_storages.hpp"

namespace ferry::load {

class FaultyStorages {
 public:
  struct Made {
    test::TwoStorages* both;
    test::NthStorage* files;
  };

  // Has the storages that are made in its life. There is one at a time.
  explicit FaultyStorages(std::uint64_t seed);
  ~FaultyStorages();
  FaultyStorages(const FaultyStorages&) = delete;
  FaultyStorages& operator=(const FaultyStorages&) = delete;

  const std::vector<Made>& made() const { return made_; }

  // Begins to inject. The storages must live until stop(). `longest_hang`: of the failing storage;
  // `trouble`: a command that is run again and again, unless it is empty.
  void start(std::chrono::milliseconds longest_hang, const std::string& trouble,
             std::chrono::milliseconds pause);
  void stop();
  std::uint64_t injected() const;
  std::uint64_t hangs() const { return hangs_; }
  // For how long something has hung until now, in all.
  std::uint64_t hung_ns() const;
  std::uint64_t troubles() const { return troubles_; }

  // For make_router().
  static std::unique_ptr<storage::Storage> wrap(std::unique_ptr<storage::Storage> real);

 private:
  void fail_operations(const std::stop_token& stop, test::Random random);
  void hang(const std::stop_token& stop, test::Random random, std::chrono::milliseconds longest,
            std::chrono::milliseconds pause);
  void make_trouble(const std::stop_token& stop, const std::string& command,
                    std::chrono::milliseconds pause);

  test::Random random_;
  std::vector<Made> made_;
  std::vector<std::jthread> threads_;
  std::atomic<std::uint64_t> struck_{0};
  std::atomic<std::uint64_t> hangs_{0};
  // The ns of all hangs; less the time when it began during one, which makes it negative.
  std::atomic<std::int64_t> hung_{0};
  std::atomic<std::uint64_t> troubles_{0};
};

}  // namespace ferry::load
