/* Deliberate faults. verification/run builds the model with each, -DMUTATION=NAME, and requires the
 * checker to find an error. 0 is the protocol itself. */

#ifndef MUTATION
#define MUTATION 0
#endif

/* publishing */
#define COMMIT_RELAXED 1           /* the commit word may overtake the request */
#define COMMIT_BEFORE_BODY 2       /* committed first, filled afterwards */
#define COMMIT_RELEASE 3           /* release, not seq_cst: the look at `parked` may come first */
#define COMMIT_WITHOUT_LAP 4       /* the same commit value on every lap */
#define COMMIT_UNCHECKED 5         /* the server takes what lies in the next slot */
#define BODY_BEFORE_CHECK 6        /* the server copies, then looks at commit (no acquire) */
#define HEAD_BEFORE_COPY 7         /* the slot is given back before it was copied out */
#define ROOM_OFF_BY_ONE 8          /* one request more than there are slots */
#define ROOM_UNCHECKED 9           /* claims without looking for room */
#define FIRST_COMMITTED_FIRST 11   /* of a batch; the others follow */
#define FIRST_COMMITTED_RELAXED 12 /* of a batch; does not cover the others */
#define CLAIM_SHARED 13            /* two groups may get one ticket: stored, not exchanged */
/* waking the server */
#define BELL_BEFORE_PUBLISH 14     /* looks at `parked` before it publishes */
#define BELL_LOOK_ACQUIRE 15       /* looks at `parked` with acquire, not seq_cst */
#define BELL_NOT_COUNTED 16        /* wakes without changing the futex word */
#define BELL_READ_LATE 17          /* the server reads the count after its second look */
#define NO_SECOND_LOOK 18          /* parks without looking at the ring again */
#define SECOND_LOOK_ACQUIRE 19     /* looks again with acquire, not seq_cst */
#define PARKED_RELEASE 20          /* parked = 1 stored with release, not seq_cst */
#define NO_LOOK_AT_PHASE 21        /* parks without looking at the phase again */
#define NO_LOOK_AT_FINISHED 22     /* parks without looking at what the workers finished */
#define WORKER_SILENT 23           /* a worker does not ring when it has finished */
/* answering */
#define PARKED_BEFORE_ANSWER 24    /* looks at Cell.parked, then stores the answer */
#define ANSWER_RELEASE 25          /* sequence stored with release, not seq_cst */
#define ANSWER_RELAXED 26          /* sequence stored relaxed: may overtake the result */
#define ANSWER_NOT_WOKEN 27        /* never wakes */
#define RESULT_BEFORE_SEQUENCE 28  /* the waiter reads the result, then the sequence (no acquire) */
#define WAITER_NO_SECOND_LOOK 29   /* sleeps after parked = 1 on whatever the sequence is by then */
#define WAITER_PARKED_RELEASE 30   /* Cell.parked = 1 stored with release, not seq_cst */
#define CELL_NOT_AWAITED 31        /* the cell is used again before its answer was read */
#define CELL_NOT_RETIRED 32        /* ... or after its caller gave up */
#define LEFT_CELL_REUSED 57        /* ... or though an earlier program left it in flight */
/* stopping and dying */
#define ABANDONED_UNPUBLISHED 33   /* no NOP for an abandoned ticket */
#define PHASE_BEFORE_CLAIM 34      /* looks at the phase before it claims */
#define TAIL_BEFORE_PHASE 35       /* the server reads the tail before it sees `stopping` */
#define STOP_WITHOUT_DRAIN 36      /* stops when the ring looks empty, without reading the tail */
#define STOP_SILENT 37             /* announces `stopping` without ringing */
#define STOPPED_EARLY 38           /* says `stopped` while operations are under way */
#define ERROR_WITHOUT_LOOK 39      /* gives up on `stopped` without looking at the answer again */
#define ROOM_IGNORES_DEATH 40      /* waits for room whatever happened to the server */
#define WAIT_IGNORES_DEATH 41      /* waits for the answer likewise */
#define SILENCE_IS_DEATH 10        /* takes a server for dead that has not said so */
#define STOP_OVER_DEATH 42         /* `stopping` stored over `dead` */
#define STOPPED_OVER_DEATH 43      /* `stopped` likewise */
#define DEAD_BEFORE_WAIT 44        /* says `dead`, then waits for what the storage holds */
#define WATCHDOG_IGNORES_GATE 45   /* declares a loop dead that is inside the storage */
#define GATE_REOPENED 46           /* a dying loop opens the gate before it waits */
#define NOT_REFUSED 47             /* a dying loop waits without refusing what is in the ring */
#define REFUSED_ONCE 48            /* ... or refuses only what was there before it waited */
#define CURRENT_UNANSWERED 49      /* no answer to what was taken or finished when the fault came */
#define CURRENT_KEPT 50            /* ... but one to what the storage has by then */
#define DYING_UNFLUSHED 51         /* waits for operations that were never begun */
#define DEATH_UNANNOUNCED 52       /* a dying loop ends without saying `dead` */
#define DYING_OVER_DECLARED 53     /* dies by a fault though it was declared dead before */
#define SECTION_UNCHECKED 54       /* goes into the storage whatever the gate says */
#define DROP_BEGINS 55             /* dropping the queue begins what was only submitted */
#define DECLARED_NOT_DROPPED 56    /* a loop that was declared dead leaves its queue as it is */
