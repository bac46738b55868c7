/* What puts.pml and asks.pml have in common: a path, whoever changes what it leads to, the kernel's queue, the daemon.
 *
 * The path leads through a link to one of two files: `c`, that is written (its content is A or B, here 0 or 1), or
 * another one, that has B and rests. Time is counted in ticks of the kernel: two stores in one tick leave the same time.
 * An event is queued before the call that caused it returns; the daemon makes a record of it later, at a position of
 * the log. A behaviour has two stores and one fault: a crash, an event that is lost, or a place that is not watched for
 * a while. Client() is the model's own,
 * as are the macros AT_START, END_OF_FLIP, MAY_BE_UNSEEN (whether there are stores without an event), LISTENS (whether
 * events matter to anybody) and CHANGED (ghosts).
 */
#define LAST_TICK 2
#define STORES 2
#define NONE 2

/* the machine */
bit c;               /* content of the file that is written */
bit cur;             /* where the path leads: 1 to the other file */
byte t = 1, ct;      /* the time now; that of the newest change that moved the file's times */
byte mapped;         /* who stores into the file without a call: 1 by its own name, 2 by one outside the root */
bit writing;         /* whether a call that writes is under way */
bit named;           /* whether the file has another name, outside the root */
byte stores;
bit fault;
bit ev_file, ev_way, ev_gap; /* what the kernel has queued, or the watcher has to tell */
#define CONTENT (cur -> 1 : c)
#define TIME (cur -> 0 : ct)
#define OPEN_FOR_WRITING (!cur && (mapped || writing))

/* the daemon */
bit up = 1, covered = 1;
byte runs, head = 1, gap = 1, touched_file, touched_way;

/* the entry */
byte kept = NONE;    /* its digest; NONE: unproven */

/* the ghost: what the value was made from */
bit made;

inline tell(event) { /* the kernel queues an event, or has no room for it */
	if
	:: up && covered && LISTENS ->
		if
		:: event = 1
		:: !fault -> fault = 1; ev_gap = 1
		fi
	:: else
	fi
}

inline drain() { /* what was queued becomes records */
	if
	:: ev_file || ev_way || ev_gap ->
		head++;
		touched_file = (ev_file -> head : touched_file);
		touched_way = (ev_way -> head : touched_way);
		gap = (ev_gap -> head : gap);
		ev_file = 0; ev_way = 0; ev_gap = 0
	:: else
	fi
}

/* Whether no record after a position names the file that the path led to when its way was looked at, or the way. */
#define UNTOUCHED(position) (touched_way <= position && (at || touched_file <= position))

active proctype Machine() {
	do
	:: atomic { t < LAST_TICK -> t++ }
	:: atomic { up && (ev_file || ev_way || ev_gap) -> drain() }
	:: atomic { covered && !fault && up -> covered = 0; fault = 1; ev_gap = 1 }
	:: atomic { !covered && up -> covered = 1; ev_gap = 1 }
	:: atomic { up && !fault -> /* kill -9: what was not recorded is lost, and nobody sees what happens now */
		fault = 1; up = 0; ev_file = 0; ev_way = 0; ev_gap = 0 };
		atomic { up = 1; runs++; covered = 1; head++; AT_START }
	od
}

/* Who changes what the path leads to. */
active proctype Writer() {
	do
	:: atomic { stores < STORES -> stores++; writing = 1; ct = t }; /* write(2): times, bytes, event */
		atomic { c = 1 - c; CHANGED };
		atomic { writing = 0; CHANGED; tell(ev_file) }
	:: atomic { stores < STORES -> stores++; cur = 1 - cur; CHANGED; END_OF_FLIP tell(ev_way) } /* the link is flipped */
	:: atomic { stores < STORES && MAY_BE_UNSEEN && mapped == 0 -> stores++; mapped = 1; ct = t; c = 1 - c; CHANGED }
	:: atomic { stores < STORES && MAY_BE_UNSEEN && mapped == 0 && named -> stores++; mapped = 2; ct = t; c = 1 - c; CHANGED }
	:: atomic { stores < STORES && MAY_BE_UNSEEN && mapped -> stores++; c = 1 - c; CHANGED } /* later ones: no time, no event */
	:: atomic { stores < STORES && MAY_BE_UNSEEN -> stores++; ct = t; c = 1 - c; CHANGED } /* by a name outside that is gone again */
	:: atomic { mapped == 1 -> mapped = 0; CHANGED; tell(ev_file) }
	:: atomic { mapped == 2 -> mapped = 0 } /* the event is that of the other name */
	od
}

inline begin() { /* how things are at first */
	if :: ct = 0 :: ct = 1 fi;
	if :: mapped = 0 :: mapped = 1 :: named && mapped == 0 -> mapped = 2 fi
}

inline end() { /* what comes after the answer is of no interest: all ends look alike */
	stores = STORES; fault = 1; t = LAST_TICK; ct = 0; c = 0; cur = 0; mapped = 0; named = 0; covered = 1;
	ev_file = 0; ev_way = 0; ev_gap = 0; head = 1; gap = 0; touched_file = 0; touched_way = 0; kept = 0; made = 0
}
