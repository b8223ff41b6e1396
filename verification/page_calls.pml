/* Reading and writing: filling.hpp and page_cache.hpp of the cache. */

/* ---- filling --------------------------------------------------------------------------------- */

/* OutsideCalls::may_fill(): reads the count, then whether the call it counted is in flight and
 * changes the page. A failed look waits; with PROGRESS it is a try. A call that is not counted yet
 * is found later. */
#define IN_THE_WAY(page) (outside_active && since != 0 && CHANGES(page))
inline before_fill(page) {
#if PROGRESS
  atomic { outside_count = 0; since = 0 }
  atomic {
    if
    :: outside_active -> failed = 1
    :: else -> failed = 0
    fi
  }
#else
  do
  :: atomic { since = outside_count }
     if
     :: atomic { !IN_THE_WAY(page) -> break }
     :: atomic { IN_THE_WAY(page) -> skip }
        !outside_active
     fi
  od
#endif
}
#define OUTDATED(page) (outside_count != since && CHANGES(page))

/* Reads the gaps between the ranges of a page. */
inline complete(f) {
  before_fill(key[f]);
  begin_transfer(f, FILLING);
  if
  :: !good -> since = 0
  :: good ->
     d_step { first = storage[key[f] * 2]; second = storage[key[f] * 2 + 1] }
     d_step {
       assert(USES(f, key[f])); /* F1 */
       if
       :: (ranges[f] & 1) == 0 || MUTATION == COMPLETE_OVER_RANGES ->
          assert(!HAS(f, VALID) ||
                 VERSION(key[f] * 2, first) >= VERSION(key[f] * 2, data[f * 2])); /* W1 */
          data[f * 2] = first
       :: else
       fi;
       if
       :: (ranges[f] & 2) == 0 || MUTATION == COMPLETE_OVER_RANGES ->
          assert(!HAS(f, VALID) ||
                 VERSION(key[f] * 2 + 1, second) >= VERSION(key[f] * 2 + 1, data[f * 2 + 1]));
          data[f * 2 + 1] = second
       :: else
       fi;
       first = 0;
       second = 0
     }
     atomic { good = !OUTDATED(key[f]) }
     since = 0;
     if
     :: good -> end_transfer(f, FILLING, VALID)
     :: else -> end_transfer(f, FILLING, 0)
     fi
  fi;
  good = 0
}

#if MUTATION == FILL_UNANNOUNCED
#define FILL_FLAGS 0
#elif MUTATION == VALID_EARLY
#define FILL_FLAGS (FILLING | VALID)
#else
#define FILL_FLAGS FILLING
#endif

#if MARKS
#define GROUP (me - 3)
#if MARKS == 2
inline set_mark(value) { atomic { stored[GROUP] = value } }
/* A store becomes visible at some time; the next one may overtake it. */
proctype MarkDrain() {
end:
  do
  :: atomic { mark[0] != stored[0] -> mark[0] = stored[0] }
  :: atomic { mark[1] != stored[1] -> mark[1] = stored[1] }
  od
}
#else
inline set_mark(value) { atomic { mark[GROUP] = value } }
#endif
inline end_copy() { atomic { copying[GROUP] = 0 } }

/* PageCache::read_hit(). `f`: NONE if it is no hit; then nothing has happened. */
inline read_hit() {
  atomic { good = (at < size) }
  atomic { /* PageTable::guess() */
    if
    :: good && entry[0] == PAGE(at) + 1 -> f = 0
    :: good && entry[1] == PAGE(at) + 1 -> f = 1
    :: !good || (entry[0] != PAGE(at) + 1 && entry[1] != PAGE(at) + 1) -> f = NONE
    fi
  }
  if
  :: f == NONE
  :: f != NONE ->
#if MUTATION != MARK_AFTER_LOOK
     set_mark(f + 1);
#endif
#if MUTATION == MARK_UNCHECKED
     good = 1;
#else
     atomic { good = (HAS(f, VALID) && !HAS(f, FILLING | ORPHAN | TAKEN)) }
#endif
     atomic {
       good = (good && (key[f] == PAGE(at) || MUTATION == MARKED_KEY_UNCHECKED));
       copying[GROUP] = (good -> f + 1 : 0)
     }
#if MUTATION == MARK_AFTER_LOOK
     set_mark(f + 1);
#endif
#if MUTATION == MARK_CLEARED_EARLY
     set_mark(0);
#endif
     if
     :: good ->
        atomic {
          assert(key[f] == PAGE(at) && AT(f, at) != RUBBISH); /* F1 */
          first = VERSION(at, AT(f, at));
          assert(first >= low && first <= begun[at]) /* W1 */
        }
        end_copy()
     :: !good -> f = NONE
     fi;
     set_mark(0)
  fi;
  good = 0
}
#endif

#if PROGRESS
inline end_turn() {
  d_step {
    if
    :: turn -> turns--; turn = 0
    :: else
    fi
  }
}
/* PageCache::get(): before the next try, which takes a turn after enough failures. */
inline take_a_turn() {
  end_turn();
  if
  :: tries < TRIES -> tries++
  :: tries == TRIES && MUTATION != NO_TURNS ->
     d_step { turns++; turn = 1 }
     !outside_active
  :: tries == TRIES && MUTATION == NO_TURNS
  fi
}
#endif

proctype Reader(byte me, at, next) {
  byte f = NONE;
  byte low;   /* the oldest version that may be found */
  byte since;
  byte first;
  byte second;
  bit good;
  bit held;
#if PROGRESS
  byte tries;
  bit failed;
  bit turn;
#endif
  PARTY_LOCALS;

  do
  :: at == NOWHERE -> break
  :: at != NOWHERE ->
     low = (acked[at] > seen[at] -> acked[at] : seen[at]);
#if MARKS
     read_hit();
     if
     :: f != NONE -> goto read
     :: f == NONE
     fi;
#endif
again:
#if PROGRESS
     take_a_turn();
#endif
     atomic {
       if
       :: at >= size -> /* the end of the file: as if a truncation left 0 */
          assert(low <= cut[at]);
          goto done
       :: else
       fi
     }
     find(PAGE(at), f);
     if
     :: f != NONE
     :: f == NONE ->
        before_fill(PAGE(at));
#if PROGRESS
        if
        :: failed -> goto again
        :: !failed
        fi;
#endif
        take(PAGE(at), f);
        insert(PAGE(at), f, FILL_FLAGS);
        d_step { first = storage[key[f] * 2]; second = storage[key[f] * 2 + 1] }
        d_step {
          assert(USES(f, PAGE(at))); /* F1 */
          data[f * 2] = first;
          data[f * 2 + 1] = second;
          first = 0;
          second = 0
        }
        atomic { good = !OUTDATED(PAGE(at)) }
        since = 0;
        if
        :: good ->
#if MUTATION == FILL_UNANNOUNCED
           atomic { state[f] = state[f] | VALID };
#else
           end_transfer(f, FILLING, VALID);
#endif
           good = 0
        :: else ->
           make_orphan(f);
#if MUTATION == VALID_EARLY
           end_transfer(f, FILLING, 0);
#elif MUTATION != FILL_UNANNOUNCED
           end_transfer(f, FILLING, 0);
#endif
           unpin(f);
           goto again
        fi
     fi;

readable: /* make_readable() */
     do
     :: wait_while(f, FILLING);
        atomic {
          if
          :: NOT_YET(f, FILLING) -> goto readable
          :: !HAS(f, FILLING) || MUTATION == VALID_EARLY
          fi;
          if
          :: HAS(f, ORPHAN) -> pins[f]--; f = NONE; goto again
          :: !HAS(f, ORPHAN) && HAS(f, VALID) -> break
          :: else
          fi
        }
        /* begin_writing_to() */
        atomic { writers[f]++; good = !HAS(f, FILLING | ORPHAN) }
        if
        :: good ->
           atomic {
             if
             :: ranges[f] & BIT(at) -> held = 1
#if MUTATION == READER_NOT_COUNTED
                ; writers[f]--
#endif
                ; break
             :: else -> writers[f]--; good = 0
             fi
           }
           complete(f)
        :: !good ->
           atomic {
             writers[f]--;
             if
             :: HAS(f, ORPHAN) -> pins[f]--; f = NONE; goto again
             :: else
             fi
           }
        fi
     od;

     atomic {
       assert(USES(f, PAGE(at)));                         /* F1 */
       assert(!HAS(f, FILLING) || HAS(f, VALID));         /* F2 */
       good = 0;
       first = VERSION(at, AT(f, at));
       assert(first >= low && first <= begun[at])         /* W1 */
     }
     if
     :: held -> atomic {
          held = 0;
#if MUTATION != READER_NOT_COUNTED
          writers[f]--
#endif
        }
     :: else
     fi;
     d_step { assert(pins[f] > 0); pins[f]-- }
#if PROGRESS
     end_turn();
#endif
read:
     atomic { seen[at] = (first > seen[at] -> first : seen[at]); first = 0; f = NONE }
done:
     atomic { low = 0; at = next; next = NOWHERE }
  od;
  running--
}

/* ---- writing --------------------------------------------------------------------------------- */

#if FULL
#define ROOM(f, at) (ranges[f] == BIT(at) || (ranges[f] | on_way[f]) == 0)
#else
#define ROOM(f, at) 1
#endif

inline look_outside() {
  atomic {
    if
    :: outside_active -> good = 0
    :: else -> good = 1
    fi
  }
}
inline copy_in() {
  atomic {
    assert(USES(f, PAGE(at)) && !HAS(f, FILLING)); /* F1, F2 */
    assert(!inside);                               /* O1 */
#if CLOSE
    assert(!closed);                               /* O2 */
#endif
    AT(f, at) = version
  }
}

proctype Writer(byte me, at, next) {
  byte f = NONE;
  byte version;
  WRITING_LOCALS;

  do
  :: at == NOWHERE -> break
  :: at != NOWHERE ->
     atomic { begun[at]++; version = begun[at] }
again:
     find(PAGE(at), f);
     if
     :: f != NONE
     :: f == NONE ->
        take(PAGE(at), f);
        insert(PAGE(at), f, 0)
     fi;
#if MUTATION == LOOK_BEFORE_WRITER
     look_outside();
     if
     :: good
     :: !good -> unpin(f); !outside_active; goto again
     fi;
#endif
     do /* begin_writing_to() */
     :: atomic { writers[f]++; good = !HAS(f, FILLING | ORPHAN) || MUTATION == WRITE_INTO_FILLING }
        if
        :: good -> break
        :: !good ->
           atomic {
             writers[f]--;
             if
             :: HAS(f, ORPHAN) -> pins[f]--; f = NONE; goto again
             :: else
             fi
           }
           wait_while(f, FILLING);
           !HAS(f, FILLING) || PARK || FLIGHTS
        fi
     od;
#if MUTATION != LOOK_BEFORE_WRITER
     look_outside();
#endif
     if
     :: good
     :: !good ->
        d_step { writers[f]-- }
        unpin(f);
        !outside_active; /* looking in vain is waiting */
        goto again
     fi;
#if CLOSE && MUTATION != ID_UNCHECKED
     if
     :: !closed
     :: closed ->
        d_step { writers[f]--; good = 0 }
        unpin(f);
        goto done
     fi;
#endif
#if HANDLES && MUTATION != HANDLE_UNCHECKED
     atomic { good = (write_handle != 0) }
     if
     :: good
     :: !good ->
        d_step { writers[f]-- }
        unpin(f);
        goto done
     fi;
#endif
#if MUTATION != RANGE_BEFORE_BYTES
     copy_in();
#endif
     do
     :: atomic {
          ROOM(f, at) ->
          assert(!inside); /* O1 */
          add_range(f, BIT(at))
        }
        break
     :: atomic { !ROOM(f, at) -> skip }
#if MUTATION == FULL_LIST_FORGETS
        break
#endif
        begin_transfer(f, WRITING);
        if
        :: good -> write_back_run(f)
        :: !good
        fi
     od;
#if MUTATION == RANGE_BEFORE_BYTES
     copy_in();
#endif
     atomic { size = (size > at -> size : at + 1); writers[f]-- }
     d_step { acked[at] = version; assert(pins[f] > 0); pins[f]--; f = NONE }
done:
     atomic { version = 0; good = 0; at = next; next = NOWHERE }
  od;
  atomic { running--; wrote = 1 }
}
