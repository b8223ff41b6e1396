/* The request ring, completion cells, parking, stopping and dying (include/ferry/device/ring.hpp,
 * requester.hpp, waiting.hpp, src/server/loop.cpp), checked in every interleaving over a memory
 * with delayed stores (memory.pml). docs/internals/models.md explains each word.
 *
 * Invariants, by the names that ring.hpp gives them:
 *   No lost or doubled request
 *     R1, R2  every published request is taken once, whole (assertions in Server at `copy`); one
 *             that is lost, or a claimed ticket that is never published, leaves its caller or the
 *             loop waiting, which is an invalid end state
 *     R5      when the loop says `stopped`, every request that was promised to a caller that saw
 *             `running` has been answered (assertion at `stopped`), and no such caller is told that
 *             the server is gone (assertions in Producer at `refused` and `lost`)
 *   No reuse before the result is read
 *     R1, R3  a ticket is claimed, and its slot filled, only when the request one lap earlier was
 *             copied (at `publish`)
 *     R4      a cell gets a new request only when the answer of the last one was read, or has come
 *             and is left unread (at `publish`), and every answer arrives at the request it belongs
 *             to (at `respond`, `answered`)
 *   Progress without the other side's help
 *     R6      no wake-up is lost: sleepers sleep for ever here, so a lost one is an invalid end
 *             state (deadlock); only with DEATH or PROGRESS may a sleep end by itself
 *     R7      every call returns and the loop ends, also when the server dies or is declared dead
 *             at any moment (PROGRESS: an LTL property under weak fairness, with real polling)
 *     R8      a caller gives up only on a server that has said that it is dead or has stopped
 *             (assertions in Producer at `refused` and `lost`), and every death is said (R7)
 *   Who may touch a buffer (docs/internals/architecture.md)
 *     D1      no call returns while the storage works on it, unless a loop that hung outside the
 *             storage was declared dead (assertions in Producer at `lost`, in Server at `respond`)
 *     D2      a loop that is declared dead begins no operation from then on (in flush())
 *     D3      no operation is left behind when the loop's thread ends (in Server at `gone`)
 *     D4      while a dying loop waits for one operation, the calls of others return (`slow`:
 *             an operation of producer 0 ends only after producer 1 has made all its calls; a
 *             producer 1 that waits for it is an invalid end state)
 *
 * Switches (verification/checks.py has their defaults and the checks):
 *   SLOTS 1|2       slots of the ring; with one, or with BATCH, tickets have to wait for room
 *   CALLS n         calls of each producer; CALLS_1 n: of producer 1
 *   BATCH n         producer 0 makes n calls of two requests each instead
 *   STOP_EARLY 1    stopping is announced at any moment, not only after the last call
 *   WORKER 1        operations finish on a worker thread; the server parks meanwhile
 *   DEATH 1|2|3     outside the storage, the server hangs for ever and is declared dead | is
 *                   declared dead but lives on | meets a fault and dies by itself, or is declared
 *                   dead; at any moment
 *   LEAVE 1         a producer may end without waiting for its answers; the next program with its
 *                   cells leaves those alone whose answers are out (Requester::reclaim)
 *   PROGRESS 1      sleeps may end by themselves, naps poll, the LTL property is on
 */

#include "settings.pml" /* the switches, and MUTATION: written by verification/run */

#define TIMED (PROGRESS || DEATH)

#define PRODUCERS 2
#define SERVER PRODUCERS
#define PARTIES (PRODUCERS + 1)
#if BATCH || DEATH == 1 || DEATH == 2 || LEAVE
#define CELLS 4
#define EACH 2
#else
#define CELLS 2
#define EACH 1
#endif

/* Locations. */
#define TAIL 0
#define BELL 1
#define HEAD 2
#define KNOWN 3
#define PHASE 4
#define PARKED 5
#define COMMIT(slot) (6 + (slot))
#define BODY(slot) (6 + SLOTS + (slot))
#define SEQUENCE(cell) (6 + 2 * SLOTS + (cell))
#define RESULT(cell) (6 + 2 * SLOTS + CELLS + (cell))
#define WAITING(cell) (6 + 2 * SLOTS + 2 * CELLS + (cell)) /* AnswerCell.parked */
#define LOCATIONS (6 + 2 * SLOTS + 3 * CELLS)

/* Whether a sleep may end spontaneously. With DEATH=3 only if the next look finds something:
 * nothing else is lost, and a call that waits in vain is a deadlock. */
#if DEATH == 3 && !PROGRESS
#define SLEEP_ENDS(who) \
  ((who) == SERVER -> FINISHED(0) || FINISHED(1) : memory[PHASE] >= STOPPED)
#else
#define SLEEP_ENDS(who) 1
#endif

/* Phases. */
#define RUNNING 0
#define STOPPING 1
#define STOPPED 2
#define DEAD 3

/* Tickets have 4 bits and laps 2, and the first ticket is two before both wrap around. */
#define FIRST 14
#define ADD(ticket, n) (((ticket) + (n)) & 15)
#define FROM(ticket, start) (((ticket) + 16 - (start)) & 15)
#define SLOT(ticket) ((ticket) & (SLOTS - 1))
#if MUTATION == COMMIT_WITHOUT_LAP
#define LAP(ticket) 1
#else
#define LAP(ticket) ((((ticket) / SLOTS) + 1) & 3)
#endif

/* A request in one byte: the cell and the sequence number to be written there. */
#define REQUEST(cell, number) ((cell) * 4 + (number))
#define CELL_OF(body) (((body) & 15) / 4)
#define NUMBER_OF(body) ((body) & 3)
#define OWNER_OF(body) (CELL_OF(body) / EACH)
#define NOP 0
#define RUBBISH 31  /* what an unused slot holds */
#define FAILED 16   /* added to a request's byte it is an error (-ESHUTDOWN, -EIO); else: success */

/* Not part of the protocol: facts for the assertions. */
byte copied = FIRST;    /* tickets copied out */
short taken;            /* one bit per request */
byte promised;          /* requests whose caller saw `running` after the claim */
byte replied;           /* requests answered */
byte awaited[CELLS];    /* the number that the cell's owner waits for */
#define GIVEN_UP 255    /* ... or that it gave up on a dead server */
byte returned;          /* producers that have made all their calls */
bit ended;              /* the loop's thread is gone */
bit halted;             /* the loop died */
bit died;               /* the phase was set to dead */

byte in_storage[2];     /* operations submitted and not reaped */
bit finished[2];        /* ... that a worker has finished */

#if DEATH
/* Loop::gate_. It is changed by compare-exchange, except that the loop opens it again with a
 * release store; seen late, that store only keeps the watchdog away for longer. So: no buffer. */
#define GATE_OPEN 0
#define GATE_STORAGE 1
#define GATE_CLOSED 2
byte gate;
#endif
#if DEATH > 1
bit begun[2];           /* operations that have left the queue: the storage may touch the buffer */
bit dying;              /* Loop::die() has the gate */
bit excused;            /* the watchdog found the gate open, so the loop hung outside the storage */
bit slow;               /* operations of producer 0 outlast the calls of producer 1 */
#define DECLARED (gate == GATE_CLOSED && MUTATION != SECTION_UNCHECKED)
#define UNDER_WAY(request) \
  ((begun[0] && in_storage[0] == (request)) || (begun[1] && in_storage[1] == (request)))
#define UNBEGUN ((in_storage[0] != 0 && !begun[0]) || (in_storage[1] != 0 && !begun[1]))
#define ENDS(i) \
  (in_storage[i] != 0 && begun[i] && (!slow || OWNER_OF(in_storage[i]) != 0 || returned > 0))
#else
#define DECLARED 0
#define declared gone /* a label */
#define ENDS(i) (in_storage[i] != 0)
#endif
#define FINISHED(i) (ENDS(i) && (finished[i] || !WORKER))
#define NOTHING_IN_STORAGE (in_storage[0] == 0 && in_storage[1] == 0)
#define JOB_FREE (in_storage[0] == 0 || in_storage[1] == 0)

#include "memory.pml"

#if BATCH
#define COUNT(who) ((who) == 0 -> 2 : 1)
#define CALLS_OF(who) ((who) == 0 -> BATCH : CALLS_1)
#else
#define COUNT(who) 1
#define CALLS_OF(who) ((who) == 0 -> CALLS : CALLS_1)
#endif

inline ring_bell() { memory[BELL] = memory[BELL] + (MUTATION == BELL_NOT_COUNTED -> 0 : 1) }

/* ---- device side ----------------------------------------------------------------------------- */

#define HAS_ROOM(head) \
  (MUTATION == ROOM_UNCHECKED || \
   FROM(ADD(ticket, COUNT(me)), head) <= SLOTS + (MUTATION == ROOM_OFF_BY_ONE -> 1 : 0))
#define OTHERS_CLAIMED (memory[TAIL] != ticket)
#if LEAVE
#define MY_CELL(i) (me * EACH + apart + (i))
#define LEFT_CELL (me * EACH + 1 - apart)
#else
#define MY_CELL(i) (me * EACH + given_up + (i))
#endif

#if MUTATION == COMMIT_RELAXED
#define COMMIT_ORDER FENCED
#elif MUTATION == COMMIT_RELEASE
#define COMMIT_ORDER RELEASE
#else
#define COMMIT_ORDER SEQ_CST
#endif

/* Of a batch. */
#if MUTATION == FIRST_COMMITTED_RELAXED
#define FIRST_ORDER FENCED
#else
#define FIRST_ORDER COMMIT_ORDER
#endif

/* Only the buffer's owner stores, so both stores may be one step. */
inline publish_slot(i, order) {
  assert(FROM(ADD(ticket, i), copied) < SLOTS); /* R3 */
#if MUTATION == COMMIT_BEFORE_BODY
  store(me, COMMIT(SLOT(ADD(ticket, i))), LAP(ADD(ticket, i)), order);
  store(me, BODY(SLOT(ADD(ticket, i))), (abandon -> NOP : REQUEST(MY_CELL(i), number)), RELAXED)
#else
  store(me, BODY(SLOT(ADD(ticket, i))), (abandon -> NOP : REQUEST(MY_CELL(i), number)), RELAXED);
  store(me, COMMIT(SLOT(ADD(ticket, i))), LAP(ADD(ticket, i)), order)
#endif
}

/* The look that R5 is about. */
inline look_at_phase() {
  abandon = (LOAD(me, PHASE) != RUNNING);
  promised = promised + (abandon -> 0 : COUNT(me))
}

#if LEAVE
inline change_cell() {
  apart = 1 - apart;
  seen = former;
  former = number;
  number = seen;
  seen = 0
}
#endif

proctype Producer(byte me) {
  byte calls;    /* made so far */
  byte ticket;
  byte number;   /* AnswerCell.issued */
  byte given_up; /* retired cells */
  byte i;        /* the request of a batch that is waited for */
  byte seen;
  bit abandon;
  bit leaving;   /* the server is gone: one last look */
#if LEAVE
  bit apart;     /* which of the two cells is in use */
  bit left;      /* the other one has a request that an earlier program left in flight */
  byte former;   /* AnswerCell.issued of the other one */
#endif

prepare:
#if LEAVE
  if
  :: atomic { /* reclaim() */
       left && (LOAD(me, SEQUENCE(LEFT_CELL)) == former || MUTATION == LEFT_CELL_REUSED) ->
#if MUTATION != LEFT_CELL_REUSED
       awaited[LEFT_CELL] = 0;
#endif
       memory[RESULT(LEFT_CELL)] = RUBBISH; /* so that reading it later is noticed */
       left = 0;
       change_cell()
     }
  :: skip /* it does so only when cells run short */
  fi;
#endif
  if
  :: calls == CALLS_OF(me) || given_up + COUNT(me) > EACH -> goto finish
  :: else
  fi;

#if MUTATION == PHASE_BEFORE_CLAIM
  atomic { SETTLED(me) -> look_at_phase() }
#endif

claim: /* try_claim() */
  atomic {
    ticket = LOAD(me, TAIL);
    if
    :: HAS_ROOM(LOAD(me, KNOWN)) -> goto exchange
    :: else
    fi
  }
  atomic {
    buffer[me].entries < DEPTH ->
    seen = LOAD(me, HEAD);
    store(me, KNOWN, seen, RELEASE);
    if
    :: HAS_ROOM(seen) -> seen = 0; goto exchange
    :: else -> seen = 0
    fi
  }
  if
  :: atomic { OTHERS_CLAIMED -> goto claim }
  :: atomic { !OTHERS_CLAIMED && leaving -> goto refused }
#if MUTATION != ROOM_IGNORES_DEATH
  :: atomic { !leaving && LOAD(me, PHASE) >= STOPPED -> leaving = 1; goto claim }
#endif
#if MUTATION == SILENCE_IS_DEATH
  :: atomic { !leaving -> leaving = 1; goto claim }
#endif
#if PROGRESS
  :: atomic {
       !leaving && (LOAD(me, PHASE) < STOPPED || MUTATION == ROOM_IGNORES_DEATH) -> goto claim
     }
#else
  /* Polling, shortened: nothing else changes what the next look finds. */
  :: atomic { !leaving && HAS_ROOM(memory[HEAD]) -> goto claim }
#endif
  fi;
exchange:
  atomic {
    DRAINED(me) ->
    if
    :: OTHERS_CLAIMED && MUTATION != CLAIM_SHARED -> goto claim
    :: else
    fi;
    memory[TAIL] = ADD(ticket, COUNT(me))
  }
#if MUTATION != PHASE_BEFORE_CLAIM
  atomic { SETTLED(me) -> look_at_phase() }
#endif

publish:
  atomic {
    buffer[me].entries + 2 * COUNT(me) <= DEPTH ->
    leaving = 0;
    number = number + 1;
#if MUTATION == ABANDONED_UNPUBLISHED
    if
    :: abandon -> goto back
    :: else
    fi;
#endif
    if
    :: !abandon ->
       i = 0;
       do
       :: i < COUNT(me) ->
          assert(awaited[MY_CELL(i)] == 0); /* R4 */
          awaited[MY_CELL(i)] = number;
          i++
       :: else -> break
       od;
       i = 0
    :: else
    fi
  }
#if MUTATION == BELL_BEFORE_PUBLISH
  atomic { SETTLED(me) -> seen = LOAD(me, PARKED) }
#endif
  atomic {
    if
    :: COUNT(me) == 2 ->
#if MUTATION == FIRST_COMMITTED_FIRST
       publish_slot(0, (abandon -> SEQ_CST : FIRST_ORDER));
       publish_slot(1, (abandon -> SEQ_CST : RELAXED))
#else
       publish_slot(1, (abandon -> SEQ_CST : RELAXED)); /* the first slot's commit covers it */
       publish_slot(0, (abandon -> SEQ_CST : FIRST_ORDER))
#endif
    :: else ->
       publish_slot(0, COMMIT_ORDER)
    fi;
    ticket = 0
  }

  /* ring_doorbell() */
#if MUTATION == BELL_BEFORE_PUBLISH
  if
  :: seen == 0 -> goto submitted
  :: else -> seen = 0
  fi;
#else
  atomic {
    (SETTLED(me) || MUTATION == BELL_LOOK_ACQUIRE) ->
    if
    :: LOAD(me, PARKED) == 0 -> goto submitted
    :: else
    fi
  }
#endif
  atomic { DRAINED(me) -> ring_bell() }
  futex_wake(SERVER);

submitted:
  if
  :: abandon -> goto back
  :: else
  fi;
#if MUTATION == CELL_NOT_AWAITED
  if
  :: atomic { calls + 1 < CALLS_OF(me) -> goto back }
  :: calls + 1 >= CALLS_OF(me)
  fi;
#endif

#if LEAVE
  if
  :: atomic { !left -> left = 1; change_cell(); goto back } /* one cell is always spare */
  :: skip
  fi;
#endif

wait: /* until_equal() */
  atomic {
#if MUTATION == RESULT_BEFORE_SEQUENCE
    seen = LOAD(me, RESULT(MY_CELL(i)))
  }
  atomic {
#endif
    if
    :: LOAD(me, SEQUENCE(MY_CELL(i))) == number -> goto answered
    :: else
    fi;
    buffer[me].entries < DEPTH ->
    seen = 0;
    store(me, WAITING(MY_CELL(i)), 1, (MUTATION == WAITER_PARKED_RELEASE -> RELEASE : SEQ_CST))
  }
again:
  atomic {
    SETTLED(me) ->
    seen = LOAD(me, SEQUENCE(MY_CELL(i)));
#if MUTATION != WAITER_NO_SECOND_LOOK
    if
    :: seen == number ->
       seen = 0;
       goto unpark
    :: else
    fi
#endif
  }
  if
#if MUTATION != WAIT_IGNORES_DEATH
  :: atomic { LOAD(me, PHASE) >= STOPPED -> seen = 0; leaving = 1 }
#endif
  :: atomic { LOAD(me, PHASE) < STOPPED || MUTATION == WAIT_IGNORES_DEATH -> skip }
#if MUTATION == SILENCE_IS_DEATH
  :: atomic { seen = 0; leaving = 1 }
#endif
  fi;
  if
  :: !leaving ->
     futex_wait(me, SEQUENCE(MY_CELL(i)), seen);
     seen = 0;
     goto again
  :: else
  fi;
lost: /* the answer may have come between the look at the word and the look at the loop */
  atomic {
    leaving = 0;
    SETTLED(me) ->
    if
    :: LOAD(me, SEQUENCE(MY_CELL(i))) == number && MUTATION != ERROR_WITHOUT_LOOK -> goto unpark
    :: else
    fi;
    assert(died); /* R5, R8 */
#if DEATH > 1
    assert(excused || !UNDER_WAY(REQUEST(MY_CELL(i), number))); /* D1 */
#endif
    buffer[me].entries < DEPTH ->
    store(me, WAITING(MY_CELL(i)), 0, RELAXED);
#if MUTATION == CELL_NOT_RETIRED
    awaited[MY_CELL(i)] = 0;
#else
    awaited[MY_CELL(i)] = GIVEN_UP;
    given_up++;
    number = 0;
#endif
    goto back
  }
unpark:
  atomic {
    buffer[me].entries < DEPTH -> store(me, WAITING(MY_CELL(i)), 0, RELAXED)
  }
answered:
  atomic {
#if MUTATION != RESULT_BEFORE_SEQUENCE
    seen = LOAD(me, RESULT(MY_CELL(i)));
#endif
    assert((seen & 15) == REQUEST(MY_CELL(i), number) && seen != RUBBISH); /* R4 */
    assert(awaited[MY_CELL(i)] == number);
    awaited[MY_CELL(i)] = 0;
    memory[RESULT(MY_CELL(i))] = RUBBISH; /* so that reading it again is noticed */
    seen = 0;
    i++;
    if
    :: i < COUNT(me) -> goto wait
    :: else -> i = 0; goto back
    fi
  }

refused: /* claim() failed: nothing was submitted */
  atomic {
    leaving = 0;
    assert(died || memory[PHASE] == STOPPED) /* R5, R8 */
  }
back:
  atomic {
    abandon = 0;
    ticket = 0;
    calls++;
    goto prepare
  }
finish:
  returned++
}

/* ---- server side ----------------------------------------------------------------------------- */

#define READY (LOAD(SERVER, COMMIT(SLOT(next))) == LAP(next) || MUTATION == COMMIT_UNCHECKED)

inline reap(slot) {
  work = in_storage[slot];
  in_storage[slot] = 0;
#if DEATH > 1
  begun[slot] = 0;
#endif
  finished[slot] = 0
}

inline finish(slot, other) {
  atomic {
    if
    :: DECLARED -> goto declared
    :: !DECLARED -> reap(slot); goto respond
#if DEATH == 3
    :: !DECLARED -> reap(slot); goto die /* after `finished` */
    /* Both were reaped; the other one's caller learns it from the phase. */
    :: !DECLARED && FINISHED(other) -> reap(other); reap(slot); goto die
#endif
    fi
  }
}

#if DEATH > 1
inline flush() {
  assert(begun[0] || in_storage[0] == 0 || awaited[CELL_OF(in_storage[0])] != GIVEN_UP); /* D2 */
  assert(begun[1] || in_storage[1] == 0 || awaited[CELL_OF(in_storage[1])] != GIVEN_UP);
  begun[0] = (in_storage[0] != 0);
  begun[1] = (in_storage[1] != 0)
}
#endif

/* Where the loop continues after an answer, and where a fault may end it. */
#if DEATH == 3
#define SERVING 0
#define CURRENT 1    /* answering what was taken or finished when the fault came */
#define REFUSING 2
#define COLLECTING 3
#define GO_ON \
  if \
  :: stage == SERVING -> goto serve \
  :: stage == CURRENT -> goto hold \
  :: stage == REFUSING -> goto refuse \
  :: stage == COLLECTING -> goto collect \
  fi
#define SERVES (stage == SERVING)
#else
#define GO_ON goto serve
#define SERVES 1
#endif

#if MUTATION == ANSWER_RELEASE
#define ANSWER_ORDER RELEASE
#elif MUTATION == ANSWER_RELAXED
#define ANSWER_ORDER FENCED
#else
#define ANSWER_ORDER SEQ_CST
#endif

proctype Server() {
  byte next = FIRST; /* RingConsumer::next_ */
  byte work;         /* a request, then its result */
  byte seen;
  bit stopping;
  byte tail = FIRST;
#if DEATH == 3
  byte stage;
#endif

{
  skip;
serve:
#if MUTATION == TAIL_BEFORE_PHASE
  atomic { SETTLED(SERVER) -> tail = LOAD(SERVER, TAIL) }
#endif
  atomic {
    SETTLED(SERVER) ->
    stopping = (LOAD(SERVER, PHASE) != RUNNING);
    if
    :: FINISHED(0) -> goto finish_0 /* or take another first: operations take their time */
    :: FINISHED(1) -> goto finish_1
    :: JOB_FREE -> skip
    :: DECLARED -> goto declared
#if DEATH > 1
    :: UNBEGUN -> goto start
    :: !UNBEGUN && !FINISHED(0) && !FINISHED(1) && !JOB_FREE && stopping -> goto idle
    :: !UNBEGUN && !FINISHED(0) && !FINISHED(1) && !JOB_FREE && !stopping -> goto park
#endif
#if DEATH == 3
    :: goto die
#endif
    :: WORKER && !FINISHED(0) && !FINISHED(1) && !JOB_FREE && stopping -> goto idle
    :: WORKER && !FINISHED(0) && !FINISHED(1) && !JOB_FREE && !stopping -> goto park
    fi
  }

  /* RingConsumer::take() */
#if MUTATION == BODY_BEFORE_CHECK
  work = LOAD(SERVER, BODY(SLOT(next)));
#endif
  atomic {
    if
    :: READY -> goto copy
    :: else -> work = 0; goto nothing
    fi
  }
copy:
#if MUTATION == HEAD_BEFORE_COPY
  store(SERVER, HEAD, ADD(next, 1), RELEASE);
#endif
  atomic {
#if MUTATION != BODY_BEFORE_CHECK
    work = LOAD(SERVER, BODY(SLOT(next)));
#endif
    assert(work != RUBBISH); /* R2: never a slot that was not filled */
    assert(work == NOP || !((taken >> work) & 1)); /* R2: never twice */
    assert(work == NOP || awaited[CELL_OF(work)] == NUMBER_OF(work) ||
           awaited[CELL_OF(work)] == GIVEN_UP); /* R2: never an old one */
#if BATCH && SLOTS == 2
    /* The server finds the whole batch at once. */
    assert(work == NOP || CELL_OF(work) != 0 ||
           memory[COMMIT(SLOT(ADD(next, 1)))] == LAP(ADD(next, 1)));
#endif
    taken = taken | (work == NOP -> 0 : 1 << work);
    memory[BODY(SLOT(next))] = RUBBISH; /* so that reading it again is noticed */
    next = ADD(next, 1);
    copied = next;
#if MUTATION != HEAD_BEFORE_COPY
    store(SERVER, HEAD, next, RELEASE);
#endif
    if
    :: work == NOP -> GO_ON
    :: work != NOP && SERVES && LOAD(SERVER, PHASE) != RUNNING -> work = work + FAILED; goto respond
    :: work != NOP && SERVES && LOAD(SERVER, PHASE) == RUNNING && in_storage[0] == 0 ->
       in_storage[0] = work; work = (MUTATION == CURRENT_KEPT -> work : 0); goto serve
    :: work != NOP && SERVES && LOAD(SERVER, PHASE) == RUNNING && in_storage[0] != 0 ->
       in_storage[1] = work; work = 0; goto serve
#if DEATH == 3
    :: work != NOP && SERVES -> goto die /* after `taken` or `validated` */
    :: work != NOP && !SERVES -> work = work + FAILED; goto respond
#endif
    fi
  }

#if DEATH > 1
start: /* the part of serve_storage() that begins operations */
  atomic {
    if
    :: DECLARED -> goto declared
    :: else -> flush(); goto serve
    fi
  }
#endif
finish_0:
  finish(0, 1);
finish_1:
  finish(1, 0);
respond: /* answer() */
  atomic {
#if MUTATION == PARKED_BEFORE_ANSWER
    seen = LOAD(SERVER, WAITING(CELL_OF(work)))
  }
  atomic {
#endif
    buffer[SERVER].entries + 2 <= DEPTH ->
    assert(awaited[CELL_OF(work)] == NUMBER_OF(work) ||
           awaited[CELL_OF(work)] == GIVEN_UP); /* R4 */
#if DEATH > 1
    assert(excused || (in_storage[0] != (work & 15) && in_storage[1] != (work & 15))); /* D1 */
#endif
    replied++;
    store(SERVER, RESULT(CELL_OF(work)), work, RELAXED);
    store(SERVER, SEQUENCE(CELL_OF(work)), NUMBER_OF(work), ANSWER_ORDER)
  }
#if MUTATION == PARKED_BEFORE_ANSWER
  if
  :: seen == 0 -> work = 0; GO_ON
  :: else -> seen = 0
  fi;
#else
  atomic {
    SETTLED(SERVER) ->
    if
    :: LOAD(SERVER, WAITING(CELL_OF(work))) == 0 || MUTATION == ANSWER_NOT_WOKEN ->
       work = 0; GO_ON
    :: else
    fi
  }
#endif
  atomic {
    futex_wake(OWNER_OF(work));
    work = 0;
    GO_ON
  }

nothing:
  atomic {
    if
    :: FINISHED(0) && !WORKER && !DECLARED -> goto finish_0
    :: FINISHED(1) && !WORKER && !DECLARED -> goto finish_1
    :: !NOTHING_IN_STORAGE && DECLARED -> goto declared
    :: stopping && (NOTHING_IN_STORAGE || MUTATION == STOPPED_EARLY) -> skip
    :: stopping && WORKER && !NOTHING_IN_STORAGE && !DECLARED -> goto idle
    :: !stopping && (NOTHING_IN_STORAGE || (WORKER && !DECLARED)) -> goto park
#if DEATH > 1
    :: UNBEGUN -> goto start
    :: !NOTHING_IN_STORAGE && !UNBEGUN && !FINISHED(0) && !FINISHED(1) && stopping -> goto idle
    :: !NOTHING_IN_STORAGE && !UNBEGUN && !FINISHED(0) && !FINISHED(1) && !stopping -> goto park
#endif
    fi
  }
  /* drained() */
#if MUTATION == STOP_WITHOUT_DRAIN
  goto stopped;
#elif MUTATION == TAIL_BEFORE_PHASE
  if
  :: tail == next -> goto stopped
  :: else -> goto idle
  fi;
#else
  atomic {
    SETTLED(SERVER) ->
    if
    :: LOAD(SERVER, TAIL) == next -> goto stopped
    :: else -> goto idle
    fi
  }
#endif
idle: /* a nap while stopping; without PROGRESS it lasts until the next look finds something */
  if
  :: atomic { DECLARED -> goto declared }
  :: atomic {
       !DECLARED &&
       (PROGRESS || FINISHED(0) || FINISHED(1) || (READY && JOB_FREE)) ->
       goto serve
     }
  fi;

park:
  atomic {
    buffer[SERVER].entries < DEPTH ->
#if MUTATION != BELL_READ_LATE
    memory[BELL] = 0; /* only whether it changes from here on matters: any count will do */
    seen = LOAD(SERVER, BELL);
#endif
    store(SERVER, PARKED, 1, (MUTATION == PARKED_RELEASE -> RELEASE : SEQ_CST))
  }
#if MUTATION != NO_SECOND_LOOK
  atomic {
    (SETTLED(SERVER) || MUTATION == SECOND_LOOK_ACQUIRE) ->
    if
    :: READY -> goto unpark
    :: !(READY && JOB_FREE) -> skip /* with no job free it may sleep: it could not take it anyway */
    fi
  }
#endif
#if WORKER && MUTATION != NO_LOOK_AT_FINISHED
  if
  :: atomic { FINISHED(0) || FINISHED(1) -> goto unpark }
  :: else
  fi;
#endif
#if MUTATION != NO_LOOK_AT_PHASE
  if
  :: atomic { SETTLED(SERVER) && LOAD(SERVER, PHASE) != RUNNING -> goto unpark }
  :: atomic { SETTLED(SERVER) && LOAD(SERVER, PHASE) == RUNNING -> skip }
  fi;
#endif
#if MUTATION == BELL_READ_LATE
  seen = LOAD(SERVER, BELL);
#endif
#if DEATH
  atomic {
    if
    :: DECLARED -> seen = 0; goto declared
    :: !DECLARED -> gate = GATE_STORAGE
    fi
  }
#endif
  futex_wait(SERVER, BELL, seen);
#if DEATH == 3
  if
  :: atomic { gate = GATE_OPEN; seen = 0; goto die }
  :: skip
  fi;
#endif
unpark:
  atomic {
    buffer[SERVER].entries < DEPTH ->
#if DEATH
    gate = (gate == GATE_STORAGE -> GATE_OPEN : gate);
#endif
    seen = 0;
    memory[BELL] = 0;
    store(SERVER, PARKED, 0, RELAXED);
    goto serve
  }

stopped:
  atomic {
    assert(died || MUTATION == STOPPED_EARLY || NOTHING_IN_STORAGE);
    assert(died || MUTATION == STOPPED_EARLY || replied == promised); /* R5 */
#if DEATH && MUTATION != STOPPED_OVER_DEATH
    DRAINED(SERVER) -> memory[PHASE] = (memory[PHASE] == STOPPING -> STOPPED : memory[PHASE])
#else
    /* Without DEATH the exchange cannot fail; as a store it may be seen late. */
    buffer[SERVER].entries < DEPTH ->
    store(SERVER, PHASE, STOPPED, RELEASE)
#endif
  }
#if MUTATION == STOPPED_EARLY
  if
  :: NOTHING_IN_STORAGE -> skip
  :: FINISHED(0) -> goto finish_0
  :: FINISHED(1) -> goto finish_1
  fi;
#endif
#if DEATH > 1
  goto gone;
#endif

#if DEATH == 3
die: /* Loop::die(); `work` is the request that was taken or finished and not answered (current_) */
  atomic {
    if
    :: gate == GATE_CLOSED && MUTATION != DYING_OVER_DECLARED -> work = 0; goto declared
    :: else
    fi;
    gate = GATE_STORAGE;
    dying = 1;
    stage = CURRENT;
    if
    :: work != 0 && MUTATION != CURRENT_UNANSWERED -> work = work + FAILED; goto respond
    :: else -> work = 0
    fi
  }
hold: /* nobody takes the wait that follows for standing still */
  atomic {
#if MUTATION != DYING_UNFLUSHED
    flush();
#endif
#if MUTATION == GATE_REOPENED
    gate = GATE_OPEN;
#endif
#if MUTATION == DEAD_BEFORE_WAIT
    goto dead;
#endif
    stage = REFUSING
  }
refuse: /* refuse_waiting() */
#if MUTATION != NOT_REFUSED
  if
  :: atomic { READY -> goto copy }
  :: atomic { !READY -> skip }
  fi;
#endif
collect:
  atomic {
    stage = REFUSING;
    if
    :: FINISHED(0) -> reap(0); work = work + FAILED; stage = COLLECTING; goto respond
    :: FINISHED(1) -> reap(1); work = work + FAILED; stage = COLLECTING; goto respond
    :: NOTHING_IN_STORAGE -> goto dead
    :: !NOTHING_IN_STORAGE && (!PROGRESS || (!FINISHED(0) && !FINISHED(1))) -> skip
    fi
  }
  /* A nap; without PROGRESS it lasts until the next look finds something. */
#if MUTATION == NOT_REFUSED || MUTATION == REFUSED_ONCE
  atomic { FINISHED(0) || FINISHED(1) -> goto collect };
#else
  atomic { PROGRESS || FINISHED(0) || FINISHED(1) || READY -> goto refuse };
#endif
dead:
  atomic {
    buffer[SERVER].entries < DEPTH ->
#if MUTATION == DEATH_UNANNOUNCED
    skip
#else
    store(SERVER, PHASE, DEAD, SEQ_CST);
    died = 1
#endif
  }
#if MUTATION == DEAD_BEFORE_WAIT
  stage = REFUSING;
  if
  :: atomic { NOTHING_IN_STORAGE -> goto gone }
  :: atomic { !NOTHING_IN_STORAGE -> goto collect }
  fi;
#endif
  goto gone;
#endif

#if DEATH > 1
declared: /* drop_queue(): what has begun ends here, and nothing begins */
  atomic {
#if MUTATION == DROP_BEGINS
    flush();
#endif
#if MUTATION != DECLARED_NOT_DROPPED
    (!begun[0] || FINISHED(0)) && (!begun[1] || FINISHED(1)) ->
    in_storage[0] = 0;
    in_storage[1] = 0;
    begun[0] = 0;
    begun[1] = 0
#else
    skip
#endif
  }
#endif
gone:
#if DEATH > 1
  atomic {
    assert(!died || LOAD(SERVER, PHASE) == DEAD); /* for good */
    assert(!begun[0] && !begun[1]) /* D3 */
  }
#else
  skip
#endif
} unless { halted -> skip }
  ended = 1
}

/* ---- all other parties ------------------------------------------------------------------------
 */

proctype Stopper() {
#if !STOP_EARLY
  returned == PRODUCERS;
#endif
  if
  :: atomic { memory[PHASE] == RUNNING || MUTATION == STOP_OVER_DEATH -> memory[PHASE] = STOPPING }
  :: atomic { memory[PHASE] != RUNNING && MUTATION != STOP_OVER_DEATH -> skip }
  fi;
#if MUTATION != STOP_SILENT
  ring_bell();
  futex_wake(SERVER)
#endif
}

#if WORKER
proctype Worker() {
end:
  do
  :: atomic {
       if
       :: in_storage[0] != 0 && !finished[0] -> finished[0] = 1
       :: in_storage[1] != 0 && !finished[1] -> finished[1] = 1
       fi
     }
#if MUTATION != WORKER_SILENT
     ring_bell();
     futex_wake(SERVER)
#endif
  od
}
#endif

#if DEATH
proctype Watchdog() { /* Loop::declare_dead() */
end: /* nobody is declared dead inside the storage */
  atomic {
    (gate == GATE_OPEN || MUTATION == WATCHDOG_IGNORES_GATE) ->
#if DEATH == 1
    halted = 1;
#else
    excused = (gate == GATE_OPEN && !dying);
#endif
    gate = GATE_CLOSED
  }
  d_step {
    memory[PHASE] = DEAD;
    died = 1
  }
}
#endif

init {
  atomic {
    memory[TAIL] = FIRST;
    memory[HEAD] = FIRST;
    memory[KNOWN] = FIRST;
    memory[COMMIT(0)] = LAP(FIRST - SLOTS);
    memory[BODY(0)] = RUBBISH;
    memory[RESULT(0)] = RUBBISH;
    memory[RESULT(1)] = RUBBISH;
#if CELLS == 4
    memory[RESULT(2)] = RUBBISH;
    memory[RESULT(3)] = RUBBISH;
#endif
#if SLOTS == 2
    memory[COMMIT(1)] = LAP(FIRST + 1 - SLOTS);
    memory[BODY(1)] = RUBBISH;
#endif
#if DEATH == 3
    if
    :: slow = 1
    :: skip
    fi;
#endif
#if DEATH > 1
    run Watchdog(); /* the search tries first what was started last, and faults come elsewhere */
#endif
    run Drain(0);
    run Drain(1);
    run Drain(2);
    run Server();
    run Producer(0);
    run Producer(1);
    run Stopper();
#if WORKER
    run Worker();
#endif
#if DEATH == 1
    run Watchdog();
#endif
  }
}

#if PROGRESS
ltl returns { <> (returned == PRODUCERS && ended) }
#endif
