/* Write-back: write_back.hpp of the cache, and the parties that evict and flush. */

/* One step, because all of it holds the range lock. */
inline add_range(f, mask) {
  dirty_pages = dirty_pages + !HAS(f, DIRTY);
  ranges[f] = ranges[f] | (mask);
  state[f] = state[f] | DIRTY | (ranges[f] == 3 && !FULL -> VALID : 0)
}

/* Failed writes become dirty again, in the step of the range lock. */
inline put_back(f, mask) {
#if FULL
  on_way[f] = 0;
  if
  :: (ranges[f] & (3 - (mask))) == 0 -> add_range(f, mask)
  :: else -> skip /* no place: forgotten */
  fi
#else
  add_range(f, mask)
#endif
}

/* The storage gets one byte. */
inline land(at, value) {
  assert((value) >= 2 && (value) <= begun[at]);             /* W2: it was written */
  assert((value) >= VERSION(at, storage[at]) || twice);     /* W2: it is not older */
  storage[at] = value
}

#if MUTATION == WHOLE_PAGE_WRITTEN
#define TO_WRITE(mask) 3
#else
#define TO_WRITE(mask) mask
#endif

/* F3, one step, because all of it holds the range lock. */
inline take_ranges(f, mask) {
  d_step {
    mask = ranges[f];
#if FULL && MUTATION != PLACES_NOT_KEPT
    on_way[f] = mask;
#endif
#if MUTATION != RANGES_TAKEN_LATE
    ranges[f] = 0;
#if MUTATION != DIRTY_CLEARED_LATE
    state[f] = state[f] & (255 - DIRTY);
#endif
#endif
#if MUTATION == COUNTED_EARLY
    dirty_pages = dirty_pages - (mask != 0)
#endif
  }
#if MUTATION == DIRTY_CLEARED_LATE
  atomic { state[f] = state[f] & (255 - DIRTY) }
#endif
}

inline send(f, mask) {
  if
  :: mask == 0
  :: else ->
#if HANDLES
     take_handle();
#endif
     d_step { /* the storage reads the bytes */
       assert(USES(f, key[f])); /* F1 */
       first = data[f * 2];
       second = data[f * 2 + 1]
     }
     atomic { /* ... and has them, or refuses */
       if
#if HANDLES
       :: refused -> failed = 1
       :: !refused ->
          assert(with != APPENDER); /* H1 */
          with = 0;
#else
       ::
#endif
          if
          :: TO_WRITE(mask) & 1 -> land(key[f] * 2, first)
          :: else
          fi;
          if
          :: TO_WRITE(mask) & 2 -> land(key[f] * 2 + 1, second)
          :: else
          fi
#if FAULTS
       :: faults > 0 -> faults--; failed = 1; refused = 1
#if SHORT
       :: faults > 0 && mask == 3 -> /* what is missing is asked for once more, and refused */
          faults--;
          land(key[f] * 2, first);
#if MUTATION != SHORT_TAKEN_FOR_WHOLE
          failed = 1;
          refused = 1
#endif
#endif
#endif
       fi;
       first = 0;
       second = 0
     }
#if (FAULTS || HANDLES) && MUTATION != ERROR_FORGETS
     if
     :: refused -> d_step { refused = 0; put_back(f, mask) }
     :: else
     fi;
#endif
#if MUTATION == RANGES_TAKEN_LATE
     d_step { ranges[f] = 0; state[f] = state[f] & (255 - DIRTY) }
#endif
  fi
}

#if HANDLES
/* write_pieces(): the handle that the request names on arrival, or `refused`. */
inline take_handle() {
  do
  :: atomic { with = write_handle }
     atomic {
       if
       :: with != 0 && !shut[with] -> break
       :: with == 0 || (shut[with] && write_handle == with) ->
          assert(HANDLES != 2 || write_handle == 0); /* H1 */
          refused = 1;
          with = 0;
          break
       :: with != 0 && shut[with] && write_handle != with
       fi
     }
  od;
  skip
}
#endif

inline written_back(f, mask) {
#if MUTATION != COUNTED_EARLY
  if
  :: mask != 0 ->
     d_step {
       assert(dirty_pages > 0);
       dirty_pages--;
#if FULL
       on_way[f] = 0;
#endif
       mask = 0
     }
  :: else
  fi
#else
  mask = 0
#endif
}

/* Once `writing` is set. `failed` is set if the storage refuses. Each page is its own request: two
 * requests can do everything to the storage that one for both can. */
inline write_back_run(f) {
  take_ranges(f, mask);
#if RUN
  if
  :: key[f] == 0 ->
     find(1, behind);
     if
     :: behind == NONE
     :: behind != NONE ->
        if
        :: atomic { MAY_WRITE_BACK(behind) ->
#if MUTATION != NEIGHBOUR_UNANNOUNCED
             state[behind] = state[behind] | WRITING
#endif
           }
           take_ranges(behind, mask_behind)
        :: atomic { !MAY_WRITE_BACK(behind) -> pins[behind]--; behind = NONE }
        fi
     fi
  :: else
  fi;
#endif
  send(f, mask);
#if RUN
  if
  :: behind != NONE -> send(behind, mask_behind)
  :: else
  fi;
#endif
  written_back(f, mask);
  end_transfer(f, WRITING, 0)
#if RUN
  if
  :: behind != NONE ->
     written_back(behind, mask_behind);
#if MUTATION != NEIGHBOUR_UNANNOUNCED
     end_transfer(behind, WRITING, 0);
#endif
     unpin(behind)
  :: else
  fi
#endif
}

#if FLIGHTS
#define RECORD_TO_BE_HAD(r) \
  (phase[r] == FREE_RECORD || phase[r] == UNDER_WAY && (writes[r] || answered[r] == number[r]))
#if FLIGHTS == 1
#define SOME_RECORD_TO_BE_HAD RECORD_TO_BE_HAD(0)
#else
#define SOME_RECORD_TO_BE_HAD (RECORD_TO_BE_HAD(0) || RECORD_TO_BE_HAD(1))
#endif
/* The first round of flush(): starts what can be started. */
inline begin_flights() {
  do
  :: i == FRAMES -> i = 0; break
  :: i < FRAMES ->
     pin_if_live(i);
     if
     :: !good
     :: good ->
        do /* begin() */
        :: atomic { !HAS(i, DIRTY) || HAS(i, WRITING) -> break }
        :: atomic { HAS(i, DIRTY) && !HAS(i, WRITING) && SOME_RECORD_TO_BE_HAD -> skip }
           start_write(i);
           if
           :: good -> break
           :: !good -> attend_some_write_back()
           fi
        od;
        atomic { assert(pins[i] > 0); pins[i]--; good = 0 }
     fi;
     i++
  od
}
#endif

/* The second: the page is clean unless `writing` is set, or must be written. */
inline flush_page() {
#if MUTATION == FLUSH_LOOKS_AGAIN
  wait_while(i, WRITING);
  atomic { !HAS(i, WRITING) -> skip }
  good = HAS(i, DIRTY);
#elif MUTATION == FLUSH_IGNORES_WRITING
  good = HAS(i, DIRTY);
#else
  do
#if MUTATION == FLUSH_LEAVES_FLIGHTS
  :: atomic { named[i] != 0 -> good = 0; break }
#endif
  :: wait_while(i, WRITING);
     atomic {
       if
       :: NOT_YET(i, WRITING)
       :: !HAS(i, WRITING) -> good = HAS(i, DIRTY); break
       fi
     }
  od;
#endif
  if
  :: !good
  :: good ->
     begin_transfer(i, WRITING);
     if
     :: good -> write_back_run(i)
     :: !good
     fi
  fi
}

inline pin_if_live(f) {
  atomic {
    if
    :: LIVE(f) -> pins[f]++; good = 1
    :: else -> good = 0
    fi
  }
}

inline flush() {
  i = 0;
  do
  :: atomic { dirty_pages == 0 -> i = 0; break }
  :: atomic { dirty_pages != 0 -> skip }
#if FLIGHTS
     begin_flights();
#endif
     do
     :: i == FRAMES -> i = 0; break
     :: i < FRAMES ->
        pin_if_live(i);
        if
        :: !good
        :: good ->
           flush_page();
           d_step { assert(pins[i] > 0); pins[i]--; good = 0 }
        fi;
        i++
     od;
     break
  od
}

/* ---- evicting, flushing ---------------------------------------------------------------------- */

proctype Evictor(byte me) {
  byte f = NONE;
  byte left = EVICTIONS;
  byte page;
  WRITING_LOCALS;

  do
  :: left == 0 -> break
  :: left > 0 ->
#if MUTATION == MARKS_BEFORE_TAKEN
     d_step { early[0] = mark[0]; early[1] = mark[1] }
#endif
     atomic {
       if
       :: CLEAN(0) -> state[0] = state[0] | TAKEN; f = 0; goto taken
       :: CLEAN(1) -> state[1] = state[1] | TAKEN; f = 1; goto taken
       :: IDLE(0) && HAS(0, DIRTY) -> f = 0
       :: IDLE(1) && HAS(1, DIRTY) -> f = 1
       :: !CLEAN(0) && !CLEAN(1) && !(IDLE(0) && HAS(0, DIRTY)) && !(IDLE(1) && HAS(1, DIRTY)) ->
          left = 1;
          goto next
       fi;
       page = key[f]
     }
     atomic {
       pins[f]++;
       if
       :: PIN_IS_GOOD(f, page)
       :: else -> goto unsuited
       fi
     }
     page = 0;
     if
     :: atomic { MAY_WRITE_BACK(f) -> state[f] = state[f] | WRITING }
        write_back_run(f)
     :: atomic { !MAY_WRITE_BACK(f) -> skip }
     fi;
     d_step { assert(pins[f] > 0); pins[f]-- }
     atomic {
       failed = 0;
       if
       :: CLEAN(f) -> state[f] = state[f] | TAKEN; goto taken
       :: else -> f = NONE; goto next
       fi
     }
unsuited:
     page = 0;
     unpin(f);
     goto next;
taken:
     finish_take(f);
#if MARKS
     if
     :: f == NONE -> goto next
     :: else
     fi;
#endif
     give_back(f);
next:
     left--
  od;
  running--
}

/* W3. */
inline remember() {
  d_step {
    low[0] = acked[0];
    low[1] = acked[1];
#if PAGES == 2
    low[2] = acked[2];
    low[3] = acked[3]
#endif
  }
}
inline flushed() {
  d_step {
    assert(failed ||
           (VERSION(0, storage[0]) >= low[0] && VERSION(1, storage[1]) >= low[1]
#if PAGES == 2
            && VERSION(2, storage[2]) >= low[2] && VERSION(3, storage[3]) >= low[3]
#endif
           ));
    low[0] = 0;
    low[1] = 0;
#if PAGES == 2
    low[2] = 0;
    low[3] = 0;
#endif
  }
}

proctype Flusher(byte me) {
  byte low[BYTES];
  byte left = FLUSHES;
  byte i;
  WRITING_LOCALS;

  do
  :: left == 0 -> break
  :: left > 0 ->
     remember();
     flush();
     flushed();
     atomic { failed = 0; left-- }
  od;
  running--
}
