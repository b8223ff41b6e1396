/* Flights: transfers that no call waits for (transfers.hpp; started in filling.hpp and
 * write_back.hpp). A record describes the flight and holds its frames; its answer arrives in an
 * unowned cell. Whoever needs one of its frames, or the record, ends it.
 *
 * In the code, a record's phase and its flight's number are one word, so each step here changes
 * both. */

#define PASSED(r, number) (answered[r] >= (number))
#define CELL(r) (FRAMES + (r))
#define OF(r, k) ((r) * 2 + (k)) /* a record has two frames */

/* X3. A party that slept before it could know of the flight looks again. */
inline name_flight(f, r) {
#if PARK && MUTATION == NAMED_AFTER_LOOK
  d_step { woken = HAS(f, WAITED); state[f] = state[f] & (255 - WAITED) }
  atomic { named[f] = (r) + 1 }
  wake_waiters(f)
#elif MUTATION != FLIGHT_UNNAMED
  atomic { assert(named[f] == 0); named[f] = (r) + 1 }
#if PARK && MUTATION != NAMED_SILENTLY
  d_step { woken = HAS(f, WAITED); state[f] = state[f] & (255 - WAITED) }
  wake_waiters(f)
#endif
#else
  skip
#endif
}

inline name_frames(r) {
  name_flight(flying[OF(r, 0)], r);
  if
  :: flying[OF(r, 1)] != NONE -> name_flight(flying[OF(r, 1)], r)
  :: else
  fi
}

/* Starts the flight of a claimed record. */
inline start(r) {
#if MUTATION != NAMED_LATE
  name_frames(r);
#endif
#if PARK
  /* expect(). The server may be between answering the last flight and reading `parked`: whoever
   * clears that wakes in its place. */
  atomic { woken = (parked[r] && MUTATION != PARKED_CLEARED); parked[r] = 0 }
  if
  :: woken -> woken = 0; rouse(CELL(r))
  :: !woken
  fi;
#endif
  atomic { assert(phase[r] == CLAIMED); phase[r] = UNDER_WAY; stale[r] = (inside && CHANGES_FLIGHT(r)) }
  atomic { assert(asked[r] == 0); asked[r] = number[r] }
#if MUTATION == NAMED_LATE
  name_frames(r);
#endif
}

#if MUTATION == FLIGHT_ENDED_TWICE
#define MAY_END(r, was) 1
#elif MUTATION == NUMBER_UNCHECKED
#define MAY_END(r, was) (phase[r] == UNDER_WAY)
#else
#define MAY_END(r, was) (phase[r] == UNDER_WAY && number[r] == (was))
#endif
#if MUTATION == STALE_FILL_KEPT
#define USABLE(r) (!refusal[r])
#elif MUTATION == FAILED_FILL_KEPT
#define USABLE(r) (!(outside_count != before[r] && CHANGES_FLIGHT(r)))
#else
#define USABLE(r) (!refusal[r] && !(outside_count != before[r] && CHANGES_FLIGHT(r)))
#endif

#define FLAG_OF(r) (writes[r] -> WRITING : FILLING)

inline free_record(r) {
  d_step {
    phase[r] = FREE_RECORD;
    flying[OF(r, 0)] = NONE;
    flying[OF(r, 1)] = NONE;
    flying_ranges[OF(r, 0)] = 0;
    flying_ranges[OF(r, 1)] = 0;
    writes[r] = 0;
    before[r] = 0;
    refusal[r] = 0;
    stale[r] = 0
  }
}

/* What failed writes left makes pages dirty again before anyone sees the flight ended. */
inline keep_flight_dirty(r) {
  if
  :: nth < 2 && writes[r] && refusal[r] ->
     d_step {
       if
       :: flying_ranges[OF(r, 0)] != 0 -> put_back(flying[OF(r, 0)], flying_ranges[OF(r, 0)])
       :: else
       fi;
       if
       :: flying[OF(r, 1)] != NONE -> put_back(flying[OF(r, 1)], flying_ranges[OF(r, 1)])
       :: else
       fi
     }
  :: else
  fi
}

/* finish(): ends the flight with this number, unless another party does. */
inline finish(r, was) {
  atomic {
    if
    :: MAY_END(r, was) ->
       assert(phase[r] == UNDER_WAY && answered[r] == number[r]); /* X1 */
       phase[r] = ENDING;
       usable = (!writes[r] && USABLE(r));
       assert(!(usable && stale[r])); /* X4 */
       nth = 0
    :: else -> nth = NONE
    fi
  }
#if (FAULTS || HANDLES) && MUTATION != FAILED_FLIGHT_FORGETS && MUTATION != RANGES_BACK_LATE
  keep_flight_dirty(r);
#endif
#if MUTATION == RECORD_FREED_EARLY
  if
  :: nth == 0 -> atomic { phase[r] = FREE_RECORD }
  :: else
  fi;
#endif
  do
  :: nth >= 2 -> break
  :: nth < 2 && flying[OF(r, nth)] == NONE -> break
  :: atomic {
       nth < 2 && flying[OF(r, nth)] != NONE ->
       ending = flying[OF(r, nth)];
       assert(named[ending] == (r) + 1 && pins[ending] > 0 && HAS(ending, FLAG_OF(r))) /* X2 */
     }
     if
     :: writes[r] ->
#if MUTATION != COUNTED_AT_START
        d_step {
          assert(dirty_pages > 0);
#if FULL
          on_way[ending] = 0;
#endif
          dirty_pages--
        }
#else
        skip
#endif
     :: !writes[r] && !usable -> make_orphan(ending)
     :: !writes[r] && usable
     fi;
#if MUTATION != NAME_KEPT_LONGER
     atomic { named[ending] = 0 }
#endif
     end_transfer(ending, FLAG_OF(r), (usable -> VALID : 0));
#if MUTATION == NAME_KEPT_LONGER
     atomic { named[ending] = 0 }
#endif
#if FAULTS && MUTATION == RANGES_BACK_LATE
     keep_flight_dirty(r);
#endif
     d_step { assert(pins[ending] > 0); pins[ending]--; ending = NONE; nth++ }
  od;
  if
  :: nth == NONE
  :: nth != NONE ->
#if MUTATION == RECORD_FREED_EARLY
     skip
#else
     free_record(r)
#endif
  fi;
  d_step { nth = 0; usable = 0 }
}

/* Waits for a record's flight and ends it; if it is not in flight, waits for a change: `enough`, or
 * a start. */
inline attend(r, enough) {
  atomic {
    if
    :: phase[r] == UNDER_WAY -> looked_for = number[r]
    :: else -> looked_for = 0
    fi
  }
  if
  :: looked_for == 0 -> atomic { phase[r] == UNDER_WAY || (enough) -> skip }
  :: else ->
#if PARK
     do
     :: atomic { PASSED(r, looked_for) -> break }
     :: atomic { !PASSED(r, looked_for) -> skip }
        atomic { parked[r] = 1 }
        atomic { slept = answered[r] }
        if
        :: slept >= looked_for -> atomic { slept = 0; break }
        :: else -> sleep_on(CELL(r), answered[r])
        fi
     od;
#else
     PASSED(r, looked_for);
#endif
     finish(r, looked_for)
  fi;
  d_step { looked_for = 0; flight = 0 }
}

#if MUTATION == RECORD_UNANSWERED
#define ENDED_BY_CLAIM(r) (phase[r] == UNDER_WAY)
#else
#define ENDED_BY_CLAIM(r) (phase[r] == UNDER_WAY && answered[r] == number[r])
#endif

/* claim_flight(): `record`, or NONE if all are in flight. Ends an answered one it finds. */
inline claim_flight(record) {
  record = 0;
  do
  :: record == FLIGHTS -> record = NONE; break
  :: record < FLIGHTS ->
     atomic {
       if
       :: ENDED_BY_CLAIM(record) -> looked_for = number[record]
       :: else
       fi
     }
     if
     :: looked_for != 0 -> finish(record, looked_for); looked_for = 0
     :: else
     fi;
     atomic {
       if
       :: phase[record] == FREE_RECORD ->
#if MUTATION == RECORD_FREED_EARLY
          free_record(record);
#endif
          phase[record] = CLAIMED;
          number[record]++;
          break
       :: else -> record++
       fi
     }
  od
}

/* attend_some_write_back() */
inline attend_some_write_back() {
  flight = 0;
  do
  :: flight == FLIGHTS -> flight = 0; break
  :: flight < FLIGHTS ->
     atomic {
       if
       :: phase[flight] == UNDER_WAY && writes[flight]
       :: else -> flight++
       fi
     }
#if FLIGHTS == 1
     if
     :: flight == 0 -> attend(0, 1); break
     :: else
     fi
#else
     if
     :: flight == 0 -> attend(0, 1); break
     :: flight == 1 && phase[1] == UNDER_WAY && writes[1] -> attend(1, 1); break
     :: else
     fi
#endif
  od
}

/* Sets `writing` and takes the range of a page that begins at the required place. */
inline take_only_range(f, anywhere, mask) {
  atomic {
    if
    :: MAY_WRITE_BACK(f) -> state[f] = state[f] | WRITING; good = 1
    :: else -> good = 0
    fi
  }
  if
  :: !good
  :: good ->
     d_step {
       if
       :: ranges[f] != 0 && ((anywhere) || (ranges[f] & 1)) ->
          mask = ranges[f];
#if FULL && MUTATION != FLIGHT_PLACES_NOT_KEPT
          on_way[f] = mask;
#endif
          ranges[f] = 0;
          state[f] = state[f] & (255 - DIRTY)
#if MUTATION == COUNTED_AT_START
          ; dirty_pages--
#endif
       :: else -> good = 0
       fi
     }
     if
     :: good
     :: !good -> end_transfer(f, WRITING, 0)
     fi
  fi
}

/* WriteBack::start(), for a page pinned by the caller. `good`: not all records are in flight. */
inline start_write(f) {
  claim_flight(record);
  if
  :: record == NONE -> good = 0
  :: record != NONE ->
     pins[f]++;
     take_only_range(f, 1, flying_ranges[OF(record, 0)]);
     if
     :: !good -> d_step { pins[f]--; phase[record] = FREE_RECORD }
     :: good ->
        d_step { flying[OF(record, 0)] = f; writes[record] = 1 }
#if RUN
        if
        :: key[f] == 0 && (flying_ranges[OF(record, 0)] & 2) ->
           find(1, behind);
           if
           :: behind == NONE
           :: behind != NONE ->
              take_only_range(behind, 0, flying_ranges[OF(record, 1)]);
              if
              :: good -> flying[OF(record, 1)] = behind; behind = NONE
              :: !good -> unpin(behind)
              fi
           fi
        :: else
        fi;
#endif
#if HANDLES
        atomic { via[record] = write_handle }
#endif
        start(record)
     fi;
     good = 1
  fi;
  record = NONE
}
