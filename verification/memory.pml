/* A memory with delayed stores.
 *
 * Every party has a store buffer, whose entries reach memory at any later time, in any order,
 * except:
 *   - two stores to one location leave in program order;
 *   - a RELEASE (or SEQ_CST) store leaves only after everything before it;
 *   - a read-modify-write acts on memory itself, once the party's buffer is empty.
 * A load takes the party's youngest entry for its location, else memory. A seq_cst load waits until
 * the party's own SEQ_CST stores have left; other loads do not, so a seq_cst store followed by an
 * acquire load may appear reversed (as in C++ and on Arm; more than x86 allows). Loads happen in
 * program order; mutations that hoist a load represent a missing acquire.
 */

#define RELAXED 0
#define RELEASE 32
#define FENCED 64  /* relaxed, but seq_cst loads wait for it (mutations only) */
#define SEQ_CST 96 /* both */

#define DEPTH 5 /* entries of a store buffer; an assertion shows that none ever overflows */

typedef Buffer {
  byte entries;
  byte strong; /* SEQ_CST stores among them */
  byte place[DEPTH]; /* location + order */
  byte value[DEPTH];
}

byte memory[LOCATIONS];
Buffer buffer[PARTIES];
hidden byte shifted; /* only used inside d_step: carries nothing from state to state */

#define PLACE(who, i) (buffer[who].place[i] & 31)
#define HOLDS(who, i, where) (buffer[who].entries > i && PLACE(who, i) == (where))

#define LOAD(who, where) \
  (HOLDS(who, 4, where) -> buffer[who].value[4] : \
  (HOLDS(who, 3, where) -> buffer[who].value[3] : \
  (HOLDS(who, 2, where) -> buffer[who].value[2] : \
  (HOLDS(who, 1, where) -> buffer[who].value[1] : \
  (HOLDS(who, 0, where) -> buffer[who].value[0] : memory[where])))))

#define SETTLED(who) (buffer[who].strong == 0)  /* a seq_cst load may be made */
#define DRAINED(who) (buffer[who].entries == 0) /* a read-modify-write may be made */

inline store(who, where, what, order) {
  d_step {
    assert(buffer[who].entries < DEPTH);
    buffer[who].place[buffer[who].entries] = (where) + (order);
    buffer[who].value[buffer[who].entries] = what;
    buffer[who].entries++;
    buffer[who].strong = buffer[who].strong + ((order) / FENCED);
  }
}

#define IS_RELAXED(who, i) (buffer[who].entries > i && (buffer[who].place[i] & RELEASE) == 0)
#define DIFFERS(who, i, j) (PLACE(who, i) != PLACE(who, j))
#define MAY_LEAVE_0(who) (buffer[who].entries > 0)
#define MAY_LEAVE_1(who) (IS_RELAXED(who, 1) && DIFFERS(who, 1, 0))
#define MAY_LEAVE_2(who) (IS_RELAXED(who, 2) && DIFFERS(who, 2, 0) && DIFFERS(who, 2, 1))
#define MAY_LEAVE_3(who) \
  (IS_RELAXED(who, 3) && DIFFERS(who, 3, 0) && DIFFERS(who, 3, 1) && DIFFERS(who, 3, 2))
#define MAY_LEAVE_4(who) \
  (IS_RELAXED(who, 4) && DIFFERS(who, 4, 0) && DIFFERS(who, 4, 1) && DIFFERS(who, 4, 2) && \
   DIFFERS(who, 4, 3))

inline leave(who, i) {
  memory[PLACE(who, i)] = buffer[who].value[i];
  buffer[who].strong = buffer[who].strong - ((buffer[who].place[i] & 96) / FENCED);
  shifted = i;
  do
  :: shifted + 1 < buffer[who].entries ->
     buffer[who].place[shifted] = buffer[who].place[shifted + 1];
     buffer[who].value[shifted] = buffer[who].value[shifted + 1];
     shifted++
  :: else -> break
  od;
  buffer[who].entries--;
  buffer[who].place[buffer[who].entries] = 0;
  buffer[who].value[buffer[who].entries] = 0;
  shifted = 0;
}

proctype Drain(byte who) {
end:
  do
  :: d_step { MAY_LEAVE_0(who) -> leave(who, 0) }
  :: d_step { MAY_LEAVE_1(who) -> leave(who, 1) }
  :: d_step { MAY_LEAVE_2(who) -> leave(who, 2) }
  :: d_step { MAY_LEAVE_3(who) -> leave(who, 3) }
  :: d_step { MAY_LEAVE_4(who) -> leave(who, 4) }
  od
}

/* Futexes. The call is no barrier: it compares with memory while the caller's stores may be in
 * flight. With TIMED a sleep may end spontaneously; otherwise a lost wake-up is a deadlock, which
 * the checker reports. */
bit asleep[PARTIES];

inline futex_wait(who, where, what) {
  d_step {
    if
    :: memory[where] == (what) -> asleep[who] = 1
    :: else
    fi
  }
  if
  :: d_step { !asleep[who] -> skip }
#if TIMED
  :: d_step { asleep[who] && SLEEP_ENDS(who) -> asleep[who] = 0 }
#endif
  fi
}

inline futex_wake(who) { asleep[who] = 0 }
