#include "base/forks.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/in_a_child.hpp"

namespace ferry {
namespace {

struct Counted {
  std::mutex mutex;
  int value = 0;
};

TEST(Forks, AChildKnowsThatItsParentMadeAnObject) {
  const MadeHere made_here;
  EXPECT_TRUE(made_here);
  EXPECT_EQ(test::in_a_child([&] { return made_here ? 1 : 0; }), 0);
  EXPECT_TRUE(made_here);
}

TEST(Forks, ThereIsOneOfEachTypeInAProcess) {
  std::vector<Counted*> found(4);
  std::vector<std::thread> threads;
  for (Counted*& one : found)
    threads.emplace_back([&one] { one = &of_this_process<Counted>(); });
  for (std::thread& thread : threads)
    thread.join();
  for (Counted* one : found)
    EXPECT_EQ(one, found[0]);
}

TEST(Forks, AChildHasOneOfItsOwnThatNobodyHasLocked) {
  const std::lock_guard lock(of_this_process<Counted>().mutex);
  of_this_process<Counted>().value = 7;
  EXPECT_EQ(test::in_a_child([] {
              Counted& own = of_this_process<Counted>();
              return own.mutex.try_lock() && own.value == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(of_this_process<Counted>().value, 7);
}

}  // namespace
}  // namespace ferry
