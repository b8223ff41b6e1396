#include "collective/team.hpp"

#include <array>
#include <random>

#include <sched.h>
#include <unistd.h>

#include "collective/world.hpp"

namespace ferry::test {
namespace {

// Binds this rank to one CPU for its lifetime.
class BoundTo {
 public:
  explicit BoundTo(int cpu) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    is_bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~BoundTo() { sched_setaffinity(0, sizeof before_, &before_); }
  BoundTo(const BoundTo&) = delete;
  BoundTo& operator=(const BoundTo&) = delete;

  bool is_bound() const { return is_bound_; }

 private:
  cpu_set_t before_{};
  bool is_bound_ = false;
};

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

// How many ranks on this rank's node have passed the same CPU.
int ranks_on(int cpu) {
  std::vector<int> cpus(static_cast<std::size_t>(ranks()));
  world().gather(&cpu, sizeof cpu, cpus.data());
  int count = 0;
  for (int other = 0; other < ranks(); ++other)
    count += world().is_near(other) && cpus[static_cast<std::size_t>(other)] == cpu ? 1 : 0;
  return count;
}

// Ranks share only the CPU that they are bound to, be it each one's or one for all.
void check_bound_to(int cpu) {
  const BoundTo bound(cpu);
  ASSERT_TRUE(bound.is_bound());
  const collective::Team team(MPI_COMM_WORLD);
  EXPECT_EQ(team.has_cpu(), ranks_on(cpu) == 1);
  EXPECT_FALSE(team.has_two_cpus());
}

TEST(Team, RanksThatAreBoundShareOnlyTheCpuThatTheyAreBoundTo) {
  const std::vector<int> usable = usable_cpus();
  check_bound_to(usable[static_cast<std::size_t>(rank()) % usable.size()]);
}

TEST(Team, RanksThatAreAllBoundToOneCpuHaveNoneToThemselves) {
  int cpu = usable_cpus().front();
  world().broadcast(&cpu, sizeof cpu);
  check_bound_to(cpu);
}

TEST(Team, ManyMessagesArriveWhetherOrNotRanksSleep) {
  const collective::Team team(MPI_COMM_WORLD);
  for (std::int64_t round = 0; round < 100; ++round) {
    std::int64_t largest = rank() + round;
    team.maximum(std::span(&largest, 1));
    ASSERT_EQ(largest, ranks() - 1 + round);
  }
}

// From the agreement Team::shared_from on through shared memory, if the ranks share a node; what is
// too long for it by messages, between the others.
TEST(Team, AgreementsOfManyKindsAreRight) {
  const collective::Team team(MPI_COMM_WORLD);
  std::mt19937_64 random(static_cast<std::uint64_t>(rank()));
  for (std::int64_t round = 1; round <= 300; ++round) {
    if (random() % 20 == 0) usleep(static_cast<useconds_t>(random() % 2000));
    std::vector<std::int64_t> maxima;
    for (std::int64_t i = 0; i < (round % 10 == 0 ? 9 : round % 9); ++i)
      maxima.push_back(i % 2 == 0 ? rank() + round : -rank() * round);
    const auto count = std::ssize(maxima);
    team.maximum(maxima);
    ASSERT_EQ(std::ssize(maxima), count);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(maxima[static_cast<std::size_t>(i)], i % 2 == 0 ? ranks() - 1 + round : 0);
    std::array<double, 3> sums{1.0, static_cast<double>(rank()), static_cast<double>(round)};
    team.sum(sums);
    ASSERT_EQ(sums[0], ranks());
    ASSERT_EQ(sums[1], ranks() * (ranks() - 1) / 2.0);
    ASSERT_EQ(sums[2], static_cast<double>(round * ranks()));
    std::array<double, 1> largest{-1.0 - rank()};
    team.maximum(largest);
    ASSERT_EQ(largest[0], -1.0);
  }
}

}  // namespace
}  // namespace ferry::test
