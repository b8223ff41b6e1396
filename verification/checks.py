"""The checks of each model: configurations that must hold, and the mutations, deliberate faults in the
model, that the checker must catch."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Model:
    file: str
    defaults: str  # the switches (see the comment at the top of the model)
    compiler: str  # for the default checks: tcc compiles in no time, gcc makes faster checkers
    quick: dict  # name of a check: the switches that differ
    default: dict
    all: dict
    mutations: dict  # mutation: the configuration that catches it
    meanings: list  # the meaning of a checker's error, by part of its message
    large: tuple = ()  # default checks that need compressed states to fit into memory


RING = Model(
    file="ring.pml",
    defaults="SLOTS=2 CALLS=2 CALLS_1=CALLS BATCH=0 STOP_EARLY=0 WORKER=0 DEATH=0 LEAVE=0 PROGRESS=0",
    compiler="gcc -O1",
    large=("death-while-stopping",),
    quick={"park": ""},
    default={
        "park-one-slot": "SLOTS=1",
        "batch": "BATCH=2 CALLS_1=1",
        "worker": "WORKER=1 CALLS_1=1",
        "worker-batch": "WORKER=1 BATCH=1 CALLS_1=1",
        "stop": "STOP_EARLY=1 CALLS_1=1",
        "stop-one-slot": "STOP_EARLY=1 CALLS_1=1 SLOTS=1",
        "stop-batch": "STOP_EARLY=1 BATCH=1 CALLS_1=1",
        "death": "DEATH=1 SLOTS=1 CALLS_1=1",
        "declared-dead": "DEATH=2 SLOTS=1 CALLS_1=1",
        "death-while-stopping": "DEATH=1 STOP_EARLY=1 SLOTS=1 CALLS=1",
        "dying": "DEATH=3 SLOTS=1 CALLS=1",
        "leave": "LEAVE=1 CALLS_1=1",
        "progress": "PROGRESS=1 SLOTS=1 CALLS=1",
        "progress-death": "PROGRESS=1 DEATH=1 SLOTS=1 CALLS=1",
    },
    all={
        "park-more": "CALLS=3",
        "batch-more": "BATCH=2 CALLS=3",
        "worker-more": "WORKER=1",
        "stop-more": "STOP_EARLY=1",
        "death-more": "DEATH=1 SLOTS=1",
        "declared-dead-more": "DEATH=2 SLOTS=1",
        "dying-while-stopping": "DEATH=3 STOP_EARLY=1 SLOTS=1 CALLS=1",
        "progress-dying": "PROGRESS=1 DEATH=3 SLOTS=1 CALLS=1",
        "progress-stop": "PROGRESS=1 STOP_EARLY=1 SLOTS=1 CALLS=1",
        "progress-declared-dead": "PROGRESS=1 DEATH=2 SLOTS=1 CALLS=1",
    },
    mutations={
        # publishing
        "COMMIT_RELAXED": "park",  # the commit word may overtake the request
        "COMMIT_BEFORE_BODY": "park",  # committed first, filled afterwards
        "COMMIT_RELEASE": "park",  # release, not seq_cst: the look at `parked` may come first
        "COMMIT_WITHOUT_LAP": "park",  # the same commit value on every lap
        "COMMIT_UNCHECKED": "park",  # the server takes the contents of the next slot unchecked
        "BODY_BEFORE_CHECK": "park",  # the server copies, then looks at commit (no acquire)
        "HEAD_BEFORE_COPY": "park-one-slot",  # the slot is freed before it was copied out
        "ROOM_OFF_BY_ONE": "park-one-slot",  # one request more than there are slots
        "ROOM_UNCHECKED": "park-one-slot",  # claims without looking for room
        "FIRST_COMMITTED_FIRST": "batch",  # of a batch; the others follow
        "FIRST_COMMITTED_RELAXED": "batch",  # of a batch; does not cover the others
        "CLAIM_SHARED": "park",  # two groups may get one ticket: stored, not exchanged
        # waking the server
        "BELL_BEFORE_PUBLISH": "park",  # looks at `parked` before it publishes
        "BELL_LOOK_ACQUIRE": "park",  # looks at `parked` with acquire, not seq_cst
        "BELL_NOT_COUNTED": "park",  # wakes without changing the futex word
        "BELL_READ_LATE": "park",  # the server reads the count after its second look
        "NO_SECOND_LOOK": "park",  # parks without looking at the ring again
        "SECOND_LOOK_ACQUIRE": "park",  # looks again with acquire, not seq_cst
        "PARKED_RELEASE": "park",  # parked = 1 stored with release, not seq_cst
        "NO_LOOK_AT_PHASE": "park",  # parks without looking at the phase again
        "NO_LOOK_AT_FINISHED": "worker",  # parks without looking at what the workers finished
        "WORKER_SILENT": "worker",  # a worker does not ring when it has finished
        # answering
        "PARKED_BEFORE_ANSWER": "park",  # looks at AnswerCell.parked, then stores the answer
        "ANSWER_RELEASE": "park",  # sequence stored with release, not seq_cst
        "ANSWER_RELAXED": "park",  # sequence stored relaxed: may overtake the result
        "ANSWER_NOT_WOKEN": "park",  # never wakes
        "RESULT_BEFORE_SEQUENCE": "park",  # the waiter reads the result, then the sequence (no acquire)
        "WAITER_NO_SECOND_LOOK": "park",  # sleeps after parked = 1 on whatever the sequence is by then
        "WAITER_PARKED_RELEASE": "park",  # AnswerCell.parked = 1 stored with release, not seq_cst
        "CELL_NOT_AWAITED": "park",  # the cell is used again before its answer was read
        "CELL_NOT_RETIRED": "declared-dead",  # ... or after its caller gave up
        "LEFT_CELL_REUSED": "leave",  # ... or though an earlier program left it in flight
        # stopping and dying
        "ABANDONED_UNPUBLISHED": "stop",  # no NOP for an abandoned ticket
        "PHASE_BEFORE_CLAIM": "stop",  # looks at the phase before it claims
        "TAIL_BEFORE_PHASE": "stop",  # the server reads the tail before it sees `stopping`
        "STOP_WITHOUT_DRAIN": "stop",  # stops when the ring looks empty, without reading the tail
        "STOP_SILENT": "stop",  # announces `stopping` without ringing
        "STOPPED_EARLY": "stop",  # says `stopped` while operations are in progress
        "ERROR_WITHOUT_LOOK": "stop",  # gives up on `stopped` without looking at the answer again
        "ROOM_IGNORES_DEATH": "death",  # waits for room although the server is dead
        "WAIT_IGNORES_DEATH": "progress-death",  # waits for the answer although the server is dead
        "SILENCE_IS_DEATH": "park",  # treats a server as dead that has not said so
        "STOP_OVER_DEATH": "death-while-stopping",  # `stopping` stored over `dead`
        "STOPPED_OVER_DEATH": "declared-dead",  # `stopped` likewise
        "DEAD_BEFORE_WAIT": "dying",  # says `dead`, then waits for what the storage holds
        "WATCHDOG_IGNORES_GATE": "dying",  # declares a loop dead that is inside the storage
        "GATE_REOPENED": "dying",  # a dying loop opens the gate before it waits
        "NOT_REFUSED": "dying",  # a dying loop waits without refusing what is in the ring
        "REFUSED_ONCE": "dying",  # ... or refuses only what was there before it waited
        "CURRENT_UNANSWERED": "dying",  # no answer to what was taken or finished when the fault came
        "CURRENT_KEPT": "dying",  # ... but one to what the storage has by then
        "DYING_UNFLUSHED": "dying",  # waits for operations that were never begun
        "DEATH_UNANNOUNCED": "dying",  # a dying loop ends without saying `dead`
        "DYING_OVER_DECLARED": "dying",  # dies by a fault though it was declared dead before
        "SECTION_UNCHECKED": "declared-dead",  # goes into the storage whatever the gate says
        "DROP_BEGINS": "declared-dead",  # dropping the queue begins what was only submitted
        "DECLARED_NOT_DROPPED": "declared-dead",  # a loop that was declared dead leaves its queue as it is
    },
    meanings=[
        ("!(died)", "R5: another phase after `dead`"),
        ("entries", None),  # a store buffer overflowed: the model is wrong; this is no finding
        ("excused", "D1: a call returned while the storage worked on it"),
        ("!=255", "D2: a loop that was declared dead began an operation"),
        ("begun", "D3: operations were left behind"),
        ("work!=31", "R2: took a slot that was not (completely) filled"),
        ("taken", "R2: took a request twice"),
        ("COMMIT", "batch: found only a part of it"),
        ("memory[", "batch: found only a part of it"),
        ("copied", "R3: filled a slot that was not copied out yet"),
        ("]==0)", "R4: used a cell before its answer was read"),
        ("seen&15", "R4: read a wrong result"),
        ("work&", "R4: answered a cell that waits for something else"),
        ("replied", "R5: stopped with requests unanswered"),
        ("in_storage", "R5: stopped with operations under way"),
        ("died", "R5, R8: told a caller that the server is gone though its request is served"),
        ("invalid end state", "R6, R7: deadlock, a call or the loop never returns"),
        ("acceptance cycle", "R7: livelock, a call or the loop never returns"),
    ],
)

PAGES = Model(
    file="pages.pml",
    defaults="PAGES=1 WRITE=NOWHERE WRITE_2=NOWHERE OTHER=NOWHERE READ=NOWHERE READ_2=NOWHERE PEER=NOWHERE "
    "PEER_2=NOWHERE EVICTIONS=0 FLUSHES=0 HOST=NOWHERE CUT=NOWHERE APPEND=0 CLOSE=0 AFTER=0 FAULTS=0 RUN=0 FULL=0 "
    "SHORT=0 HANDLES=0 PARK=0 MARKS=0 FLIGHTS=0 PREFETCHES=0 AHEAD=1 RELIEFS=0 PROGRESS=0 CLIENTS=0",
    compiler="tcc",
    quick={"pages-evict": "PAGES=2 WRITE=0 WRITE_2=2 READ=2 READ_2=0 EVICTIONS=2"},
    default={
        "pages-peers": "WRITE=0 READ=0 PEER=1 EVICTIONS=1",
        "pages-flush": "WRITE=0 OTHER=1 FLUSHES=1 EVICTIONS=1",
        "pages-run": "PAGES=2 RUN=1 WRITE=1 WRITE_2=2 FLUSHES=1 EVICTIONS=1 FAULTS=1",
        "pages-full": "WRITE=0 WRITE_2=1 FULL=1 READ=0 FLUSHES=1",
        "pages-full-error": "WRITE=0 OTHER=1 FULL=1 FLUSHES=1 FAULTS=1",
        "pages-short": "WRITE=0 WRITE_2=1 FLUSHES=1 FAULTS=1 SHORT=1",
        "handles": "WRITE=0 OTHER=1 HANDLES=2 FLUSHES=1",
        "handles-last": "WRITE=0 OTHER=1 HANDLES=1",
        "handles-flights": "WRITE=0 HANDLES=2 RELIEFS=1 FLIGHTS=1",
        "flights-full-error": "WRITE=0 WRITE_2=1 FULL=1 RELIEFS=1 FLIGHTS=1 FAULTS=1",
        "pages-errors": "WRITE=0 READ=0 FLUSHES=1 EVICTIONS=1 FAULTS=1",
        "pages-host": "WRITE=0 READ=0 READ_2=1 HOST=1 EVICTIONS=1",
        "pages-host-error": "WRITE=0 READ=0 HOST=0 AFTER=1 EVICTIONS=1 FAULTS=1",
        "pages-cut": "PAGES=2 WRITE=0 READ=2 READ_2=0 CUT=1",
        "pages-cut-error": "PAGES=2 WRITE=1 WRITE_2=2 CUT=1 AFTER=1 EVICTIONS=1 FAULTS=2",
        "pages-append": "WRITE=0 READ=1 APPEND=1 EVICTIONS=1",
        "pages-close": "WRITE=0 CLOSE=1 EVICTIONS=1 FLUSHES=1",
        "pages-progress": "READ=0 PROGRESS=1",
        "pages-park": "WRITE=0 READ=1 FLUSHES=1 PARK=1",
        "marks": "PAGES=2 READ=0 READ_2=2 PEER=0 EVICTIONS=2 MARKS=1",
        "marks-barrier": "PAGES=2 READ=0 READ_2=2 PEER=0 EVICTIONS=2 MARKS=2",
        "marks-write": "WRITE=1 READ=0 READ_2=0 EVICTIONS=1 MARKS=1",
        "marks-orphan": "READ=0 READ_2=0 APPEND=1 EVICTIONS=2 MARKS=1",
        "clients": "PAGES=2 READ=0 READ_2=2 PEER=2 PEER_2=0 EVICTIONS=1 MARKS=1 CLIENTS=1",
        "flights": "PAGES=2 READ=0 PEER=2 PREFETCHES=2 FLIGHTS=1",
        "flights-evict": "READ=0 PEER=1 PREFETCHES=2 EVICTIONS=1 FLIGHTS=1",
        "flights-pair": "PAGES=2 AHEAD=2 READ=2 PREFETCHES=2 EVICTIONS=1 FLIGHTS=1",
        "flights-claim": "PAGES=2 WRITE=0 RELIEFS=1 PREFETCHES=1 FLIGHTS=1",
        "flights-host": "READ=1 HOST=1 PREFETCHES=1 FLIGHTS=1",
        "flights-fill-error": "READ=0 PEER=1 PREFETCHES=1 FLIGHTS=1 FAULTS=1",
        "flights-flush": "WRITE=0 WRITE_2=1 FLUSHES=1 RELIEFS=1 FLIGHTS=1",
        "flights-error": "WRITE=0 FLUSHES=1 RELIEFS=1 FLIGHTS=1 FAULTS=1",
        "flights-short": "WRITE=0 WRITE_2=1 RELIEFS=2 FLIGHTS=1 FAULTS=1 SHORT=1",
        "flights-short-run": "PAGES=2 RUN=1 WRITE=1 WRITE_2=2 RELIEFS=2 FLIGHTS=1 FAULTS=1 SHORT=1",
        "flights-two": "WRITE=0 WRITE_2=1 FLUSHES=1 RELIEFS=1 FLIGHTS=2",
        "flights-run": "PAGES=2 RUN=1 WRITE=1 WRITE_2=2 FLUSHES=1 FLIGHTS=1 FAULTS=1",
        "flights-park": "PAGES=2 READ=0 PREFETCHES=2 FLIGHTS=1 PARK=1",
        "flights-park-flush": "WRITE=0 FLUSHES=1 RELIEFS=1 FLIGHTS=1 PARK=1",
    },
    all={
        "handles-flights-more": "WRITE=0 HANDLES=2 FLUSHES=1 RELIEFS=1 FLIGHTS=1",
        "pages-peers-more": "WRITE=0 READ=0 PEER=1 EVICTIONS=1 FLUSHES=1",
        "pages-errors-more": "WRITE=0 OTHER=1 FLUSHES=1 EVICTIONS=1 FAULTS=2",
        "pages-run-more": "PAGES=2 RUN=1 WRITE=1 OTHER=2 FLUSHES=1 EVICTIONS=2",
        "pages-host-more": "WRITE=0 READ=1 HOST=1 EVICTIONS=1 FLUSHES=1",
        "pages-cut-more": "PAGES=2 WRITE=0 READ=2 READ_2=0 CUT=1 EVICTIONS=1",
        "pages-close-more": "WRITE=0 OTHER=1 CLOSE=1 EVICTIONS=1",
        "pages-park-more": "WRITE=0 OTHER=1 READ=0 FLUSHES=1 PARK=1",
        "pages-park-host": "WRITE=0 READ=1 HOST=1 PARK=1",
        "pages-park-cut": "PAGES=2 WRITE=0 READ=0 READ_2=2 CUT=1 PARK=1",
        "marks-more": "PAGES=2 WRITE=0 READ=0 READ_2=2 PEER=0 EVICTIONS=2 MARKS=1",
        "marks-write-more": "WRITE=0 WRITE_2=1 READ=0 PEER=1 EVICTIONS=1 MARKS=1",
        "marks-flights": "READ=0 READ_2=0 PREFETCHES=1 EVICTIONS=1 FLIGHTS=1 MARKS=1",
        "flights-append": "WRITE=0 READ=1 APPEND=1 PREFETCHES=1 FLIGHTS=1",
        "flights-flush-more": "WRITE=0 OTHER=1 FLUSHES=1 RELIEFS=1 FLIGHTS=1",
        "flights-flush-evict": "WRITE=0 WRITE_2=1 FLUSHES=1 RELIEFS=1 FLIGHTS=1 EVICTIONS=1",
        "flights-error-more": "WRITE=0 READ=0 FLUSHES=1 RELIEFS=1 FLIGHTS=1 FAULTS=1",
        "flights-run-more": "PAGES=2 RUN=1 WRITE=1 WRITE_2=2 FLUSHES=1 RELIEFS=1 FLIGHTS=1 FAULTS=1",
        "flights-two-fills": "PAGES=2 READ=0 PEER=2 PREFETCHES=2 FLIGHTS=2",
    },
    mutations={
        # pins and frames given away
        "EVICT_PINNED": "pages-evict",  # a frame is taken although a party has it pinned
        "EVICT_DIRTY": "pages-evict",  # ... although it has ranges that the storage does not have
        "PIN_UNCHECKED": "pages-evict",  # after the pin no party checks the key, `orphan` and `taken`
        "RESET_DROPS_PINS": "pages-evict",  # a frame that is taken forgets late pins
        "ORPHAN_STAYS_LISTED": "pages-cut",  # an orphan is given away while it is in the table
        # the table
        "INSERT_UNCHECKED": "pages-evict",  # a page is entered without a check whether it is there
        "INSERT_UNLOCKED": "pages-evict",  # ... or with a check that the bucket's lock does not cover
        "LIVE_BEFORE_ENTERED": "pages-host",  # a frame can be pinned before its page is in the table
        # filling
        "FILL_UNANNOUNCED": "pages-peers",  # a page is entered without `filling` while it is read
        "VALID_EARLY": "pages-peers",  # ... or with `valid`
        "FILL_OVER_WRITERS": "pages-full",  # `filling` is set while a party writes to the page
        "WRITE_INTO_FILLING": "pages-peers",  # a writer does not step back from a page that is filled
        "READER_NOT_COUNTED": "pages-peers",  # a reader of ranges of an invalid page does not count as a writer
        "COMPLETE_OVER_RANGES": "pages-errors",  # the whole page is read, not what lies between its ranges
        "COMPLETE_WHILE_WRITING": "pages-errors",  # ... or while ranges of it are being written
        # written ranges and write-back
        "RANGE_BEFORE_BYTES": "pages-flush",  # the range is entered, then the bytes are copied
        "RANGES_TAKEN_LATE": "pages-flush",  # ranges are taken out after their bytes were written
        "DIRTY_CLEARED_LATE": "pages-flush",  # `dirty` is cleared after the range lock was given back
        "WHOLE_PAGE_WRITTEN": "pages-flush",  # the whole page is written, not its ranges
        "FULL_LIST_FORGETS": "pages-full",  # a range without room in the list is left out
        "ERROR_FORGETS": "pages-errors",  # ranges that could not be written are not dirty again
        "COUNTED_EARLY": "pages-flush",  # dirty_pages shrinks when ranges are taken, not when written
        "FLUSH_LOOKS_AGAIN": "pages-flush",  # flush waits for `writing`, then loads `dirty` anew
        "FLUSH_IGNORES_WRITING": "pages-flush",  # ... or does not wait
        "NEIGHBOUR_UNANNOUNCED": "pages-run",  # the next page is written too, but without `writing`
        "PLACES_NOT_KEPT": "pages-full-error",  # ranges in flight leave their places to new ones
        "SHORT_TAKEN_FOR_WHOLE": "pages-short",  # the rest of a short write is not dirty again
        # handles
        "APPENDER_BORROWED": "handles",  # write-backs go through a handle that appends
        "HANDED_OVER_LATE": "handles",  # the handle is closed before write-backs change to another one
        "HANDLE_UNCHECKED": "handles-last",  # a writer does not check whether a handle may write the page back
        # outside calls
        "LOOK_BEFORE_WRITER": "pages-host",  # a writer looks for outside calls, then counts itself
        "OUTSIDE_UNDRAINED": "pages-host",  # an outside call does not wait for writers
        "UPDATE_SKIPPED": "pages-host",  # cached pages do not follow a host write
        "UPDATE_WITHOUT_WAIT": "pages-host",  # ... or not those that are being filled
        "HOST_WRITE_UNFLUSHED": "pages-host-error",  # a host write goes on although the flush before it failed
        "RESIZE_UNCUT": "pages-cut-error",  # ranges beyond the new end are kept
        "TRUNCATED_ONCE": "pages-cut-error",  # the truncation is not repeated after a failed flush
        "DROP_WITHOUT_WAIT": "pages-cut-error",  # a page is dropped while it is being written
        "DROP_OVER_WRITERS": "pages-append",  # ... or while it has a writer that looks for outside calls later
        "CLOSE_DROPS_DIRTY": "pages-close",  # the last close flushes before, not during its outside call
        "ID_UNCHECKED": "pages-close",  # a writer does not check whether the file was closed
        "NO_TURNS": "pages-progress",  # a party that was sent back often takes no turn
        "TURNS_IGNORED": "pages-progress",  # ... or outside calls begin in spite of the turn
        # sleeping
        "WAKE_READ_LATE": "pages-park",  # the sleeper reads the futex word after it set `waited`
        "NO_LOOK_AFTER_WAITED": "pages-park",  # ... or sleeps without another look at the flags
        "WAITED_NOT_SET": "pages-park",  # ... or does not announce that it sleeps
        "WAKE_UNCOUNTED": "pages-park",  # the waker does not change the futex word
        "WAKE_SKIPPED": "pages-park",  # ... or does not wake
        "WAITED_LOOKED_AT_EARLY": "pages-park",  # ... or looks at `waited`, then clears the flags
        # marks
        "MARK_AFTER_LOOK": "marks",  # a reader checks the frame's state, then marks it
        "MARK_UNCHECKED": "marks",  # ... or does not check it
        "MARKED_KEY_UNCHECKED": "marks",  # ... or not the key
        "MARK_CLEARED_EARLY": "marks",  # the mark goes before the copy ends
        "MARKS_BEFORE_TAKEN": "marks",  # marks are checked, then the frame is `taken`
        "ONE_MARK_LOOKED_AT": "marks",  # ... or only those of one group
        "ORPHAN_MARKS_IGNORED": "marks-orphan",  # ... or not when the frame was an orphan before
        "MARKED_NO_ORPHAN": "marks",  # a marked frame is no longer `taken`, and not an orphan
        "MARKED_DROPS_PINS": "marks-write",  # ... or forgets late pins
        "BARRIER_SKIPPED": "marks-barrier",  # marks are checked while a store to one may be in progress
        # clients that end
        "DEAD_MARK_KEPT": "clients",  # the mark of a process that has ended stays
        "PLACE_FREED_EARLY": "clients",  # ... or goes before that, as when its connection is closed
        "PLACE_GIVEN_MARKED": "clients",  # ... or once another process has the place
        # flights
        "FLIGHT_ENDED_TWICE": "flights-evict",  # a party that sees the answer ends the flight, without an exchange
        "NUMBER_UNCHECKED": "flights",  # ... or one that does not compare the number
        "RECORD_UNANSWERED": "flights-claim",  # a party that needs the record ends what is in it, answered or not
        "RECORD_FREED_EARLY": "flights-pair",  # the record is free before its frames are ended
        "FLIGHT_UNNAMED": "flights",  # the frames do not name their flight
        "NAMED_LATE": "flights-claim",  # ... or after the request was published
        "NAME_KEPT_LONGER": "flights-two",  # ... or still name it when the flag is cleared
        "EVICT_FLIGHT": "flights-evict",  # a frame is taken though a flight has it
        "STALE_FILL_KEPT": "flights-host",  # a fill that ran beside an outside call is used
        "FAILED_FILL_KEPT": "flights-fill-error",  # ... or one that failed
        "FAILED_FLIGHT_FORGETS": "flights-error",  # ranges that a flight could not write are not dirty again
        "SHORT_FLIGHT_BEGINS_ANEW": "flights-short",  # ... or what one could write is dirty again, too
        "FLIGHT_PLACES_NOT_KEPT": "flights-full-error",  # ... or its places are given to new ranges meanwhile
        "CLOSED_HANDLE_FORGETS": "handles-flights",  # ... or what its closed handle refused
        "RANGES_BACK_LATE": "flights-error",  # ... or after `writing` was cleared
        "COUNTED_AT_START": "flights-flush",  # dirty_pages shrinks when a flight is started
        "FLUSH_LEAVES_FLIGHTS": "flights-flush",  # flush does not wait for write-backs in the background
        "NAMED_SILENTLY": "flights-park",  # a party that sleeps already is not woken for a new flight
        "NAMED_AFTER_LOOK": "flights-park",  # ... or is looked for before the frame names it
        "FLIGHT_LOOKED_FOR_ONCE": "flights-park",  # a sleeper does not look for a flight after it set `waited`
        "PARKED_CLEARED": "flights-park",  # AnswerCell.parked is cleared, and nobody woken, for the next flight
    },
    meanings=[
        ("mark[0]", "M2: a mark was left behind, and its frame is lost"),
        ("copying[", "F1: a frame was given away while a marked reader copies out of it"),
        ("!=15", "F1: a marked reader read another page"),
        ("usable", "X4: what was read beside an outside call was used"),
        ("named[ending]", "X2: ended what the flight does not hold, or what does not name it"),
        ("named[", "X2: a frame of a flight was given away or named again"),
        ("answered[", "X1: a flight was ended twice, or before its answer"),
        ("phase[", "X1: a flight was started or left where none was claimed"),
        ("with!=3", "H1: a write-back went through a handle that appends"),
        ("write_handle==0", "H1: a write-back failed because a handle was closed"),
        ("write_handle!=0", "H1: dirty, and no handle may write it back"),
        ("first>(", "W4: a flight wrote what the storage has"),
        ("second>(", "W4: a flight wrote what the storage has"),
        ("!(inside)", "O1: wrote to a page during an outside call"),
        ("!(closed)", "O2: wrote to a page of a closed file"),
        ("twice", "W2: older bytes were written over newer ones"),
        (">=2)", "W2: the storage got a byte that the program did not write"),
        ("failed||", "W3: a flush returned before what it was for was in the storage"),
        ("low", "W1: read something older than before, or what nobody wrote"),
        ("acked[", "W3: an acknowledged write is lost"),
        ("==storage[", "W3: a page differs from the storage"),
        ("==(ranges[", "F4: dirty without ranges, or the other way round"),
        ("dirty_pages", "F4: dirty_pages is wrong"),
        ("entry[f]", "T1: a frame was given away while it is in the table"),
        ("key[1]==(at/2)", "T1: a page is in two frames"),
        ("&& !(((state[f]&4)!=0))", "F2: wrote to a page while it is filled"),
        ("key[f]==", "F1: touched a frame that holds another page"),
        ("state[f]&4)!=0))||", "F2: read between the ranges of a page while they are filled"),
        ("&flags", "F2: a transfer was ended by two"),
        ("writers[0]", "F1: a pin, a writer or a transfer was left behind"),
        ("writers[1]", "F1: a pin, a writer or a transfer was left behind"),
        ("(pins[f]>0)", "F1: a pin was lost"),
        ("(pins[i]>0)", "F1: a pin was lost"),
        ("invalid end state", "P: deadlock, a party never comes to its end"),
        ("acceptance cycle", "P: starvation, outside calls keep a reader from returning"),
    ],
)

SERVING = Model(
    file="serving.pml",
    defaults="CHANGES=2 PAGES=1 DEATH=0 READS=2",
    compiler="tcc",
    quick={"serving": ""},
    default={"serving-pages": "PAGES=2", "serving-death": "DEATH=1"},
    all={"serving-more": "CHANGES=3 DEATH=1"},
    mutations={
        "FILLED_BEFORE_LEASE": "serving",  # reads a page, then takes the lease
        "SERVED_WITHOUT_LEASE": "serving",  # serves a file that somebody has open for writing
        "PUBLISHED_WHILE_BROKEN": "serving",  # a break between the lease and the mark is not seen
        "LEASE_BEFORE_MARK": "serving",  # lets the writer go on, then takes the mark away
        "LOOKED_BEFORE_COPY": "serving",  # the reader looks at the mark, then copies
        "MARK_REUSED": "serving",  # the next file in the entry gets the same mark
        "DEATH_UNSEEN": "serving-death",  # the reader does not look at `alive`
        "LEASES_BEFORE_FUTEX": "serving-death",  # a kernel that ends leases first
    },
    meanings=[
        ("from", "D4: read another file"),
        ("began", "D3: read what had been changed before"),
        ("invalid end state", "a party never comes to its end"),
    ],
)

POSITIONS = Model(
    file="positions.pml",
    defaults="READS=2 GIVERS=1",
    compiler="tcc",
    quick={"positions": ""},
    default={"positions-givers": "GIVERS=2 READS=1"},
    all={"positions-more": "GIVERS=2 READS=3"},
    mutations={
        "USERS_UNSEEN": "positions",  # takes the position though a call uses the kernel's
        "COUNTED_LATE": "positions",  # a call looks who keeps the position, then counts itself
        "OURS_KEPT": "positions",  # a call does not look again once it has counted itself
        "ASKED_BEFORE_MOVING": "positions",  # asks the kernel for the position, then takes it
        "MOVED_BLINDLY": "positions",  # a read stores where it ends
        "KERNELS_KEPT": "positions",  # what is the kernel's may be taken after it was given back
        "GIVEN_BEFORE_TOLD": "positions",  # says that it is the kernel's, then tells the kernel
        "TOLD_WITHOUT_MOVING": "positions-givers",  # two threads tell the kernel at once
    },
    meanings=[
        ("was_read[at]))", "P2 to P4: read a byte twice"),
        ("was_read", "P2 to P4: skipped a byte"),
        ("invalid end state", "a party never comes to its end"),
    ],
)

AGREEMENT = Model(
    file="agreement.pml",
    defaults="RANKS=3 ROUNDS=3",
    compiler="tcc",
    quick={"agreement": ""},
    default={},
    all={"agreement-more": "RANKS=4 ROUNDS=3"},
    mutations={
        "ONE_SLOT_EACH": "agreement",  # a rank stores into the slot that others may still read
        "STORED_AFTER_ARRIVING": "agreement",  # says that its numbers are there, then stores them
        "COUNTER_RESET_LATE": "agreement",  # lets the others go on, then sets the counter to 0
        "SLEEPER_COUNTED_LATE": "agreement",  # sleeps, then says so
    },
    meanings=[
        ("slots", "A1, A2: read numbers of another agreement"),
        ("invalid end state", "A3: a rank waits for ever"),
    ],
)

LENT = Model(
    file="lent.pml",
    defaults="CALLS=3",
    compiler="tcc",
    quick={"lent": ""},
    default={},
    all={"lent-more": "CALLS=5"},
    mutations={
        "UNBEGUN_LATE": "lent",  # lends the call, then says that nobody has begun it
        "TAKEN_BACK_IN_TWO_STEPS": "lent",  # the caller looks, then stores
        "FAILED_UNTAKEN": "lent",  # the caller of an ended server leaves the call to its executor
        "BEGUN_UNCHECKED": "lent",  # the executor executes whatever is in the ring
        "BEGUN_IN_TWO_STEPS": "lent",  # the executor looks, then stores
        "BEGUN_WITHOUT_NUMBER": "lent",  # takes a former call for the one that has its cell now
        "ANSWERED_RELAXED": "lent",  # the number may be seen before the result
    },
    meanings=[
        ("executed", "L1: a call is executed twice, or not at all"),
        ("working", "L2: the executor uses the memory of a call that is not its"),
        ("lent==call", "L2: the executor goes on with a call that is not its"),
        ("lent!=call", "L3: the executor passes over a call"),
        ("RESULT", "L4: a call returns a wrong result"),
        ("buffer", "L4: a call returns a wrong result"),
        ("invalid end state", "L4: a call never returns"),
    ],
)

MODELS = [RING, PAGES, SERVING, POSITIONS, AGREEMENT, LENT]
