// Small programs with and without a fault that depends on who runs when; instrumented.
#pragma once

namespace ferry::simulator {

// A waiter that looks and then sleeps, and a waker that does not ring if nobody sleeps.
void hand_over_a_word(bool looks_again);
// Two threads add to a counter: with one step, or with two.
void count_up(bool in_one_step);
// Each thread stores its own flag and looks at the other's: not both may find it clear.
void claim_a_place(bool with_barrier);
// Two threads use what the first of them makes, and waits for meanwhile.
void make_once(bool by_call_once);
// A thread stands still, for a CPU or for something else; another asks /proc which of them, as the
// watchdog of a server does, and fails if that is wrong.
void watch_a_thread(bool starves);

}  // namespace ferry::simulator
