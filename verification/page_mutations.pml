/* Deliberate faults in the page cache; see mutations.pml. 0 is the cache itself. */

#ifndef MUTATION
#define MUTATION 0
#endif

/* pins and frames given away */
#define EVICT_PINNED 1             /* a frame is taken although somebody has it pinned */
#define EVICT_DIRTY 2              /* ... although it has ranges that the storage has not */
#define PIN_UNCHECKED 3            /* after the pin nobody looks at the key, `orphan` and `taken` */
#define RESET_DROPS_PINS 4         /* a frame that is taken forgets pins of those who came late */
#define ORPHAN_STAYS_LISTED 5      /* an orphan is given away while it is in the table */
/* the table */
#define INSERT_UNCHECKED 6         /* a page is entered without looking whether it is there */
#define INSERT_UNLOCKED 7          /* ... or with a look that the bucket's lock does not cover */
#define LIVE_BEFORE_ENTERED 8      /* a frame can be pinned before its page is in the table */
/* filling */
#define FILL_UNANNOUNCED 9         /* a page is entered without `filling` while it is read */
#define VALID_EARLY 10             /* ... or with `valid` */
#define FILL_OVER_WRITERS 11       /* `filling` is set while somebody writes to the page */
#define WRITE_INTO_FILLING 12      /* a writer does not step back from a page that is filled */
#define READER_NOT_COUNTED 13      /* who reads ranges of a page that is not valid is no writer */
#define COMPLETE_OVER_RANGES 14    /* the whole page is read, not what lies between its ranges */
#define COMPLETE_WHILE_WRITING 15  /* ... or while ranges of it are on their way to the storage */
/* written ranges and write-back */
#define RANGE_BEFORE_BYTES 16      /* the range is entered, then the bytes are copied */
#define RANGES_TAKEN_LATE 17       /* ranges are taken out after their bytes were written */
#define DIRTY_CLEARED_LATE 18      /* `dirty` is cleared after the range lock was given back */
#define WHOLE_PAGE_WRITTEN 19      /* the page is written, not its ranges */
#define FULL_LIST_FORGETS 20       /* a range for which there is no room is left out */
#define ERROR_FORGETS 21           /* what could not be written is not dirty again */
#define COUNTED_EARLY 22           /* dirty_pages shrinks when ranges are taken, not when written */
#define FLUSH_LOOKS_AGAIN 23       /* flush waits for `writing`, then loads `dirty` anew */
#define FLUSH_IGNORES_WRITING 24   /* ... or does not wait */
#define NEIGHBOUR_UNANNOUNCED 25   /* the page behind is written too, but without `writing` */
#define PLACES_NOT_KEPT 71         /* ranges on their way leave their places to new ones */
#define SHORT_TAKEN_FOR_WHOLE 72   /* what a short write left out is not dirty again */
/* handles */
#define APPENDER_BORROWED 73       /* write-backs go through a handle that appends */
#define HANDED_OVER_LATE 74        /* the handle is closed before write-backs use another one */
#define HANDLE_UNCHECKED 75        /* a writer does not look whether a handle may write it back */
/* outside calls */
#define LOOK_BEFORE_WRITER 26      /* a writer looks for outside calls, then counts itself */
#define OUTSIDE_UNDRAINED 27       /* an outside call does not wait for writers */
#define UPDATE_SKIPPED 28          /* cached pages do not follow a host write */
#define UPDATE_WITHOUT_WAIT 29     /* ... or not those that are being filled */
#define HOST_WRITE_UNFLUSHED 30    /* a host write goes on although the flush before it failed */
#define RESIZE_UNCUT 31            /* ranges behind the new end are kept */
#define TRUNCATED_ONCE 32          /* not once more after a flush that failed */
#define DROP_WITHOUT_WAIT 33       /* a dropped page is still on its way to the storage */
#define DROP_OVER_WRITERS 34       /* ... or has a writer who looks for outside calls later */
#define CLOSE_DROPS_DIRTY 35       /* the last close flushes before, not during its outside call */
#define ID_UNCHECKED 36            /* a writer does not look whether the file was closed */
#define NO_TURNS 71                /* who was sent back often takes no turn */
#define TURNS_IGNORED 72           /* ... or outside calls begin all the same */
/* sleeping */
#define WAKE_READ_LATE 37          /* the sleeper reads the futex word after it set `waited` */
#define NO_LOOK_AFTER_WAITED 38    /* ... or sleeps without another look at the flags */
#define WAITED_NOT_SET 39          /* ... or does not say that it sleeps */
#define WAKE_UNCOUNTED 40          /* the waker does not change the futex word */
#define WAKE_SKIPPED 41            /* ... or does not wake */
#define WAITED_LOOKED_AT_EARLY 42  /* ... or looks at `waited`, then clears the flags */
/* marks */
#define MARK_AFTER_LOOK 43         /* a reader looks at the frame's state, then marks it */
#define MARK_UNCHECKED 44          /* ... or does not look at it */
#define MARKED_KEY_UNCHECKED 45    /* ... or not at the key */
#define MARK_CLEARED_EARLY 46      /* the mark goes before the copy ends */
#define MARKS_BEFORE_TAKEN 47      /* marks are looked at, then the frame is `taken` */
#define ONE_MARK_LOOKED_AT 48      /* ... or only those of one group */
#define ORPHAN_MARKS_IGNORED 49    /* ... or not when the frame was an orphan before */
#define MARKED_NO_ORPHAN 50        /* a marked frame is not `taken` any more, and no orphan */
#define MARKED_DROPS_PINS 51       /* ... or forgets pins of those who came late */
#define BARRIER_SKIPPED 70          /* ... or are looked at while a store to one may be under way */
/* flights */
#define FLIGHT_ENDED_TWICE 52      /* whoever sees the answer ends the flight, without an exchange */
#define NUMBER_UNCHECKED 53        /* ... or one that does not compare the number */
#define RECORD_UNANSWERED 54       /* whoever needs the record ends what is in it, answered or not */
#define RECORD_FREED_EARLY 55      /* the record is free before its frames are ended */
#define FLIGHT_UNNAMED 56          /* the frames do not name their flight */
#define NAMED_LATE 57              /* ... or after the request was published */
#define NAME_KEPT_LONGER 58        /* ... or still do when the flag is cleared */
#define EVICT_FLIGHT 59            /* a frame is taken though a flight has it */
#define STALE_FILL_KEPT 60         /* a fill that ran beside an outside call is used */
#define FAILED_FILL_KEPT 61        /* ... or one that failed */
#define FAILED_FLIGHT_FORGETS 62   /* what a flight could not write is not dirty again */
#define FLIGHT_PLACES_NOT_KEPT 76  /* ... or their places are given to new ranges meanwhile */
#define CLOSED_HANDLE_FORGETS 77   /* ... or what its closed handle refused */
#define RANGES_BACK_LATE 63        /* ... or after `writing` was cleared */
#define COUNTED_AT_START 64        /* dirty_pages shrinks when a flight is started */
#define FLUSH_LEAVES_FLIGHTS 65    /* flush does not wait for write-backs in the background */
#define NAMED_SILENTLY 66          /* who sleeps already is not told that there is a flight */
#define NAMED_AFTER_LOOK 67        /* ... or is looked for before the frame names it */
#define FLIGHT_LOOKED_FOR_ONCE 68  /* a sleeper does not look for a flight after it set `waited` */
#define PARKED_CLEARED 69          /* Cell.parked is cleared, and nobody woken, for the next flight */
