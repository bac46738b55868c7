/* The ways of asking: by reading, by seals, by the log, by the strict rule, of an entry that was put with the digest of what
 * was read, and may have been renewed since. What is done takes time, and things change meanwhile.
 *
 * Each NO_... takes one rule of the contract away, each LIMIT_... an assumption (docs/model.md). All must lead to a
 * counterexample; with none of them there is none.
 */
mtype = { auto, content, by_log, strict };
mtype way;           /* how it will be asked */
bit held = 1;        /* a ghost: whether what the value was made from was there at any moment since the question was sent */
bit happened;        /* a ghost: whether anything was done since the clock was asked for */
bit sealed, seal_cur, seal_content;
byte seal_time;

#ifdef NO_START_GAP
#define AT_START sealed = 0; seal_cur = 0; seal_content = 0; seal_time = 0
#else
#define AT_START sealed = 0; seal_cur = 0; seal_content = 0; seal_time = 0; gap = head
#endif
#define END_OF_FLIP
#define CHANGED held = held | (CONTENT == made); happened = (way == strict)
#define LISTENS (way == by_log || way == strict)
#ifdef LIMIT_LOG_IS_BLIND
#define MAY_BE_UNSEEN 1
#else
#define MAY_BE_UNSEEN (way != by_log) /* which asks for less than the promise */
#endif
#include "world.h"

#ifdef NO_GAP_COUNTS
#define QUIET UNTOUCHED(proven)
#elif defined(NO_RECORD_COUNTS)
#define QUIET (gap <= proven)
#else
#define QUIET (UNTOUCHED(proven) && gap <= proven)
#endif
#ifdef NO_COVERAGE_COUNTS
#define COVERED 1
#else
#define COVERED covered
#endif
#ifdef NO_COVERAGE_BEFORE_BARRIER
#define COVERED_FIRST 1
#else
#define COVERED_FIRST COVERED
#endif
#ifdef NO_POSITION_BEFORE_READING
#define PROVEN_AT head
#else
#define PROVEN_AT began
#endif

/* 4.4 */
#ifdef NO_SEAL_AGE
#define OLD_ENOUGH 1
#else
#define OLD_ENOUGH (TIME < t)
#endif
#ifdef NO_SEAL_LEASE
#define NOBODY_WRITES 1
#else
#define NOBODY_WRITES !OPEN_FOR_WRITING
#endif
#define SEAL_HOLDS (sealed && seal_cur == cur && seal_time == TIME)

active proctype Sealer() { /* whenever something is read */
	do
	:: atomic { (way == auto || way == strict) && up && !sealed && OLD_ENOUGH && NOBODY_WRITES ->
		sealed = 1; seal_cur = cur; seal_content = CONTENT; seal_time = TIME }
	od
}

bool false_fresh, false_alarm;

active proctype Client() {
	byte began, was, proven; /* `proven`: a position before the daemon itself read it and found it equal; 0: never */
	byte since;
	bit read, rest, good;
	bit at; /* where the path led: looked at before the barrier */

	atomic {
		begin();
		if :: way = auto :: way = content :: way = by_log :: way = strict fi;
		/* what does not matter to a way of asking does not happen: times to the log, faults to the others */
		if :: way == by_log -> t = LAST_TICK; ct = 0; mapped = 0 :: else -> fault = 1 fi
	};
	/* log.clock, reading the source, entry.put with the digest of what was read */
	atomic { happened = 0 };
	atomic { up ->
#ifndef NO_CLOCK_DRAINS
		drain();
#endif
		since = head };
	atomic { made = CONTENT };
	atomic { up -> began = head; was = runs };
	atomic { read = CONTENT };
	atomic { up -> /* a put that nobody answered is sent again, and then nothing is proven of it */
		kept = made; head++; proven = (was == runs && read == made -> PROVEN_AT : 0) };

	/* entry.revalidate */
	if
	:: atomic { up -> began = head; was = runs };
		atomic { read = CONTENT };
		atomic {
			if
			:: up && was == runs && read == kept -> proven = PROVEN_AT; since = (began > since -> began : since)
#ifdef NO_PROVES_AND_NEVER_BLESSES
			:: up && was == runs && read != kept -> proven = PROVEN_AT; kept = read
#endif
			:: !up || was != runs || read != kept
			fi }
	:: skip
	fi;

	/* the question. A store that is under way may count or not */
	atomic { up -> held = (CONTENT == made || (writing && !cur)); was = runs };
	if
	:: way == content -> atomic { good = (kept == CONTENT) }
	:: way == auto -> atomic { good = (SEAL_HOLDS -> kept == seal_content : kept == CONTENT) }
	:: way == by_log ->
		atomic { at = cur; rest = COVERED_FIRST };
#ifndef NO_QUESTION_DRAINS
		atomic { up && was == runs -> drain() };
#endif
		atomic {
#ifdef NO_WAY_BEFORE_BARRIER
			at = cur;
#endif
			if
			:: rest && COVERED && proven && QUIET ->
				good = 1
			:: else -> good = (kept == CONTENT)
			fi }
	:: way == strict ->
		atomic { up && was == runs -> drain();
			if
			:: touched_way > since || (!cur && touched_file > since) ->
				false_alarm = !happened; assert(!false_alarm);
				good = 0
			:: else -> good = (SEAL_HOLDS && kept == seal_content)
			fi }
	fi;
	atomic { up && was == runs -> false_fresh = (good && !held); assert(!false_fresh);
		end(); sealed = 0; seal_cur = 0; seal_content = 0; seal_time = 0; held = 1; happened = 0; way = content }
}
