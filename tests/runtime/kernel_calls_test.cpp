// Random calls (support/random_calls.hpp) of threads and of groups of lanes, on the `cpu` device,
// on a mock GPU and, by tests/cuda/device_tests.cu, in kernels.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/machines.hpp"
#include "support/random_calls_host.hpp"

namespace ferry::kernel_calls_test {
namespace {

template <class Place>
std::uint64_t calls_of_a_group() {
  return test::scaled(3000 / Place::Machine::cost_of(Place::Kind::lanes));
}

// `run(program)` on as many groups as the machine is tested with.
template <class Place, class Run>
void expect_random_calls_to_agree(typename Place::Machine& machine, Run run) {
  using Machine = typename Place::Machine;
  const test::ScratchDirectory directory;
  test::Random random;
  test::RandomFiles files(Machine::groups);
  std::vector<Buffer> inside;
  for (std::uint32_t i = 0; i < Machine::groups; ++i) {
    const std::string path = directory / std::to_string(i);
    inside.push_back(machine.runtime().allocate(test::calls_memory_bytes));
    files.add(path, path, machine.address(inside[i].template as<unsigned char>()), random.fork(),
              true);
  }
  EXPECT_EQ(test::make_random_calls(files, machine.context(), calls_of_a_group<Place>(), run), "");
}

template <class Machine>
test::MachineOptions options(std::uint32_t services) {
  test::MachineOptions wishes;
  wishes.groups = Machine::groups;
  wishes.services = services;
  wishes.arena_bytes = (Machine::groups + 4) * test::calls_memory_bytes;
  return wishes;
}

template <class Place>
class KernelCalls : public testing::Test {};
TYPED_TEST_SUITE(KernelCalls, test::Everywhere, test::NameOfPlace);

TYPED_TEST(KernelCalls, AgreeWithAModel) {
  using Machine = typename TypeParam::Machine;
  Machine machine(options<Machine>(0));
  expect_random_calls_to_agree<TypeParam>(machine, [](const test::RandomCallsProgram& program) {
    test::run_groups<typename TypeParam::Kind>(Machine::groups, program);
  });
  test::expect_clean_end(machine);
}

TYPED_TEST(KernelCalls, AgreeWithAModelBesideServices) {
  using Machine = typename TypeParam::Machine;
  Machine machine(options<Machine>(2));
  expect_random_calls_to_agree<TypeParam>(machine, [&](const test::RandomCallsProgram& program) {
    machine.template run_with_services<typename TypeParam::Kind>(Machine::groups, program);
  });
  // Of a few calls none may be a service's.
  if (calls_of_a_group<TypeParam>() >= 50) {
    EXPECT_GT(machine.runtime().statistics().served_calls, 0U);
  }
  test::expect_clean_end(machine);
}

}  // namespace
}  // namespace ferry::kernel_calls_test
