// The states of a loop's gate: which changes there are, from where, and that there are no others.
#include "server/gate.hpp"

#include <gtest/gtest.h>

namespace ferry::server {
namespace {

using State = Gate::State;

void bring_to(State state, Gate& gate) {
  EXPECT_TRUE(state != State::storage || gate.enter());
  EXPECT_TRUE(state != State::closed || gate.close());
  ASSERT_EQ(gate.state(), state);
}

TEST(Gate, ChangesAsItsTableSaysAndNotOtherwise) {
  struct Rule {
    State from;
    bool (Gate::*change)();
    State to;  // as it was: refused
  };
  const Rule rules[] = {
      {State::open, &Gate::enter, State::storage},
      {State::storage, &Gate::enter, State::storage},
      {State::closed, &Gate::enter, State::closed},
      {State::open, &Gate::close, State::closed},
      {State::storage, &Gate::close, State::storage},
      {State::closed, &Gate::close, State::closed},
  };
  for (const Rule& rule : rules) {
    Gate gate;
    bring_to(rule.from, gate);
    EXPECT_EQ((gate.*rule.change)(), rule.from != rule.to);
    EXPECT_EQ(gate.state(), rule.to);
    if (rule.from != State::open) {
      EXPECT_THROW(Gate::Section{gate}, Gate::Closed);
    }
    EXPECT_EQ(gate.state(), rule.to);
  }
}

TEST(Gate, OpensWhenASectionEnds) {
  Gate gate;
  try {
    const Gate::Section section(gate);
    EXPECT_EQ(gate.state(), State::storage);
    throw 1;
  } catch (int) {
    EXPECT_EQ(gate.state(), State::open);
  }
}

}  // namespace
}  // namespace ferry::server
