/* Transfers in flight and waiting for them: transfers.hpp of the cache. For those that no call
 * waits for, see page_flights.pml. */

#if PARK
/* What a party may sleep on: a frame, or a cell (CELL(r)). One step, like the futex call. */
inline rouse(what) {
  d_step {
    asleep[0] = asleep[0] && sleeps_on[0] != what;
    asleep[1] = asleep[1] && sleeps_on[1] != what;
    asleep[2] = asleep[2] && sleeps_on[2] != what;
    asleep[3] = asleep[3] && sleeps_on[3] != what;
    asleep[4] = asleep[4] && sleeps_on[4] != what;
    asleep[5] = asleep[5] && sleeps_on[5] != what;
    asleep[6] = asleep[6] && sleeps_on[6] != what;
    asleep[7] = asleep[7] && sleeps_on[7] != what;
    asleep[8] = asleep[8] && sleeps_on[8] != what;
    asleep[9] = asleep[9] && sleeps_on[9] != what
  }
}
inline sleep_on(what, word) {
  d_step {
    if
    :: word == slept -> asleep[me] = 1; sleeps_on[me] = what
    :: else
    fi;
    slept = 0
  }
  d_step { !asleep[me] -> sleeps_on[me] = 0 }
}
#endif

/* `woken`: another party had set `waited`. */
inline wake_waiters(f) {
  if
  :: woken ->
     d_step {
       woken = 0;
#if MUTATION != WAKE_UNCOUNTED
       wake[f]++
#endif
     }
#if MUTATION != WAKE_SKIPPED
     rouse(f)
#endif
  :: else
  fi
}

inline end_transfer(f, flags, also) {
#if PARK
#if MUTATION == WAITED_LOOKED_AT_EARLY
  atomic { woken = HAS(f, WAITED) }
#endif
  d_step {
#if MUTATION != WAITED_LOOKED_AT_EARLY
    woken = HAS(f, WAITED);
#endif
    assert(HAS(f, flags));
    state[f] = (state[f] & (255 - ((flags) | WAITED))) | (also)
  }
  wake_waiters(f)
#else
  d_step {
    assert(HAS(f, flags));
    state[f] = (state[f] & (255 - (flags))) | (also)
  }
#endif
}

/* Sets `writing` if that needs no waiting. */
#define MAY_WRITE_BACK(f) (HAS(f, DIRTY) && !HAS(f, TRANSFERS | ORPHAN))

#if FLIGHTS
#include "page_flights.pml"
#endif

#if PARK
/* The second part of wait_while(), after it saw flags set and no flight. */
inline sleep_while(f, flags) {
#if MUTATION != WAKE_READ_LATE
  atomic { slept = wake[f] }
#endif
  atomic {
#if MUTATION != WAITED_NOT_SET
    state[f] = state[f] | WAITED;
#endif
    cleared = (!HAS(f, flags) && MUTATION != NO_LOOK_AFTER_WAITED)
  }
#if FLIGHTS && MUTATION != FLIGHT_LOOKED_FOR_ONCE
  atomic { cleared = (cleared || named[f] != 0) } /* X3 */
#endif
  if
  :: cleared -> d_step { cleared = 0; slept = 0 }
  :: else ->
#if MUTATION == WAKE_READ_LATE
     slept = wake[f];
#endif
     sleep_on(f, wake[f])
  fi
}
#endif

/* Waits until none of the flags is set. The next step looks at the state again and returns here if
 * they are set: it is the load that ends the wait. Without PARK a failed look waits; without
 * FLIGHTS too, that step is the whole wait. */
inline wait_while(f, flags) {
#if FLIGHTS
  do
  :: atomic { !HAS(f, flags) -> break }
  :: atomic { HAS(f, flags) && (PARK || named[f] != 0) -> skip }
     atomic { flight = named[f] }
     if
     :: flight != 0 -> attend(flight - 1, named[f] != flight || !HAS(f, flags))
     :: else ->
#if PARK
        sleep_while(f, flags)
#else
        skip
#endif
     fi
  od
#elif PARK
  do
  :: atomic { !HAS(f, flags) -> break }
  :: atomic { HAS(f, flags) -> skip }
     sleep_while(f, flags)
  od
#else
  skip
#endif
}

/* To be first in the step after wait_while. */
#if PARK || FLIGHTS
#define NOT_YET(f, flags) HAS(f, flags)
#else
#define NOT_YET(f, flags) 0
#endif

#if MUTATION == FILL_OVER_WRITERS
#define NO_WRITERS(f) 1
#else
#define NO_WRITERS(f) (writers[f] == 0)
#endif
#if MUTATION == COMPLETE_WHILE_WRITING
#define AGAINST(flag) ((flag) == FILLING -> FILLING : TRANSFERS)
#else
#define AGAINST(flag) TRANSFERS
#endif

/* `good`: whether the flag was set; not on an orphan. */
inline begin_transfer(f, flag) {
  do
  :: wait_while(f, AGAINST(flag));
     atomic {
       if
       :: NOT_YET(f, AGAINST(flag))
       :: !HAS(f, AGAINST(flag)) && HAS(f, ORPHAN) -> good = 0; break
       :: !HAS(f, AGAINST(flag)) && !HAS(f, ORPHAN) && ((flag) == WRITING || NO_WRITERS(f)) ->
          state[f] = state[f] | (flag);
          good = 1;
          break
       fi
     }
  od
}
