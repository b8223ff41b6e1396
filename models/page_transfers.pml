/* Transfers under way, and waiting for them: transfers.hpp of the cache. */

/* Waits until none of the flags is set. What follows looks at the state once more, in a step of its
 * own, and comes back here if they are set again: the load that ends the wait is that look. */
inline wait_while(f, flags) {
#if PARK
  do
  :: atomic { !HAS(f, flags) -> break }
  :: atomic {
       HAS(f, flags);
#if MUTATION != WAKE_READ_LATE
       slept = wake[f]
#endif
     }
     atomic {
#if MUTATION != WAITED_NOT_SET
       state[f] = state[f] | WAITED;
#endif
       cleared = (!HAS(f, flags) && MUTATION != NO_LOOK_AFTER_WAITED)
     }
     if
     :: cleared -> d_step { cleared = 0; slept = 0 }
     :: else ->
#if MUTATION == WAKE_READ_LATE
        slept = wake[f];
#endif
        d_step {
          if
          :: wake[f] == slept -> asleep[me] = 1; sleeps_on[me] = f
          :: else
          fi;
          slept = 0
        }
        d_step { !asleep[me] -> sleeps_on[me] = 0 }
     fi
  od
#else
  skip
#endif
}

/* To be first in the step after wait_while. */
#if PARK
#define NOT_YET(f, flags) HAS(f, flags)
#else
#define NOT_YET(f, flags) 0
#endif

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
  if
  :: woken ->
     d_step {
       woken = 0;
#if MUTATION != WAKE_UNCOUNTED
       wake[f]++
#endif
     }
#if MUTATION != WAKE_SKIPPED
     d_step {
       asleep[0] = asleep[0] && sleeps_on[0] != f;
       asleep[1] = asleep[1] && sleeps_on[1] != f;
       asleep[2] = asleep[2] && sleeps_on[2] != f;
       asleep[3] = asleep[3] && sleeps_on[3] != f;
       asleep[4] = asleep[4] && sleeps_on[4] != f;
       asleep[5] = asleep[5] && sleeps_on[5] != f;
       asleep[6] = asleep[6] && sleeps_on[6] != f
     }
#endif
  :: else
  fi
#else
  d_step {
    assert(HAS(f, flags));
    state[f] = (state[f] & (255 - (flags))) | (also)
  }
#endif
}

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
