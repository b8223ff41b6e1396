/* Parties for background work: the server, readahead and write-back (filling.hpp, write_back.hpp).
 */

#if MUTATION == CLOSED_HANDLE_FORGETS
#define CLOSED_IS_NOT_WRITTEN && !shut[via[r]]
#else
#define CLOSED_IS_NOT_WRITTEN
#endif

/* The storage has bytes that a flight writes. If less is written than was asked for, the caller finds
 * what is missing by the count; here it is what stays in flying_ranges. */
inline land_flying(r, bit_of, at, value) {
  if
  :: flying_ranges[OF(r, nth)] & bit_of ->
#if SHORT
     assert((value) > VERSION(at, storage[at])); /* W4 */
#endif
     land(at, value);
#if SHORT && MUTATION != SHORT_FLIGHT_BEGINS_ANEW
     flying_ranges[OF(r, nth)] = flying_ranges[OF(r, nth)] - bit_of
#endif
  :: else
  fi
}

/* The server: one per record, so that any may be answered before any other. */
proctype Storage(byte r) {
  byte nth;
  byte f = NONE;
  byte first;
  byte second;
end:
  do
  :: asked[r] != 0 ->
#if HANDLES
     atomic {
       if
       :: writes[r] && (via[r] == 0 || shut[via[r]]) -> refusal[r] = (MUTATION != CLOSED_HANDLE_FORGETS)
       :: else -> assert(!writes[r] || via[r] != APPENDER) /* H1 */
       fi
     }
#endif
     do
     :: nth == 2 -> break
     :: nth < 2 && flying[OF(r, nth)] == NONE -> break
     :: nth < 2 && flying[OF(r, nth)] != NONE ->
        f = flying[OF(r, nth)];
        if
        :: writes[r] ->
           d_step { /* the storage reads the bytes */
             assert(USES(f, key[f])); /* F1 */
             first = data[f * 2];
             second = data[f * 2 + 1]
           }
           atomic { /* ... and has them, or refuses */
             if
             :: !refusal[r] CLOSED_IS_NOT_WRITTEN ->
                land_flying(r, 1, key[f] * 2, first);
                land_flying(r, 2, key[f] * 2 + 1, second)
             :: refusal[r]
#if MUTATION == CLOSED_HANDLE_FORGETS
             :: shut[via[r]]
#endif
#if FAULTS
             :: faults > 0 -> faults--; refusal[r] = 1
#if SHORT
             :: faults > 0 && flying_ranges[OF(r, nth)] == 3 ->
                faults--;
                land_flying(r, 1, key[f] * 2, first);
                refusal[r] = 1
#endif
#endif
             fi;
             first = 0;
             second = 0
           }
        :: !writes[r] ->
           d_step { first = storage[key[f] * 2]; second = storage[key[f] * 2 + 1] }
           atomic {
             assert(USES(f, key[f]) && HAS(f, FILLING)); /* F1, F2 */
             if
             :: data[f * 2] = first; data[f * 2 + 1] = second
#if FAULTS
             :: faults > 0 -> faults--; refusal[r] = 1
#endif
             fi;
             first = 0;
             second = 0
           }
        fi;
        nth++
     od;
     atomic { nth = 0; f = NONE; answered[r] = asked[r]; asked[r] = 0 }
#if PARK
     if
     :: parked[r] -> rouse(CELL(r))
     :: !parked[r]
     fi
#endif
  od
}

/* Filling::start_fill(), for a page or, with AHEAD=2, for both: only frames available immediately.
 */
proctype Prefetcher(byte me) {
  byte left = PREFETCHES;
  byte since;
  byte page;
  byte f = NONE;
  PARTY_LOCALS;

  do
  :: left == 0 -> break
  :: left > 0 ->
     if
     :: page = 0
#if PAGES == 2 && AHEAD == 1
     :: page = 1
#endif
     fi;
     atomic { since = outside_count }
     atomic {
       if
       :: IN_THE_WAY(page) -> goto next
       :: else
       fi
     }
     find(page, f);
     if
     :: f != NONE -> unpin(f); goto next
     :: f == NONE
     fi;
     claim_flight(record);
     if
     :: record == NONE -> goto next
     :: record != NONE -> before[record] = since
     fi;
     do
     :: page == PAGES || flying[OF(record, AHEAD - 1)] != NONE -> break
     :: page < PAGES && flying[OF(record, AHEAD - 1)] == NONE ->
        take_at_once(f);
        if
        :: f == NONE -> break
        :: f != NONE
        fi;
        insert(page, f, FILLING);
        d_step {
          if
          :: flying[OF(record, 0)] == NONE -> flying[OF(record, 0)] = f
          :: else -> flying[OF(record, 1)] = f
          fi;
          f = NONE
        }
        page++
     od;
again: /* the page was there, or all are entered */
     if
     :: flying[OF(record, 0)] == NONE -> free_record(record)
     :: else -> start(record)
     fi;
next:
     atomic { record = NONE; since = 0; page = 0; left-- }
  od;
  running--
}

#define RELIEVABLE(f) (HAS(f, DIRTY) && !HAS(f, TRANSFERS | ORPHAN | TAKEN) && writers[f] == 0)

/* WriteBack::relieve(): a dirty page, then a wait for a write-back or none. */
proctype Relief(byte me) {
  byte left = RELIEFS;
  byte page;
  byte f = NONE;
  bit good;
#if RUN
  byte behind = NONE;
#endif
  PARTY_LOCALS;

  do
  :: left == 0 -> break
  :: left > 0 ->
     atomic {
       if
       :: RELIEVABLE(0) -> f = 0
       :: RELIEVABLE(1) -> f = 1
       :: !RELIEVABLE(0) && !RELIEVABLE(1) -> goto next
       fi;
       page = key[f]
     }
     atomic {
       pins[f]++;
       if
       :: HOLDS(f, page)
       :: else -> pins[f]--; f = NONE; goto next
       fi
     }
     start_write(f);
     unpin(f);
     if
     :: attend_some_write_back()
     :: skip
     fi;
next:
     atomic { page = 0; good = 0; f = NONE; left-- }
  od;
  running--
}
