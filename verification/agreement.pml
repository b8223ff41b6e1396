/* Agreements of the ranks of one node through shared memory (src/collective/node_agreement.hpp),
 * checked in every interleaving of RANKS ranks that agree ROUNDS times.
 *
 * Invariants, by the names of node_agreement.hpp:
 *   A1, A2  a rank reads what each rank stored for this agreement (assertions in the reading)
 *   A3      nobody waits in vain (no deadlock), and no one goes on before all have arrived
 *
 * What is left out: memory orders (the counter is acquire and release, the round seq_cst), and the
 * naps after which a sleeper looks anyway, so that a lost wake-up shows as a deadlock.
 */

#include "settings.pml" /* RANKS, ROUNDS and MUTATION: written by verification/run */

byte arrived;
byte round;
byte sleepers;
bool asleep[RANKS];
byte slots[2 * RANKS]; /* what a rank stores is the number of its agreement */

#define SLOT(rank) slots[2 * (rank) + (mine % (MUTATION == ONE_SLOT_EACH -> 1 : 2))]

active [RANKS] proctype Rank() {
  byte mine, other, place;
  do
  :: mine == ROUNDS -> break
  :: else ->
     mine++;
     if
     :: MUTATION == STORED_AFTER_ARRIVING -> skip
     :: else -> SLOT(_pid) = mine
     fi;
     d_step { arrived++; place = arrived };
     if
     :: MUTATION == STORED_AFTER_ARRIVING -> SLOT(_pid) = mine
     :: else -> skip
     fi;
     if
     :: place == RANKS ->
        if
        :: MUTATION == COUNTER_RESET_LATE -> round = mine; arrived = 0
        :: else -> arrived = 0; round = mine
        fi;
        if
        :: sleepers > 0 ->
           /* the futex call wakes all */
           d_step {
             other = 0;
             do
             :: other == RANKS -> break
             :: else -> asleep[other] = false; other++
             od
           }
        :: else -> skip
        fi
     :: else ->
        if
        :: round == mine -> skip /* seen while it looks */
        :: true ->
           if
           :: MUTATION == SLEEPER_COUNTED_LATE -> skip
           :: else -> sleepers++
           fi;
           do
           :: round == mine -> break
           :: else ->
              /* the kernel compares and sleeps in one step */
              d_step { asleep[_pid] = (round != mine) };
              if
              :: MUTATION == SLEEPER_COUNTED_LATE -> sleepers++
              :: else -> skip
              fi;
              !asleep[_pid]
           od;
           sleepers--
        fi
     fi;
     other = 0;
     do
     :: other == RANKS -> break
     :: else -> assert(SLOT(other) == mine); other++
     od
  od
}
