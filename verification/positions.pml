/* The position of an open file between the kernel and this process (src/interpose/position.hpp),
 * checked in every interleaving of two readers, and of others that have it given back and read
 * through another descriptor.
 *
 * Invariants, by the names of position.hpp:
 *   P2, P3, P4  each byte is read once, and none is skipped (assertions in count_read and at the end)
 *
 * A read is of one byte. What is left out: memory orders (all are seq_cst), seeking, signals (a
 * thread that moves the position has them blocked), and numbers that are opened again.
 *
 * Switches (verification/checks.py has their defaults and the checks):
 *   READS n   of each reader
 *   GIVERS n  others, each of which gives the position back and then reads a byte
 */

#include "settings.pml" /* the switches, and MUTATION: written by verification/run */

#define GIVEN 100
#define KERNELS 101
#define MOVING 102
#define BYTES (2 * READS + GIVERS)

byte word = KERNELS; /* W: or our position */
byte users;          /* U */
byte kernel;         /* the kernel's position */
bool was_read[BYTES];
byte ended;

inline count_read(at) {
  d_step {
    assert(at < BYTES && !was_read[at]);
    was_read[at] = true
  }
}

/* read(2) at the kernel's position, which the kernel moves under a lock */
inline kernel_read() {
  d_step { at = kernel; kernel++ }
  count_read(at)
}

inline give_back() {
  do
  :: d_step { word != MOVING -> seen = word };
     if
     :: seen == GIVEN -> break
     :: seen == KERNELS ->
        if
        :: MUTATION == KERNELS_KEPT -> break
        :: else ->
           d_step { done = (word == KERNELS); if :: done -> word = GIVEN :: else fi };
           if :: done -> break :: else fi
        fi
     :: else ->
        if
        :: MUTATION == TOLD_WITHOUT_MOVING ->
           kernel = seen;
           d_step { done = (word == seen); if :: done -> word = GIVEN :: else fi };
           if :: done -> break :: else fi
        :: MUTATION == GIVEN_BEFORE_TOLD ->
           d_step { done = (word == seen); if :: done -> word = GIVEN :: else fi };
           if :: done -> kernel = seen; break :: else fi
        :: else ->
           d_step { done = (word == seen); if :: done -> word = MOVING :: else fi };
           if :: done -> kernel = seen; word = GIVEN; break :: else fi
        fi
     fi
  od
}

inline take() {
  if
  :: MUTATION == ASKED_BEFORE_MOVING -> at = kernel
  :: else
  fi;
  d_step { done = (word == KERNELS); if :: done -> word = MOVING :: else fi };
  if
  :: done ->
     if
     :: users == 0 || MUTATION == USERS_UNSEEN ->
        if
        :: MUTATION != ASKED_BEFORE_MOVING -> at = kernel
        :: else
        fi;
        word = at
     :: else -> word = KERNELS
     fi
  :: else
  fi
}

active [2] proctype Reader() {
  byte reads = 0;
  byte seen;
  byte at;
  bool done;
  do
  :: reads < READS ->
     d_step { word != MOVING -> seen = word };
     if
     :: seen == KERNELS ->
        /* not served yet, or served from now on */
        if
        :: take()
        :: true
        fi;
        d_step { word != MOVING -> seen = word }
     :: else
     fi;
     if
     :: seen < GIVEN ->
        /* the copy, or the kernel's read at this position; then the move */
        if
        :: MUTATION == MOVED_BLINDLY -> word = seen + 1; done = true
        :: else -> d_step { done = (word == seen); if :: done -> word = seen + 1 :: else fi }
        fi;
        if
        :: done -> count_read(seen); reads++
        :: else
        fi
     :: else ->
        if
        :: MUTATION == COUNTED_LATE -> skip
        :: else -> users++
        fi;
        d_step { word != MOVING -> seen = word };
        if
        :: seen < GIVEN && MUTATION != OURS_KEPT -> give_back()
        :: else
        fi;
        if
        :: MUTATION == COUNTED_LATE -> users++
        :: else
        fi;
        kernel_read();
        users--;
        reads++
     fi
  :: reads == READS -> break
  od;
  ended++
}

active [GIVERS] proctype Giver() {
  byte seen;
  byte at;
  bool done;
  give_back();
  /* dup, fork and the like: whoever reads now knows nothing of W and U */
  kernel_read();
  ended++
}

active proctype End() {
  byte at;
  ended == 2 + GIVERS;
  do
  :: at < BYTES -> assert(was_read[at]); at++
  :: else -> break
  od
}
