/* Readers in other processes, and what ferryd does when one ends: Client::copy() (client.cpp of the
 * daemon) and ClientProcesses (client_processes.cpp). A client looks for hits alone: it takes no
 * pin and no lock, and changes nothing of the cache but its mark. */

bit killed; /* SIGKILL: the first client makes no more steps */
bit gone;   /* its process has ended, by itself or not: its pidfd is readable */

proctype Client(byte me, at, next; bit mortal) {
  byte f = NONE;
  byte low;
  byte first;
  bit good;
  {
    do
    :: at == NOWHERE -> break
    :: at != NOWHERE ->
       low = (acked[at] > seen[at] -> acked[at] : seen[at]);
       read_hit();
       atomic {
         if
         :: f != NONE -> seen[at] = (first > seen[at] -> first : seen[at])
         :: f == NONE /* it asks the kernel */
         fi;
         f = NONE;
         first = 0;
         low = 0;
         at = next;
         next = NOWHERE
       }
    od
  } unless { mortal && killed };
  atomic {
    copying[GROUP] = 0; /* nobody copies any more; the mark is as it was */
    if
    :: mortal -> gone = 1
    :: !mortal
    fi;
    running--
  }
}

/* ClientProcesses: the place of a process that has ended is free, and may be another's. */
proctype Places(byte me, at, next) {
  if
  :: killed = 1
  :: true
  fi;
#if MUTATION == PLACE_FREED_EARLY
  skip;
#else
  gone;
#endif
#if MUTATION == PLACE_GIVEN_MARKED
  atomic { running++; run Client(me, at, next, 0) };
#endif
#if MUTATION != DEAD_MARK_KEPT
  mark[GROUP] = 0; /* what its threads stored is in memory when its end is seen */
#endif
#if MUTATION != PLACE_GIVEN_MARKED
  if
  :: atomic { running++; run Client(me, at, next, 0) }
  :: true
  fi;
#endif
  running--
}
