/* A cached call that its caller lends to an executor and may take back (R9 in
 * include/ferry/device/ring.hpp; requester.hpp, service.hpp, src/server/loop.cpp), checked in every
 * interleaving over a memory with delayed stores (memory.pml). One caller makes CALLS calls with one
 * cell; with any of them at any moment, it may lose its patience, or learn that the server has ended
 * while its executor lives. The ring has a slot for each call: ring.pml checks rings.
 *
 * Invariants:
 *   L1  a call is executed once, by its executor or by its caller, and one that failed is not (at
 *       `begin`, at `back` and at the end)
 *   L2  the executor leaves a call that was taken back alone: its memory (assertion at `work`) and
 *       its cell, which by then may be another call's (at `answer`)
 *   L3  the executor passes over no call that its caller still lends (at `pass`)
 *   L4  every call returns (no deadlock), with its own result (at `returned`)
 */

#include "settings.pml" /* CALLS and MUTATION: written by verification/run */

#define TIMED 0
#define CALLER 0
#define EXECUTOR 1
#define PARTIES 2
#define UNBEGUN 0  /* AnswerCell.unbegun, .sequence, .result */
#define SEQUENCE 1
#define RESULT 2
#define COMMIT(call) (3 + (call)) /* Request.commit; the request is the call's number */
#define LOCATIONS (4 + CALLS)

#include "memory.pml"

byte executed[CALLS + 1];
bit failed[CALLS + 1]; /* as the server has ended */
byte lent;    /* the call that waits for its executor, or 0 */
byte working; /* the call whose memory the executor uses, or 0 */
bit over;

/* Changes UNBEGUN from `call` to 0 in one step, if the mutation does not take two for it. */
inline take_over(who, call, in_two_steps, won) {
  if
  :: atomic {
       !(in_two_steps) && DRAINED(who) ->
       won = (memory[UNBEGUN] == call);
       if
       :: won -> memory[UNBEGUN] = 0; lent = (who == CALLER -> 0 : lent)
       :: else
       fi
     }
  :: in_two_steps ->
     won = (LOAD(who, UNBEGUN) == call);
     if
     :: won -> store(who, UNBEGUN, 0, RELAXED); lent = (who == CALLER -> 0 : lent)
     :: else
     fi
  fi
}

proctype Caller() {
  byte call = 1;
  bit won;
  bit ended;
  do
  :: call > CALLS -> break
  :: else ->
     lent = call;
     ended = 0;
     if
     :: MUTATION == UNBEGUN_LATE -> skip
     :: else -> store(CALLER, UNBEGUN, call, RELAXED)
     fi;
     store(CALLER, COMMIT(call), 1, SEQ_CST);
     if
     :: MUTATION == UNBEGUN_LATE -> store(CALLER, UNBEGUN, call, RELAXED)
     :: else -> skip
     fi;
     if
     :: LOAD(CALLER, SEQUENCE) == call -> goto returned
     :: skip /* out of patience */
     :: ended = 1
     fi;
     if
     :: ended && MUTATION == FAILED_UNTAKEN -> won = 1; lent = 0
     :: else -> take_over(CALLER, call, MUTATION == TAKEN_BACK_IN_TWO_STEPS, won)
     fi;
     if
     :: won && ended ->
        failed[call] = 1;
        won = 0;
        goto next
     :: won && !ended ->
back:
        atomic {
          executed[call]++;
          assert(working != call); /* L2 */
          won = 0
        }
        goto next
     :: else
     fi;
     LOAD(CALLER, SEQUENCE) == call;
returned:
     atomic {
       assert(LOAD(CALLER, RESULT) == call); /* L4 */
       assert(working != call);              /* L2 */
       lent = 0
     }
next:
     call++
  od;
  over = 1
}

proctype Executor() {
  byte call = 1;
  bit won;
end:
  do
  :: call > CALLS -> break
  :: call <= CALLS && LOAD(EXECUTOR, COMMIT(call)) ->
     if
     :: MUTATION == BEGUN_UNCHECKED -> won = 1
     :: MUTATION == BEGUN_WITHOUT_NUMBER ->
        atomic {
          DRAINED(EXECUTOR) ->
          won = (memory[UNBEGUN] != 0);
          memory[UNBEGUN] = 0
        }
     :: else -> take_over(EXECUTOR, call, MUTATION == BEGUN_IN_TWO_STEPS, won)
     fi;
     if
     :: won ->
begin:
        atomic {
          executed[call]++;
          working = call
        }
work:
        atomic {
          assert(lent == call); /* L2 */
          working = 0;
          won = 0
        }
answer:
        atomic {
          assert(lent == call); /* L2: nobody else has the cell */
          store(EXECUTOR, RESULT, call, RELAXED);
          store(EXECUTOR, SEQUENCE, call, (MUTATION == ANSWERED_RELAXED -> RELAXED : SEQ_CST))
        }
     :: else ->
pass:
        assert(lent != call) /* L3 */
     fi;
     call++
  od
}

proctype Judge() { /* L1 */
  byte call = 1;
  over;
  do
  :: call > CALLS -> break
  :: else ->
     assert(executed[call] == 1 - failed[call]);
     call++
  od
}

init {
  atomic {
    run Drain(CALLER);
    run Drain(EXECUTOR);
    run Caller();
    run Executor();
    run Judge()
  }
}
