/* The pages of one file in the cache (include/ferry/device/cache/), checked in every interleaving:
 * the frames' state words, the table, written ranges, fills, write-backs, outside calls, and
 * waiting. docs/internals/page-model.md explains each word, and why sequential steps suffice here
 * while the ring needs a memory with delayed stores.
 *
 * A page has two bytes; a byte holds its version. The storage begins with version 1 of each; every
 * write has the next. 0 is what a truncation leaves. RUBBISH fills a frame when it is reused.
 *
 * Properties:
 *   F1  A party that touches a frame's bytes has pinned it, and it holds the party's page
 *       (USES); or has marked it and then seen that it does, and it is not reused before the read
 *       (at `copying`). Pins are never lost.
 *   F2  One party at a time fills or writes back a page, and none copies into or out of it while
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
 *   W4  A flight writes nothing that the storage has: what a short one wrote is not sent again, so
 *       that the next begins at the cause (at `land_flying`; checked with SHORT)
 *   H1  Write-backs never go through a handle that appends (in `send`, Storage), none fails for
 *       good because a handle was closed while the file has another (in take_handle), and nothing
 *       stays dirty that none may write (at the end)
 *   O1  During an outside call no party copies into a page or enters a range (in Writer)
 *   O2  After the last close no party writes to its pages (in Writer)
 *   X1  A flight is ended once, when it is answered, and none in the place of another (in finish)
 *   X2  A flight has a pin and the flag of each of its frames, each names it (in finish), and none
 *       is given away (in give_away)
 *   X4  What a flight read beside an outside call is not used (in finish)
 *   M2  When all have ended there is no mark: it would keep its frame from reuse (at the end)
 *   P   No party waits for ever: only a wake-up ends a sleep, and a party that does not finish is
 *       an invalid end state; beside endless outside calls a reader still returns
 *
 * Switches (verification/checks.py has their defaults and the checks). Positions are 0 and 1 in the
 * first page, 2 and 3 in the second.
 *   PAGES 1|2         pages of the file
 *   WRITE, WRITE_2    where the writer writes, one byte each; then it ends
 *   OTHER             where a second writer writes
 *   READ, READ_2      where the reader reads
 *   PEER, PEER_2      where a second reader reads
 *   EVICTIONS n       frames that are taken for pages of other files, at most
 *   FLUSHES n         flushes by a party of their own
 *   HOST at           a host write, an outside call
 *   CUT at            a truncation, an outside call; everything from there on is cut off
 *   APPEND 1          a host write at the end of the file, an outside call: it drops all pages
 *   CLOSE 1           the last close
 *   AFTER 1           the outside call begins when the writer has ended
 *   PROGRESS 1        beside one reader outside calls come without end (no CUT, HOST, APPEND or
 *                     CLOSE); an LTL property under weak fairness says that it returns
 *   FAULTS n          write-backs that fail, at most
 *   SHORT 1           ... and those of two bytes may have written the first; with FLIGHTS, a part
 *                     of a flight is written also where the rest fails
 *   RUN 1             a write-back takes the page behind with it; with PAGES=2
 *   FULL 1            a page's list has room for one range, and ranges never touch
 *   HANDLES 1|2       the handle that write-backs use is closed. One that appends stays, and, with
 *                     2, another one that write-backs may use
 *   PARK 1            waiting for a transfer is sleeping; otherwise looking again and again
 *   MARKS 1|2         readers look for a hit first: they mark a frame and do not pin it. 2: by a
 *                     plain store; whoever evicts has all threads pass a barrier
 *   CLIENTS 1         the reader of READ is another process, which only looks for hits and may be
 *                     killed at any step; then another one may have its place. With MARKS=1
 *   FLIGHTS 1|2       records for transfers that no call waits for. Flushes use them, and
 *   PREFETCHES n      readahead does, of
 *   AHEAD 1|2         pages each
 *   RELIEFS n         write-backs in the background
 */

#define NOWHERE 9
#include "settings.pml" /* the switches, and MUTATION: written by verification/run */
#define OUTSIDE (HOST != NOWHERE || CUT != NOWHERE || APPEND || CLOSE || HANDLES == 1 || PROGRESS)
/* tries_before_turn: of one that finds the page absent, and of the next. */
#define TRIES 2

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

byte state[FRAMES] = TAKEN | FREE;
byte pins[FRAMES];
byte writers[FRAMES];
byte key[FRAMES];   /* the page */
byte ranges[FRAMES]; /* one bit per byte */
#if FULL
byte on_way[FRAMES]; /* those on their way to the storage, whose places stay free */
#endif
byte data[4] = RUBBISH; /* two bytes of each frame */
byte entry[FRAMES]; /* the table: the page + 1 that this frame is entered for; 0: none */
bit locked[PAGES];  /* the buckets' locks */
byte dirty_pages;
bit outside_active;         /* Inode.outside_active */
byte outside_count;         /* Inode.outside_count */
#if PROGRESS
byte turns;                 /* the rest of Inode.outside */
#endif
byte size = BYTES;  /* Inode.size_bytes */
#if CLOSE
bit closed;         /* Inode.id has changed */
#endif
#if HANDLES
#define APPENDER 3
byte write_handle = 1; /* Inode.write_handle */
bit shut[4];           /* handles that are closed */
#endif
byte storage[BYTES] = 1;
#if PARK
byte wake[FRAMES];
bit asleep[10];
byte sleeps_on[10]; /* a frame, or CELL(r) */
#endif
#if MARKS
byte mark[2]; /* of the groups: the frame + 1 that they read just now; the readers' are 0 and 1 */
#if MARKS == 2
byte stored[2]; /* the same as its reader sees it: the store may not be in memory yet */
#endif
#endif
#if FLIGHTS
#define FREE_RECORD 0 /* Flight::Phase */
#define CLAIMED 1
#define UNDER_WAY 2
#define ENDING 3
byte named[FRAMES]; /* Frame.flight: the record + 1 */
byte phase[FLIGHTS];
byte number[FLIGHTS];
byte flying[FLIGHTS * 2] = NONE; /* Flight.frames */
byte flying_ranges[FLIGHTS * 2];
bit writes[FLIGHTS];
byte before[FLIGHTS];   /* Flight.outside */
byte asked[FLIGHTS];    /* the request that the server has not answered: its number */
byte answered[FLIGHTS]; /* AnswerCell.sequence */
bit refusal[FLIGHTS];   /* AnswerCell.result: an error, or less than was asked for */
#if HANDLES
byte via[FLIGHTS];      /* the handle of the request */
#endif
#if PARK
bit parked[FLIGHTS]; /* AnswerCell.parked */
#endif
#endif
#if FAULTS
byte faults = FAULTS;
#endif

/* Not part of the cache: what the assertions need to know. */
byte begun[BYTES] = 1; /* the newest version that somebody has begun to write */
byte acked[BYTES] = 1; /* ... that was acknowledged */
byte seen[BYTES];   /* ... that a read has returned */
byte cut[BYTES];    /* the version that a 0 stands for */
bit twice;          /* a truncation will be made once more, because its flush failed */
bit inside;         /* an outside call is between its beginning and its end */
bit wrote;          /* the writer has ended */
byte running = 1;   /* parties that have not ended, init until it has started them */
#if MARKS
byte copying[2];    /* the frame + 1 that a reader has marked and found good */
#endif
#if FLIGHTS
bit stale[FLIGHTS]; /* what the flight reads was, or will be, changed by an outside call */
#endif

/* What the functions below need of each party. */
#if PARK
#define PARK_LOCALS byte slept; bit cleared; bit woken
#else
#define PARK_LOCALS
#endif
#if FLIGHTS
#define FLIGHT_LOCALS \
  byte flight; byte record = NONE; byte looked_for; byte nth; byte ending = NONE; bit usable
#else
#define FLIGHT_LOCALS
#endif
#if MUTATION == MARKS_BEFORE_TAKEN
#define MARK_LOCALS bit marked; byte early[2]
#elif MUTATION == ORPHAN_MARKS_IGNORED
#define MARK_LOCALS bit marked; bit unlooked
#elif MARKS
#define MARK_LOCALS bit marked
#else
#define MARK_LOCALS
#endif
#if HANDLES
#define HANDLE_LOCALS byte with
#else
#define HANDLE_LOCALS
#endif
#define PARTY_LOCALS PARK_LOCALS; FLIGHT_LOCALS; MARK_LOCALS; HANDLE_LOCALS

/* ... and of a party that writes pages back. */
#if RUN
#define RUN_LOCALS byte behind = NONE; byte mask_behind /* the page behind: its frame, its ranges */
#else
#define RUN_LOCALS
#endif
#if FAULTS || HANDLES
#define FAULT_LOCALS bit refused
#else
#define FAULT_LOCALS
#endif
#define WRITING_LOCALS \
  byte mask; byte first; byte second; bit good; bit failed; RUN_LOCALS; FAULT_LOCALS; PARTY_LOCALS

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

/* Whether the outside call changes the page: Inode.outside_pages. */
#if HOST != NOWHERE
#define CHANGES(page) ((page) == PAGE(HOST))
#elif CUT != NOWHERE
#define CHANGES(page) ((page) >= PAGE(CUT))
#else
#define CHANGES(page) 1
#endif
#define CHANGES_FLIGHT(r) \
  ((flying[OF(r, 0)] != NONE && CHANGES(key[flying[OF(r, 0)]])) || \
   (flying[OF(r, 1)] != NONE && CHANGES(key[flying[OF(r, 1)]])))

#include "page_frames.pml"
#include "page_transfers.pml"
#include "page_write_back.pml"
#include "page_calls.pml"
#include "page_outside.pml"
#if CLIENTS
#include "page_clients.pml"
#endif
#if FLIGHTS
#include "page_background.pml"
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
#if FLIGHTS
inline settle(r) {
  if
  :: phase[r] == UNDER_WAY -> attend(r, 1)
  :: phase[r] != UNDER_WAY -> assert(phase[r] == FREE_RECORD)
  fi
}
#endif
inline check_frame(f) {
  assert(pins[f] == 0 && writers[f] == 0 && !HAS(f, TRANSFERS));
#if FULL
  assert(on_way[f] == 0);
#endif
#if HANDLES
  assert(!HAS(f, DIRTY) || write_handle != 0); /* H1 */
#endif
  assert(HAS(f, DIRTY) == (ranges[f] != 0)) /* F4 */
}

init {
#if FLIGHTS
  byte me = 9;
  PARTY_LOCALS;
#endif
  atomic {
#if MARKS == 2
    run MarkDrain();
#endif
#if FLIGHTS
    run Storage(0);
#if FLIGHTS == 2
    run Storage(1);
#endif
#if PREFETCHES
    running++;
    run Prefetcher(7);
#endif
#if RELIEFS
    running++;
    run Relief(8);
#endif
#endif
#if EVICTIONS
    running++;
    run Evictor(0);
#endif
#if FLUSHES
    running++;
    run Flusher(1);
#endif
#if HANDLES
    running++;
    run Closer(2);
#elif PROGRESS
    run Endless(2);
#elif OUTSIDE
    running++;
    run Outside(2);
#endif
#if CLIENTS
    running++;
    run Client(3, READ, READ_2, 1);
    running++;
    run Places(3, READ, READ_2);
#elif READ != NOWHERE
    running++;
    run Reader(3, READ, READ_2);
#endif
#if PEER != NOWHERE
    running++;
    run Reader(4, PEER, PEER_2);
#endif
#if WRITE != NOWHERE
    running++;
    run Writer(5, WRITE, WRITE_2);
#endif
#if OTHER != NOWHERE
    running++;
    run Writer(6, OTHER, NOWHERE);
#endif
    running--
  }
#if FLIGHTS
  running == 0;
  settle(0);
#if FLIGHTS == 2
  settle(1);
#endif
#endif
  d_step {
    running == 0 ->
    check_frame(0);
    check_frame(1);
    assert(dirty_pages == HAS(0, DIRTY) + HAS(1, DIRTY)); /* F4 */
#if MARKS == 1
    assert(mark[0] == 0 && mark[1] == 0); /* M2 */
#endif
    check_byte(0);
    check_byte(1);
#if PAGES == 2
    check_byte(2);
    check_byte(3)
#endif
  }
}

#if PROGRESS
ltl returns { <> (running == 0) }
#endif
