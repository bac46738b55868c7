/* What agents declare: an `object:`, its actions, the clock, a put, a renewal, questions, crashes of the daemon.
 *
 * A position is a number; a clock is (log, position). `v` counts the changes of the object, so that a value is as good
 * as new only where none came since it was read. A step is atomic where the daemon decides in one transaction; what
 * is kept in two variables (`head` and `durable.head`) may be lost by a crash in between.
 *
 * Each NO_... takes one rule of the contract away, each LIMIT_... an assumption that the contract makes (docs/model.md).
 * Both must lead to a counterexample; with none of them there is none.
 */
#define MINE (1 << me)

typedef Store {
	byte head;     /* the newest position */
	byte open;     /* who is at the object: a bit for each agent */
	byte last_end; /* the end of its newest write, 0: none */
	byte refused;  /* the newest refused begin */
	byte gap;      /* the newest gap for all: the one that began this run */
	bit has;       /* whether the entry was put */
	byte clock     /* since when it is judged */
};

Store now;
Store durable;
bit up = 1;
bit log;               /* which log: a store that is lost begins another */
byte runs;             /* how often the daemon was started anew */
byte held, gone;       /* whose begin is held by a connection; whose connection is closed */
byte taken;            /* clocks given out */

byte v;                /* the object: how often it changed */
byte undeclared;       /* changes whose `action.record` is still to come */
byte made;             /* the ghost: what the entry's value was made from */
bit put;               /* the client has its answer */

bool false_fresh, false_guard; /* what must never be: an answer that is not true; two who go on by one answer */

inline copy(from, to) {
	to.head = from.head; to.open = from.open; to.last_end = from.last_end; to.refused = from.refused;
	to.gap = from.gap; to.has = from.has; to.clock = from.clock
}

inline commit() {
#ifndef NO_DURABLE_BEFORE_ANSWER
	copy(now, durable)
#else
	skip
#endif
}

#ifdef LIMIT_HELD_GOES_ON
#define HAS_CLOSED 0
#else
#define HAS_CLOSED (gone & MINE)
#endif
#ifdef LIMIT_STORE_LOST
#define IS_LOST 0
#else
#define IS_LOST (log != mine_log)
#endif

/* section 4.1, the three rows of `object:` */
#ifdef NO_OPEN_COUNTS
#define IS_OPEN 0
#else
#define IS_OPEN now.open
#endif
#define IS_FRESH (now.has && !IS_OPEN && now.last_end <= now.clock && now.refused <= now.clock && now.gap <= now.clock)

#ifdef NO_END_COUNTS
#define END_AT begun_at
#else
#define END_AT now.head
#endif

inline start() { /* a new run: its first record is a gap for all; what was held has failed */
	atomic {
		up = 1; runs++; undeclared = 0;
		now.head++;
#ifndef NO_START_GAP
		now.gap = now.head;
#endif
		if
		:: now.open & held ->
			now.head++; now.open = now.open & ~held;
			now.last_end = now.head
		:: else
		fi;
		gone = gone | held; held = 0;
		copy(now, durable)
	}
}

active proctype Machine() {
	do
	:: atomic { up && runs == 0 -> /* kill -9 */
		up = 0; copy(durable, now) };
		if
		:: atomic { log == 0 -> /* the store is damaged, set aside, and a new log begins */
			log = 1; now.head = 0; now.open = 0; now.last_end = 0; now.refused = 0; now.gap = 0;
			now.has = 0; now.clock = 0 }
		:: skip
		fi;
		start()
#ifdef NO_DURABLE_BEFORE_ANSWER
	:: atomic { up && now.head != durable.head -> copy(now, durable) }
#endif
#ifdef NO_END_KEPT_FOR_EVER
	:: atomic { up && now.last_end != 0 -> now.last_end = 0; commit() } /* the log is trimmed, and the end with it */
#endif
	:: atomic { up && (now.open & held & gone) -> /* a connection closed */
		now.head++; now.open = now.open & ~(held & gone);
#ifndef NO_CLOSED_IS_FAILED
		now.last_end = now.head;
#endif
		held = held & ~gone; commit() }
	:: atomic { put && up && now.has -> goto over }
	od;
over:	skip
}

/* An agent that changes the object, and says so. One does all that may be done, another only begins. */
proctype Agent(byte me) {
	bit wrote, mine_log;
	byte begun_at, seen;
	if
	:: atomic { up -> /* action.begin: durable before it is answered */
		now.head++; begun_at = now.head; now.open = now.open | MINE; mine_log = log; commit() };
		goto begun
	:: atomic { me == 0 && up -> /* the same, held by a connection */
		now.head++; begun_at = now.head; now.open = now.open | MINE; mine_log = log; held = held | MINE; commit() };
		goto begun
	:: atomic { up && IS_FRESH -> seen = 1 }; /* a guarded begin: judged first, decided in the transaction */
		if
#ifndef NO_GUARD_IN_TRANSACTION
		:: atomic { up && !IS_FRESH -> now.head++; now.refused = now.head; commit() }; goto over
		:: atomic { up && IS_FRESH ->
#else
		:: atomic { up ->
#endif
			false_guard = !IS_FRESH;
			assert(!false_guard);
			now.head++; begun_at = now.head; now.open = now.open | MINE; mine_log = log; commit() };
			goto begun
		fi
	:: atomic { me == 0 && up -> /* a begin that is refused */
		now.head++; seen = taken;
#ifndef NO_REFUSED_IS_GAP
		now.refused = now.head;
#endif
		commit() };
		if
#ifdef LIMIT_REFUSED_WRITES_LATER
		:: v++
#else
		:: atomic { seen == taken -> v++ } /* and carried out all the same */
#endif
		:: skip
		fi;
		goto over
	:: atomic { me == 0 && !up -> v++ }; goto over  /* nobody was there to declare it to */
#ifdef LIMIT_UNDECLARED
	:: v++; goto over
#endif
	:: atomic { me == 0 && up -> v++; undeclared++; seen = runs }; /* action.record: done before it is told */
		if
		:: atomic { up && seen == runs ->
			now.head++; undeclared--;
#ifndef NO_RECORD_COUNTS
			now.last_end = now.head;
#endif
			commit() }
		:: seen != runs -> skip /* the start's gap tells of it */
		fi;
		goto over
	fi;

begun:	/* the writes come after the answer, and cover [begin, end] */
	do
	:: atomic { !wrote && !HAS_CLOSED && !IS_LOST -> v++; wrote = 1 }
	:: atomic { up && (now.open & MINE) && !(gone & MINE) -> /* done, or failed: both count as written */
		now.head++; now.open = now.open & ~MINE; now.last_end = END_AT; held = held & ~MINE; commit() }; goto over
	:: atomic { up && (now.open & MINE) && !(gone & MINE) -> /* failed */
		now.head++; now.open = now.open & ~MINE;
#ifndef NO_FAILED_COUNTS
		now.last_end = END_AT;
#endif
		held = held & ~MINE; commit() }; goto over
	:: atomic { up && (now.open & MINE) && !(gone & MINE) -> /* aborted: the word that nothing was attempted */
#ifndef LIMIT_ABORTED_LIES
		!wrote;
#endif
		now.head++; now.open = now.open & ~MINE; held = held & ~MINE; commit() }; goto over
	:: atomic { (held & MINE) && !(gone & MINE) -> gone = gone | MINE } /* its connection closes */
	:: skip -> goto over /* never ended */
	od;
over:	skip
}

/* Who remembers a value: clock, read, put; then it may be renewed; then the question. */
proctype Client() {
	byte clock, began;
	bit from_log;
#ifndef NO_CLOCK_BEFORE_READING
	atomic { up -> clock = now.head; from_log = log; taken++ };
	made = v;
#else
	made = v;
	atomic { up -> clock = now.head; from_log = log; taken++ };
#endif
again:	atomic { up ->
		now.head++; now.has = 1;
#ifdef NO_CLOCK_NEEDED
		now.clock = now.head;
#else
		now.clock = clock;
		if
#ifndef NO_UNKNOWN_LOG_IS_BEFORE
		:: from_log != log -> now.clock = now.gap - 1
#endif
		:: else
		fi;
#endif
		commit() };
	if
	:: atomic { up && now.has -> put = 1 } /* answered */
	:: atomic { up && !now.has -> goto again } /* lost with its store: asked once more, with the same clock */
	fi;
	if
	:: atomic { up && now.has -> began = now.head }; /* entry.revalidate */
		atomic { up && now.has ->
			if
#ifndef NO_PROVES_AND_NEVER_BLESSES
			:: IS_FRESH -> now.clock = (began > now.clock -> began : now.clock)
#else
			:: now.clock = (began > now.clock -> began : now.clock)
#endif
			:: else
			fi;
			commit() }
	:: skip
	fi;
	atomic { up -> /* the question */
		false_fresh = (IS_FRESH && v != made && !undeclared);
		assert(!false_fresh);
		/* what comes after the answer is of no interest: all ends look alike */
		runs = 1; up = 0; put = 0; v = 0; made = 0; undeclared = 0; held = 0; gone = 0; taken = 0; log = 0;
		now.head = 0; now.open = 0; now.last_end = 0; now.refused = 0; now.gap = 0; now.has = 0; now.clock = 0;
		copy(now, durable) }
}

init {
	atomic { now.head = 1; now.gap = 1; copy(now, durable); run Agent(0); run Agent(1); run Client() }
}
