/* ferryd's promise to readers in other processes (src/daemon/shared_table.hpp), checked in every
 * interleaving of a reader, ferryd, a writer that is no process of Ferry's, and ferryd's death.
 *
 * Invariants, by the names of shared_table.hpp:
 *   D1, D3  a read returns nothing that was changed before it began (assertion in Reader)
 *   D2      nor does it when ferryd has died since
 *   D4      a file that is served in the place of another is not taken for it (likewise)
 *
 * What is left out: memory orders. The reader's fence keeps its copy before its looks; ferryd's
 * stores and its system calls on leases are ordered by the system calls.
 *
 * Switches (verification/checks.py has their defaults and the checks):
 *   CHANGES n  how often the writer changes the file
 *   PAGES 1|2  pages of a read
 *   DEATH 1    ferryd may be killed at any moment
 *   READS n    how often the reader reads
 */

#include "settings.pml" /* the switches, and MUTATION: written by verification/run */

#define NOBODY 0

byte storage;   /* the version of the file; each change makes the next */
byte complete;  /* the version that a change has ended with */
bool writing;   /* the writer has the file open, or waits for the lease to end */
bool lease;     /* the kernel's, on the file; while it stands the writer waits */
bool broken;    /* the kernel has asked for its end */
bool watching;  /* the watching thread ends it now */

byte mark;      /* what readers see: 0, or the mark of what is served */
byte marks;     /* so far */
byte served;    /* which file has the entry: 1, the reader's, or 2 */
byte page[PAGES];  /* the version that the cache holds */
bool filled[PAGES];
bool died;      /* FUTEX_OWNER_DIED */
bool gone;      /* ferryd makes no more steps */

byte offered;   /* the mark that the reader got */

active proctype Writer() {
  byte changes = 0;
  do
  :: changes < CHANGES ->
     /* open(2) breaks the lease, and waits for its end; nobody has one to a file being written */
     atomic { writing = true; broken = lease }
     !lease;
     storage++;
     complete = storage;
     writing = false;
     changes++
  :: else -> break
  od
}

inline drop_pages() {
  d_step { filled[0] = false; filled[PAGES - 1] = false }
}

active proctype Ferryd() {
  byte at;
  bool again = true;
  do
  :: !gone && mark == NOBODY && !lease && again ->
     /* take the lease: refused while somebody writes */
     if
     :: MUTATION == FILLED_BEFORE_LEASE -> page[0] = storage; filled[0] = true
     :: else
     fi;
     atomic {
       if
       :: !gone && (!writing || MUTATION == SERVED_WITHOUT_LEASE) ->
          lease = !writing;
          broken = false;
          served = 1
       :: else -> goto next
       fi
     }
     if
     :: MUTATION != FILLED_BEFORE_LEASE -> drop_pages()
     :: else
     fi;
     /* publish, unless a break has begun (LeaseWatch::while_held) */
     atomic {
       if
       :: !gone && !watching && (lease && !broken || MUTATION == PUBLISHED_WHILE_BROKEN ||
                                MUTATION == SERVED_WITHOUT_LEASE) ->
          if
          :: MUTATION != MARK_REUSED -> marks++
          :: else -> marks = 1
          fi;
          mark = marks;
          if
          :: offered == NOBODY -> offered = mark
          :: else
          fi
       :: gone || !watching && (!lease || broken) && MUTATION != PUBLISHED_WHILE_BROKEN &&
          MUTATION != SERVED_WITHOUT_LEASE -> skip
       fi
     }
  :: !gone && mark != NOBODY && served == 1 && !(filled[0] && filled[PAGES - 1]) ->
     /* fill a page */
     at = (filled[0] -> PAGES - 1 : 0);
     atomic {
       if
       :: !gone -> page[at] = storage; filled[at] = true
       :: else
       fi
     }
  :: !gone && mark != NOBODY && served == 1 && again && !broken ->
     /* the entry is another file's from now on; nobody changes that one */
     atomic { if :: !gone && !watching -> mark = NOBODY; again = false :: gone fi };
     atomic { if :: !gone && !watching -> lease = false; broken = false :: gone fi };
     atomic {
       if
       :: !gone ->
          served = 2;
          filled[0] = true;
          filled[PAGES - 1] = true;
          if
          :: MUTATION != MARK_REUSED -> marks++
          :: else
          fi;
          mark = marks
       :: else
       fi
     }
  :: gone -> break
  :: timeout -> break
next:
     skip
  od
}

/* Its thread that ends leases, which holds LeaseWatch's mutex meanwhile. */
active proctype Watch() {
  do
  :: atomic { !gone && lease && broken -> watching = true };
     if
     :: MUTATION == LEASE_BEFORE_MARK ->
        atomic { if :: !gone -> lease = false; broken = false :: else fi };
        atomic { if :: !gone -> mark = NOBODY :: else fi }
     :: else ->
        atomic { if :: !gone -> mark = NOBODY :: else fi };
        atomic { if :: !gone -> lease = false; broken = false :: else fi }
     fi;
     watching = false
  :: gone -> break
  :: timeout -> break
  od
}

/* SIGKILL: nothing more of ferryd; then the robust futex; then its descriptors, and the leases. */
active proctype Kernel() {
  if
  :: DEATH ->
     gone = true;
     if
     :: MUTATION == LEASES_BEFORE_FUTEX -> lease = false; died = true
     :: else -> died = true; lease = false
     fi
  :: true -> skip
  fi
}

active proctype Reader() {
  byte reads = 0;
  byte began;
  byte got[PAGES];
  byte from;
  bool whole;
  bool stands;
  do
  :: reads < READS && offered != NOBODY ->
     began = complete;
     if
     :: MUTATION == LOOKED_BEFORE_COPY -> stands = (mark == offered && !died)
     :: else
     fi;
     whole = filled[0];
     atomic { got[0] = page[0]; from = served }
     whole = whole && filled[PAGES - 1];
     got[PAGES - 1] = page[PAGES - 1];
     if
     :: MUTATION == LOOKED_BEFORE_COPY
     :: MUTATION == DEATH_UNSEEN -> stands = (mark == offered)
     :: else -> stands = !died; stands = stands && (mark == offered)
     fi;
     if
     :: whole && stands ->
        assert(from == 1);
        assert(got[0] >= began && got[PAGES - 1] >= began)
     :: else
     fi;
     reads++
  :: reads == READS -> break
  :: timeout -> break
  od
}
