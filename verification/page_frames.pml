/* Pins, the table, and reusing frames: frames.hpp and page_table.hpp of the cache. */

#if MUTATION == PIN_UNCHECKED
#define PIN_IS_GOOD(f, page) 1
#else
#define PIN_IS_GOOD(f, page) HOLDS(f, page)
#endif

inline unpin(f) { atomic { assert(pins[f] > 0); pins[f]--; f = NONE } }

/* Scans the table entry by entry. An entry may be stale when its frame is pinned, and a page that
 * moves may be missed. Checking the key in the step of the pin is no simplification: the key cannot
 * change between the pin and `taken`. */
inline find(page, f) {
  f = 0;
  do
  :: atomic { f == FRAMES -> f = NONE; break }
  :: atomic { f < FRAMES && entry[f] != (page) + 1 -> f++ }
  :: atomic { f < FRAMES && entry[f] == (page) + 1 -> skip }
     atomic {
       pins[f]++;
       if
       :: PIN_IS_GOOD(f, page) -> break
       :: else
       fi
     }
     atomic { pins[f]--; f++ }
  od
}

/* A reader's marks: mark[] of its group. */
#if MUTATION == MARKS_BEFORE_TAKEN
#define MARK_SEEN(group) early[group]
#else
#define MARK_SEEN(group) mark[group]
#endif

#if MUTATION == EVICT_FLIGHT
#define IDLE(f) ((pins[f] == 0 && !HAS(f, TAKEN | TRANSFERS)) || (named[f] != 0 && !HAS(f, TAKEN)))
#elif MUTATION == EVICT_PINNED
#define IDLE(f) (!HAS(f, TAKEN | TRANSFERS))
#else
#define IDLE(f) (pins[f] == 0 && !HAS(f, TAKEN | TRANSFERS))
#endif
#if MUTATION == EVICT_DIRTY
#define CLEAN(f) IDLE(f)
#else
#define CLEAN(f) (IDLE(f) && !HAS(f, DIRTY))
#endif

inline leave_table(f) {
  if
  :: HAS(f, ORPHAN) -> assert(entry[f] == 0)
  :: else -> !locked[key[f]]; assert(entry[f] == key[f] + 1); entry[f] = 0
  fi
}
inline give_away(f) {
#if MARKS
  assert(copying[0] != f + 1 && copying[1] != f + 1); /* F1 */
#endif
#if FLIGHTS
  assert(named[f] == 0); /* X2 */
#endif
  ranges[f] = 0;
  state[f] = TAKEN;
#if MUTATION == RESET_DROPS_PINS
  pins[f] = 0;
#endif
  data[f * 2] = RUBBISH;
  data[f * 2 + 1] = RUBBISH
}

#if MARKS == 2
inline barrier_everywhere() { d_step { mark[0] = stored[0]; mark[1] = stored[1] } }
#endif

/* The end of evict(). One step saw the state word clean and changed it. A frame that a reader has
 * marked becomes an orphan, and `f` NONE. */
inline finish_take(f) {
#if MARKS
#if MUTATION == ORPHAN_MARKS_IGNORED
  atomic { unlooked = HAS(f, ORPHAN); leave_table(f) }
#else
  atomic { leave_table(f) }
#endif
#if MARKS == 2 && MUTATION != BARRIER_SKIPPED
  barrier_everywhere();
#endif
  atomic { marked = (MARK_SEEN(0) == f + 1) }
#if MUTATION != ONE_MARK_LOOKED_AT
  atomic { marked = (marked || MARK_SEEN(1) == f + 1) }
#endif
#if MUTATION == ORPHAN_MARKS_IGNORED
  d_step { marked = (marked && !unlooked); unlooked = 0 }
#endif
  if
  :: marked ->
     d_step {
       marked = 0;
       ranges[f] = 0;
#if MUTATION == MARKED_DROPS_PINS
       pins[f] = 0;
#endif
#if MUTATION == MARKED_NO_ORPHAN
       state[f] = state[f] & (255 - TAKEN);
#else
       state[f] = ORPHAN;
#endif
       f = NONE
     }
  :: else -> d_step { give_away(f) }
  fi
#else
  atomic { leave_table(f); give_away(f) }
#endif
}

#define NO_FREE (!HAS(0, FREE) && !HAS(1, FREE))

/* A frame for a missed page; there is one per page, so only the Evictor must write back. A failed
 * look waits. */
inline take(page, f) {
#if MUTATION == MARKS_BEFORE_TAKEN
  d_step { early[0] = mark[0]; early[1] = mark[1] }
#endif
  atomic {
    if
    :: HAS(0, FREE) -> state[0] = TAKEN; f = 0
    :: HAS(1, FREE) -> state[1] = TAKEN; f = 1
    :: NO_FREE && CLEAN(0) -> state[0] = state[0] | TAKEN; f = 0
    :: NO_FREE && CLEAN(1) -> state[1] = state[1] | TAKEN; f = 1
    :: NO_FREE && !CLEAN(0) && !CLEAN(1) && FOUND(page) -> goto again
    fi
  }
  if
  :: entry[f] != 0 || HAS(f, ORPHAN) ->
     finish_take(f)
#if MARKS
     if
     :: f == NONE -> goto again
     :: else
     fi
#endif
  :: else
  fi
}
#if FLIGHTS
/* The same without waiting; `f` may be NONE. */
inline take_at_once(f) {
  atomic {
    if
    :: HAS(0, FREE) -> state[0] = TAKEN; f = 0
    :: HAS(1, FREE) -> state[1] = TAKEN; f = 1
    :: NO_FREE && CLEAN(0) -> state[0] = state[0] | TAKEN; f = 0
    :: NO_FREE && CLEAN(1) -> state[1] = state[1] | TAKEN; f = 1
    :: NO_FREE && !CLEAN(0) && !CLEAN(1) -> f = NONE
    fi
  }
  if
  :: f != NONE && (entry[f] != 0 || HAS(f, ORPHAN)) -> finish_take(f)
  :: else
  fi
}
#endif
inline give_back(f) { d_step { state[f] = TAKEN | FREE; f = NONE } }

/* Under the lock of the page's bucket, whose holder alone enters the page. Goes to `again` if it is
 * there; then the frame was returned. */
inline insert(page, f, flags) {
#if MUTATION == INSERT_UNLOCKED
  atomic {
    if
    :: FOUND(page) -> give_back(f); goto again
    :: else
    fi
  }
#endif
  atomic {
    !locked[page];
    if
    :: FOUND(page) && MUTATION != INSERT_UNCHECKED && MUTATION != INSERT_UNLOCKED ->
       give_back(f);
       goto again
    :: else ->
       locked[page] = 1;
       key[f] = page;
       assert(entry[f] == 0);
#if MUTATION == LIVE_BEFORE_ENTERED
       state[f] = (state[f] & (255 - TAKEN)) | (flags);
       pins[f]++
#else
       entry[f] = (page) + 1
#endif
    fi
  }
  d_step {
#if MUTATION == LIVE_BEFORE_ENTERED
    entry[f] = (page) + 1;
#else
    assert(!HOLDS(0, page) && !HOLDS(1, page)); /* T1 */
    state[f] = (state[f] & (255 - TAKEN)) | (flags);
    pins[f]++;
#endif
    locked[page] = 0
  }
}

inline make_orphan(f) {
#if MUTATION == ORPHAN_STAYS_LISTED
  atomic { state[f] = state[f] | ORPHAN }
#else
  atomic {
    !locked[key[f]];
    if
    :: HAS(f, ORPHAN)
    :: else ->
       locked[key[f]] = 1;
       state[f] = state[f] | ORPHAN
    fi
  }
  atomic {
    if
    :: entry[f] != 0 -> entry[f] = 0; locked[key[f]] = 0
    :: else
    fi
  }
#endif
}
