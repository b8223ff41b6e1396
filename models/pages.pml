/* The pages of one file in the cache (src/device/cache/): the frames' state words, the table, the
 * written ranges, fills, write-backs, outside calls, and waiting for one another. Checked in every
 * interleaving. docs/models.md says what each word stands for and why one step after another is
 * enough here, where the ring needs a memory with delayed stores.
 *
 * A page has two bytes; a byte holds its version. The storage begins with version 1 of each; every
 * write has the next. 0 is what a truncation leaves. RUBBISH is what nobody wrote: a frame is full
 * of it when it is given away.
 *
 * Properties:
 *   F1  Whoever touches a frame's bytes has it pinned, and it holds his page (USES). Pins are never
 *       lost.
 *   F2  One party at a time fills or writes back a page, and nobody copies into or out of it while
 *       its gaps are filled, except out of a valid page (at `USES`, in begin_transfer).
 *   F4  `dirty` is set exactly while there are ranges, and dirty_pages counts them (at the end)
 *   T1  A page is in one frame only (in insert)
 *   W1  A read finds nothing older than what was acknowledged, or read, before it began, and
 *       nothing that was not written (in Reader)
 *   W2  Nothing reaches the storage that the program did not write there, and nothing older than
 *       what is there (in `land`)
 *   W3  After a flush that reports no error the storage has all that was acknowledged before it
 *       began (`flushed`); at the end, storage and dirty ranges together have all that was
 *       acknowledged, and pages hold what the storage does elsewhere (at the end)
 *   O1  While an outside call is between its beginning and its end nobody copies into a page or
 *       enters a range (in Writer)
 *   O2  After the last close nobody writes to its pages (in Writer)
 *   P   Nobody waits for ever: sleeps end by a wake-up only, and a party that does not come to its
 *       end is an invalid end state
 *
 * Switches (models/checks.py has the table of checks). Positions are 0 and 1 in the first page, 2 and 3
 * in the second.
 *   PAGES 1|2         pages of the file
 *   WRITE, WRITE_2    where the writer writes, one byte each; then it ends
 *   OTHER             where a second writer writes
 *   READ, READ_2      where the reader reads
 *   PEER              where a second reader reads
 *   EVICTIONS n       frames that are taken for pages of other files, at most
 *   FLUSHES n         flushes by a party of their own
 *   HOST at           a host write, an outside call
 *   CUT at            a truncation, an outside call; everything from there on is cut off
 *   APPEND 1          a host write at the end of the file, an outside call: it drops all pages
 *   CLOSE 1           the last close
 *   AFTER 1           the outside call begins when the writer has ended
 *   FAULTS n          write-backs that fail, at most
 *   RUN 1             a write-back takes the page behind with it; with PAGES=2
 *   FULL 1            a page's list has room for one range, and ranges never touch
 *   PARK 1            waiting for a transfer is sleeping; otherwise looking again and again
 */

#define NOWHERE 9

#ifndef PAGES
#define PAGES 1
#endif
#ifndef WRITE
#define WRITE NOWHERE
#endif
#ifndef WRITE_2
#define WRITE_2 NOWHERE
#endif
#ifndef OTHER
#define OTHER NOWHERE
#endif
#ifndef READ
#define READ NOWHERE
#endif
#ifndef READ_2
#define READ_2 NOWHERE
#endif
#ifndef PEER
#define PEER NOWHERE
#endif
#ifndef EVICTIONS
#define EVICTIONS 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
#ifndef HOST
#define HOST NOWHERE
#endif
#ifndef CUT
#define CUT NOWHERE
#endif
#ifndef APPEND
#define APPEND 0
#endif
#ifndef CLOSE
#define CLOSE 0
#endif
#ifndef AFTER
#define AFTER 0
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef RUN
#define RUN 0
#endif
#ifndef FULL
#define FULL 0
#endif
#ifndef PARK
#define PARK 0
#endif
#define OUTSIDE (HOST != NOWHERE || CUT != NOWHERE || APPEND || CLOSE)

#include "page_mutations.pml"

#define FRAMES 2
#define BYTES (2 * PAGES)
#define NONE 7 /* no frame */
#define RUBBISH 15

/* The state word: pins and writers apart, because every change of it is one step all the same. */
#define VALID 1
#define DIRTY 2
#define FILLING 4
#define WRITING 8
#define ORPHAN 16
#define TAKEN 32
#define WAITED 64
#define FREE 128 /* in the list of free frames */
#define TRANSFERS (FILLING | WRITING)

byte state[FRAMES];
byte pins[FRAMES];
byte writers[FRAMES];
byte key[FRAMES];   /* the page */
byte ranges[FRAMES]; /* one bit per byte */
byte data[4];       /* two bytes of each frame */
byte entry[FRAMES]; /* the table: the page + 1 that this frame is entered for; 0: none */
bit locked[PAGES];  /* the buckets' locks */
byte dirty_pages;
bit outside_active;         /* Inode.outside_active */
byte outside_count;         /* Inode.outside_count */
byte size = BYTES;  /* Inode.size_bytes */
#if CLOSE
bit closed;         /* Inode.id has changed */
#endif
byte storage[BYTES];
#if PARK
byte wake[FRAMES];
bit asleep[8];
byte sleeps_on[8];
#endif
#if FAULTS
byte faults;
#endif

/* Not part of the cache: what the assertions need to know. */
byte begun[BYTES];  /* the newest version that somebody has begun to write */
byte acked[BYTES];  /* ... that was acknowledged */
byte seen[BYTES];   /* ... that a read has returned */
byte cut[BYTES];    /* the version that a 0 stands for */
bit twice;          /* a truncation will be made once more, because its flush failed */
bit inside;         /* an outside call is between its beginning and its end */
bit wrote;          /* the writer has ended */
byte running;       /* parties that have not ended */

#define VERSION(at, value) ((value) == 0 -> cut[at] : (value))
#define PAGE(at) ((at) / 2)
#define BIT(at) (1 << ((at) & 1))
#define AT(f, at) data[(f) * 2 + ((at) & 1)]

#define HAS(f, flags) ((state[f] & (flags)) != 0)
#define LIVE(f) (!HAS(f, ORPHAN | TAKEN))
#define HOLDS(f, page) (LIVE(f) && key[f] == (page))
#define FOUND(page) \
  ((entry[0] == (page) + 1 && HOLDS(0, page)) || (entry[1] == (page) + 1 && HOLDS(1, page)))
#define USES(f, page) (pins[f] > 0 && !HAS(f, TAKEN) && key[f] == (page))

/* ---- pins, the table, giving frames away ----------------------------------------------------- */

#if MUTATION == PIN_UNCHECKED
#define PIN_IS_GOOD(f, page) 1
#else
#define PIN_IS_GOOD(f, page) HOLDS(f, page)
#endif

inline unpin(f) { atomic { assert(pins[f] > 0); pins[f]--; f = NONE } }

/* The table is looked through once, entry by entry. One may be stale when its frame gets the pin,
 * and a page that moves meanwhile may be missed. That the key is seen in the step of the pin is no
 * simplification: it cannot change once the pin is there and `taken` is not. */
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

#if MUTATION == EVICT_PINNED
#define IDLE(f) (!HAS(f, TAKEN | TRANSFERS))
#else
#define IDLE(f) (pins[f] == 0 && !HAS(f, TAKEN | TRANSFERS))
#endif
#if MUTATION == EVICT_DIRTY
#define CLEAN(f) IDLE(f)
#else
#define CLEAN(f) (IDLE(f) && !HAS(f, DIRTY))
#endif

/* The end of take(). The state word was seen to be clean, and changed, in one step. */
inline finish_take(f) {
  atomic {
    if
    :: HAS(f, ORPHAN) -> assert(entry[f] == 0)
    :: else -> !locked[key[f]]; assert(entry[f] == key[f] + 1); entry[f] = 0
    fi;
    ranges[f] = 0;
    state[f] = TAKEN;
#if MUTATION == RESET_DROPS_PINS
    pins[f] = 0;
#endif
    data[f * 2] = RUBBISH;
    data[f * 2 + 1] = RUBBISH
  }
}

#define NO_FREE (!HAS(0, FREE) && !HAS(1, FREE))

/* A frame for a page that was missed; there is one for each page, so only the Evictor has to write
 * back. Looking in vain is waiting here. */
inline take(page, f) {
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
  :: entry[f] != 0 || HAS(f, ORPHAN) -> finish_take(f)
  :: else
  fi
}
inline give_back(f) { d_step { state[f] = TAKEN | FREE; f = NONE } }

/* Under the lock of the page's bucket. Its holder is the only one to enter the page. */
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

/* ---- transfers under way --------------------------------------------------------------------- */

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

/* ---- writing back ---------------------------------------------------------------------------- */

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

/* Sets `writing` where that needs no waiting. */
#define MAY_WRITE_BACK(f) (HAS(f, DIRTY) && !HAS(f, TRANSFERS | ORPHAN))

/* F3, one step, since all of it is done under the range lock. */
inline take_ranges(f, mask) {
  d_step {
    mask = ranges[f];
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
     d_step { /* the storage reads the bytes */
       assert(USES(f, key[f])); /* F1 */
       first = data[f * 2];
       second = data[f * 2 + 1]
     }
     atomic { /* ... and has them, or refuses */
       if
       :: if
          :: TO_WRITE(mask) & 1 -> land(key[f] * 2, first)
          :: else
          fi;
          if
          :: TO_WRITE(mask) & 2 -> land(key[f] * 2 + 1, second)
          :: else
          fi
#if FAULTS
       :: faults > 0 -> faults--; failed = 1; refused = 1
#endif
       fi;
       first = 0;
       second = 0
     }
#if FAULTS && MUTATION != ERROR_FORGETS
     if
     :: refused ->
        d_step { /* keep_dirty() */
          refused = 0;
          dirty_pages = dirty_pages + !HAS(f, DIRTY);
          ranges[f] = ranges[f] | mask;
          state[f] = state[f] | DIRTY | (ranges[f] == 3 && !FULL -> VALID : 0)
        }
     :: else
     fi;
#endif
#if MUTATION == RANGES_TAKEN_LATE
     d_step { ranges[f] = 0; state[f] = state[f] & (255 - DIRTY) }
#endif
  fi
}

inline written_back(mask) {
#if MUTATION != COUNTED_EARLY
  if
  :: mask != 0 -> d_step { assert(dirty_pages > 0); dirty_pages--; mask = 0 }
  :: else
  fi
#else
  mask = 0
#endif
}

/* Once `writing` is set. `failed` is set when the storage refuses. Each page is a request of its
 * own: what one request for both can do to the storage, two can. */
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
  written_back(mask);
  end_transfer(f, WRITING, 0)
#if RUN
  if
  :: behind != NONE ->
     written_back(mask_behind);
#if MUTATION != NEIGHBOUR_UNANNOUNCED
     end_transfer(behind, WRITING, 0);
#endif
     unpin(behind)
  :: else
  fi
#endif
}

inline flush() {
  i = 0;
  do
  :: atomic { dirty_pages == 0 -> i = 0; break }
  :: atomic { dirty_pages != 0 -> skip }
     do
     :: i == FRAMES -> i = 0; break
     :: i < FRAMES ->
        atomic {
          good = 0;
          if
          :: LIVE(i) -> pins[i]++; good = 1
          :: else
          fi
        }
        if
        :: !good
        :: good ->
#if MUTATION == FLUSH_LOOKS_AGAIN
           wait_while(i, WRITING);
           atomic { !HAS(i, WRITING) -> skip }
           good = HAS(i, DIRTY);
#elif MUTATION == FLUSH_IGNORES_WRITING
           good = HAS(i, DIRTY);
#else
           do
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
           fi;
           d_step { assert(pins[i] > 0); pins[i]--; good = 0 }
        fi;
        i++
     od;
     break
  od
}

/* ---- filling --------------------------------------------------------------------------------- */

inline before_fill() { d_step { !outside_active -> since = outside_count } }
#define OUTDATED (outside_active || outside_count != since)

/* Reads what lies between the ranges of a page. */
inline complete(f) {
  before_fill();
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
     atomic { good = !OUTDATED }
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

proctype Reader(byte me, at, next) {
  byte f = NONE;
  byte low;   /* the oldest version that may be found */
  byte since;
  byte first;
  byte second;
  bit good;
  bit held;
#if PARK
  byte slept;
  bit cleared;
  bit woken;
#endif

  do
  :: at == NOWHERE -> break
  :: at != NOWHERE ->
     low = (acked[at] > seen[at] -> acked[at] : seen[at]);
again:
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
        before_fill();
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
        atomic { good = !OUTDATED }
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
     d_step {
       seen[at] = (first > seen[at] -> first : seen[at]);
       first = 0;
       assert(pins[f] > 0);
       pins[f]--;
       f = NONE
     }
done:
     atomic { low = 0; at = next; next = NOWHERE }
  od;
  running--
}

/* ---- writing --------------------------------------------------------------------------------- */

#if FULL
#define ROOM(f, at) ((ranges[f] & (3 - BIT(at))) == 0)
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
  byte mask;
#if RUN
  byte behind = NONE; /* the frame of the page behind */
  byte mask_behind;
#endif
  byte first;
  byte second;
  bit good;
  bit failed;
#if FAULTS
  bit refused;
#endif
#if PARK
  byte slept;
  bit cleared;
  bit woken;
#endif

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
           !HAS(f, FILLING) || PARK
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
#if MUTATION != RANGE_BEFORE_BYTES
     copy_in();
#endif
     do /* add_range(); one step, since all of it is done under the range lock */
     :: atomic {
          ROOM(f, at) ->
          assert(!inside); /* O1 */
          ranges[f] = ranges[f] | BIT(at);
          dirty_pages = dirty_pages + !HAS(f, DIRTY);
          state[f] = state[f] | DIRTY | (ranges[f] == 3 && !FULL -> VALID : 0)
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

/* ---- evicting, flushing ---------------------------------------------------------------------- */

proctype Evictor(byte me) {
  byte f = NONE;
  byte left = EVICTIONS;
  byte page;
  byte mask;
#if RUN
  byte behind = NONE; /* the frame of the page behind */
  byte mask_behind;
#endif
  byte first;
  byte second;
  bit failed;
#if FAULTS
  bit refused;
#endif
#if PARK
  bit woken;
#endif

  do
  :: left == 0 -> break
  :: left > 0 ->
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
  byte mask;
#if RUN
  byte behind = NONE; /* the frame of the page behind */
  byte mask_behind;
#endif
  byte first;
  byte second;
  bit good;
  bit failed;
#if FAULTS
  bit refused;
#endif
#if PARK
  byte slept;
  bit cleared;
  bit woken;
#endif

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

/* ---- outside calls --------------------------------------------------------------------------- */

#if OUTSIDE
inline begin_outside() {
  atomic { !outside_active -> outside_active = 1 }
  outside_count++;
#if MUTATION != OUTSIDE_UNDRAINED
  i = 0;
  do
  :: i == FRAMES -> i = 0; break
  :: i < FRAMES ->
     atomic {
       if
       :: LIVE(i) -> pins[i]++; good = 1
       :: else -> good = 0
       fi
     }
     if
     :: good -> atomic { writers[i] == 0 -> pins[i]--; good = 0 }
     :: else
     fi;
     i++
  od;
#endif
  inside = 1
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
#if MUTATION != DROP_OVER_WRITERS
  writers[f] == 0; /* who counted himself before `orphan` and looks for outside calls only now */
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

proctype Outside(byte me) {
  byte low[BYTES];
  byte f = NONE;
  byte i;
  byte mask;
#if RUN
  byte behind = NONE; /* the frame of the page behind */
  byte mask_behind;
#endif
  byte first;
  byte second;
  byte version;
  bit good;
  bit failed;
#if FAULTS
  bit refused;
#endif
#if PARK
  byte slept;
  bit cleared;
  bit woken;
#endif

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
     atomic {
       if
       :: LIVE(i) -> pins[i]++; good = 1
       :: else -> good = 0
       fi
     }
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
#endif

/* ---- the end --------------------------------------------------------------------------------- */

/* What a later read would find. */
#define KEPT(f, at) \
  (HOLDS(f, PAGE(at)) && (HAS(f, VALID) || (ranges[f] & BIT(at)) != 0))
inline check_byte(at) {
  assert(VERSION(at, (KEPT(0, at) -> AT(0, at) : (KEPT(1, at) -> AT(1, at) : storage[at])))
         >= acked[at]); /* W3 */
  assert(!(HOLDS(0, PAGE(at)) && HAS(0, VALID) && (ranges[0] & BIT(at)) == 0) ||
         AT(0, at) == storage[at]); /* W3 */
  assert(!(HOLDS(1, PAGE(at)) && HAS(1, VALID) && (ranges[1] & BIT(at)) == 0) ||
         AT(1, at) == storage[at])
}
inline check_frame(f) {
  assert(pins[f] == 0 && writers[f] == 0 && !HAS(f, TRANSFERS));
  assert(HAS(f, DIRTY) == (ranges[f] != 0)) /* F4 */
}

init {
  atomic {
    state[0] = TAKEN | FREE;
    state[1] = TAKEN | FREE;
    data[0] = RUBBISH;
    data[1] = RUBBISH;
    data[2] = RUBBISH;
    data[3] = RUBBISH;
    storage[0] = 1; begun[0] = 1; acked[0] = 1;
    storage[1] = 1; begun[1] = 1; acked[1] = 1;
#if PAGES == 2
    storage[2] = 1; begun[2] = 1; acked[2] = 1;
    storage[3] = 1; begun[3] = 1; acked[3] = 1;
#endif
#if FAULTS
    faults = FAULTS;
#endif
#if EVICTIONS
    running++;
    run Evictor(0);
#endif
#if FLUSHES
    running++;
    run Flusher(1);
#endif
#if OUTSIDE
    running++;
    run Outside(2);
#endif
#if READ != NOWHERE
    running++;
    run Reader(3, READ, READ_2);
#endif
#if PEER != NOWHERE
    running++;
    run Reader(4, PEER, NOWHERE);
#endif
#if WRITE != NOWHERE
    running++;
    run Writer(5, WRITE, WRITE_2);
#endif
#if OTHER != NOWHERE
    running++;
    run Writer(6, OTHER, NOWHERE);
#endif
  }
  d_step {
    running == 0 ->
    check_frame(0);
    check_frame(1);
    assert(dirty_pages == HAS(0, DIRTY) + HAS(1, DIRTY)); /* F4 */
    check_byte(0);
    check_byte(1);
#if PAGES == 2
    check_byte(2);
    check_byte(3)
#endif
  }
}
