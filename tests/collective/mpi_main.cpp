// Runs GoogleTest on every rank. Rank 0 prints as usual, the others only failures.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>

#include <mpi.h>
#include <unistd.h>

#include "collective/world.hpp"

namespace {

class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override { name_ = test.name(); }
  // Must not ask GoogleTest for anything: it holds its lock.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d, %s: %s:%d: %s\n", ferry::test::rank(), name_.c_str(), result.file_name(),
                result.line_number(), result.message());
    std::fflush(stdout);
  }
  std::string name_;
};

// One seed for all ranks.
void share_seed() {
  const char* given = std::getenv("FERRY_TEST_SEED");
  std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  ferry::test::world().broadcast(&seed, sizeof seed);
  setenv("FERRY_TEST_SEED", std::to_string(seed).c_str(), 1);
  if (ferry::test::rank() == 0) std::printf("%d ranks\n", ferry::test::ranks());
}

}  // namespace

int main(int argc, char** argv) {
  // A rank that fails must not leave others waiting for ever.
  alarm(240);
  // With MPI_THREAD_MULTIPLE, nonblocking transfers have their own thread.
  const bool threads = std::getenv("FERRY_TEST_ONE_THREAD") == nullptr;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  testing::InitGoogleTest(&argc, argv);
  share_seed();
  if (ferry::test::rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
    std::cout.setstate(std::ios::failbit);  // the seeds
  }
  std::int64_t failed = RUN_ALL_TESTS();
  ferry::test::world().maximum(std::span(&failed, 1));
  MPI_Finalize();
  if (!ferry::test::ended_by_finalize.expired()) {
    std::printf("the storage that files share did not end\n");
    ++failed;
  }
  return static_cast<int>(failed);
}
