/* Calls that bypass the cache, and the last close: page_cache.hpp, cached_files.hpp. */

#if OUTSIDE
inline begin_outside() {
#if PROGRESS && MUTATION != TURNS_IGNORED
  atomic { !outside_active && turns == 0 -> outside_active = 1 }
#else
  atomic { !outside_active -> outside_active = 1 }
#endif
#if PROGRESS
  outside_count = 1; /* whether one has come since the last look */
#else
  outside_count++;
#endif
#if MUTATION != OUTSIDE_UNDRAINED
  i = 0;
  do
  :: i == FRAMES -> i = 0; break
  :: i < FRAMES ->
     pin_if_live(i);
     if
     :: good -> atomic { writers[i] == 0 -> pins[i]--; good = 0 }
     :: else
     fi;
     i++
  od;
#endif
  atomic {
    inside = 1
#if FLIGHTS
    ;
    stale[0] = (phase[0] == UNDER_WAY && !writes[0] && CHANGES_FLIGHT(0));
    stale[FLIGHTS - 1] =
        (phase[FLIGHTS - 1] == UNDER_WAY && !writes[FLIGHTS - 1] && CHANGES_FLIGHT(FLIGHTS - 1))
#endif
  }
}

inline forget_ranges(f, kept) { /* cut_ranges() */
  d_step {
    ranges[f] = ranges[f] & (kept);
    if
    :: ranges[f] == 0 && HAS(f, DIRTY) -> state[f] = state[f] & (255 - DIRTY); dirty_pages--
    :: else
    fi
  }
}

inline drop_page(f) {
  make_orphan(f);
#if MUTATION != DROP_OVER_WRITERS
  writers[f] == 0; /* who counted himself before `orphan` and looks for outside calls only now */
#endif
#if MUTATION != DROP_WITHOUT_WAIT
  do
  :: wait_while(f, TRANSFERS);
     atomic {
       if
       :: NOT_YET(f, TRANSFERS)
       :: !HAS(f, TRANSFERS) -> break
       fi
     }
  od;
#endif
  forget_ranges(f, 0)
}

#if CUT != NOWHERE
#define CUT_OFF(f) (key[f] * 2 >= CUT)
#define CUT_THROUGH(f) (key[f] * 2 < CUT && CUT < key[f] * 2 + 2)
inline truncate(at) {
  d_step {
    i = at;
    do
    :: i < BYTES -> storage[i] = 0; i++
    :: else -> break
    od;
    i = 0
  }
}
#endif

#if !HANDLES
proctype Outside(byte me) {
  byte low[BYTES];
  byte f = NONE;
  byte i;
  byte version;
  WRITING_LOCALS;

#if AFTER
  wrote;
#endif
#if CLOSE
  flush(); /* CachedFiles::detach() */
  failed = 0;
#endif
  begin_outside();
  remember();
#if MUTATION != CLOSE_DROPS_DIRTY
  flush();
  flushed();
#endif

#if HOST != NOWHERE
  if
  :: failed && MUTATION != HOST_WRITE_UNFLUSHED -> goto end_outside
  :: else
  fi;
  d_step { begun[HOST]++; version = begun[HOST] }
  d_step { storage[HOST] = version }
#if MUTATION != UPDATE_SKIPPED
  find(PAGE(HOST), f);
  if
  :: f == NONE
  :: f != NONE ->
#if MUTATION == UPDATE_WITHOUT_WAIT
     good = HAS(f, VALID);
#else
     do
     :: wait_while(f, FILLING);
        atomic {
          if
          :: NOT_YET(f, FILLING)
          :: !HAS(f, FILLING) -> good = HAS(f, VALID); break
          fi
        }
     od;
#endif
     if
     :: good -> d_step { assert(USES(f, PAGE(HOST))); AT(f, HOST) = version; good = 0 }
     :: else
     fi;
     unpin(f)
  fi;
#endif
  d_step { size = (size > HOST -> size : HOST + 1) }
#endif

#if CUT != NOWHERE
  d_step {
    i = CUT;
    do
    :: i < BYTES -> begun[i]++; cut[i] = begun[i]; i++
    :: else -> break
    od;
    i = 0
  }
  d_step { twice = failed; failed = 0 }
  truncate(CUT);
  do /* resize() */
  :: i == FRAMES -> i = 0; break
  :: i < FRAMES ->
     atomic {
       if
       :: LIVE(i) && (CUT_OFF(i) || CUT_THROUGH(i)) -> pins[i]++; good = 1
       :: else -> good = 0
       fi
     }
     if
     :: !good
     :: good && CUT_OFF(i) ->
        drop_page(i);
        d_step { pins[i]--; good = 0 }
     :: good && !CUT_OFF(i) ->
        begin_transfer(i, FILLING);
        if
        :: !good
        :: good ->
#if MUTATION != RESIZE_UNCUT
           forget_ranges(i, 1);
#endif
           d_step { assert(USES(i, PAGE(CUT))); AT(i, 1) = 0 }
           end_transfer(i, FILLING, 0)
        fi;
        d_step { pins[i]--; good = 0 }
     fi;
     i++
  od;
  size = CUT;
#if FAULTS && MUTATION != TRUNCATED_ONCE
  if
  :: twice -> truncate(CUT)
  :: else
  fi;
#endif
  twice = 0;
  d_step {
    i = CUT;
    do
    :: i < BYTES -> acked[i] = cut[i]; i++
    :: else -> break
    od;
    i = 0
  }
#endif

#if APPEND || CLOSE
  do /* drop() */
  :: i == FRAMES -> i = 0; break
  :: i < FRAMES ->
     pin_if_live(i);
     if
     :: !good
     :: good ->
        drop_page(i);
        d_step { pins[i]--; good = 0 }
     fi;
     i++
  od;
#if CLOSE
  closed = 1;
#endif
#endif

end_outside:
  atomic { inside = 0; failed = 0 }
  outside_active = 0;
#if HOST != NOWHERE
  d_step { acked[HOST] = (version > acked[HOST] -> version : acked[HOST]); version = 0 }
#endif
  running--
}

#if PROGRESS
/* An endless sequence of calls. Their effect on the file does not matter here. */
proctype Endless(byte me) {
  byte i;
  bit good;
  PARTY_LOCALS;

end:
  do
  :: begin_outside();
     inside = 0;
     outside_active = 0
  od
}
#endif
#endif
#endif

/* ---- closing a handle ------------------------------------------------------------------------ */

#if HANDLES
/* CachedFiles::detach() of the handle that write-backs use, while the file has others. */
proctype Closer(byte me) {
  byte low[BYTES];
  byte i;
  WRITING_LOCALS;

  flush();
  failed = 0;
#if MUTATION == APPENDER_BORROWED
  atomic { write_handle = APPENDER }
#elif MUTATION == HANDED_OVER_LATE
  skip
#elif HANDLES == 2
  atomic { write_handle = 2 }
#else
  begin_outside();
  remember();
  flush();
  flushed();
  atomic { write_handle = 0; failed = 0; inside = 0 }
  outside_active = 0;
#endif
  shut[1] = 1;
#if MUTATION == HANDED_OVER_LATE
  atomic { write_handle = 2 }
#endif
  running--
}
#endif
