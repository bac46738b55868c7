/* The three ways of a put: by a digest, by a clock alone (the rule *shown*), as of the put. Then a question that reads.
 *
 * Each NO_... takes one rule of the contract away, each LIMIT_... an assumption, each ALSO_... takes more for a proof than
 * the daemon does (docs/model.md). All must lead to a counterexample; with none of them there is none.
 */
mtype = { by_digest, by_clock, as_of_put };
mtype way; /* how it is put */

#ifdef NO_START_GAP
#define AT_START skip
#else
#define AT_START gap = head
#endif
#ifdef LIMIT_EVENT_AFTER_EFFECT
#define END_OF_FLIP }; atomic {
#else
#define END_OF_FLIP
#endif
#define CHANGED skip
#define LISTENS (way == by_clock)
#define MAY_BE_UNSEEN 1
#include "world.h"

#ifdef NO_GAP_COUNTS
#define QUIET UNTOUCHED(clock)
#elif defined(NO_RECORD_COUNTS)
#define QUIET (gap <= clock)
#else
#define QUIET (UNTOUCHED(clock) && gap <= clock)
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
#ifdef NO_AGE
#define RESTED 1
#elif defined(NO_STEP)
#define RESTED (TIME <= clock_time)
#else
#define RESTED (TIME < clock_time)
#endif
#ifdef NO_LEASE
#define LEASED 1
#else
#define LEASED !OPEN_FOR_WRITING
#endif
#ifdef NO_ONE_NAME
#define ONE_NAME 1
#else
#define ONE_NAME (cur || !named)
#endif

bool false_fresh;

active proctype Client() {
	byte clock, clock_time, was, digest;
	bit read, rest, again;
	bit at; /* where the path led: looked at before the barrier */
#ifdef ALSO_SHOWN_BY_SEAL
	bit sealed, seal_cur, seal_content; byte seal_time;
#endif

	atomic {
		if :: named = 0 :: named = 1 fi;
		begin();
#ifdef LIMIT_STORE_BY_UNLINKED_NAME
		if :: mapped == 2 -> named = 0 :: else fi; /* else who opened it by another name finds that name still there */
#endif
		if :: way = by_digest :: way = by_clock :: way = as_of_put fi;
#ifdef NO_CLOCK_BEFORE_READING
		made = CONTENT
#endif
	};

	/* log.clock, and reading the sources */
	atomic {
		if
		:: way == by_clock && up -> drain(); clock = head; clock_time = t;
#ifdef ALSO_SHOWN_BY_SEAL
			if
			:: TIME < t && !OPEN_FOR_WRITING -> sealed = 1; seal_cur = cur; seal_content = CONTENT; seal_time = TIME
			:: else
			fi
#endif
		:: way != by_clock
		fi
	};
#ifndef NO_CLOCK_BEFORE_READING
	atomic { made = CONTENT };
#endif

	/* entry.put */
ask:	atomic { up -> was = runs; digest = NONE; rest = 0;
		if :: way == by_clock -> drain() :: else fi; /* the first barrier */
#ifdef NO_CLOCK_NEEDED
		if :: way == by_clock -> clock = head; clock_time = t :: else fi
#endif
	};
	atomic { read = CONTENT;
		if
		:: way == by_digest ->
#ifdef NO_DIGEST_OF_THE_CLIENT
			digest = read;
#else
			digest = made;
#endif
			goto decide
		:: way == as_of_put -> digest = read; made = (again -> made : read); goto decide
		:: way == by_clock
		fi;
#ifdef NO_UNPROVEN
		digest = read
#endif
	};
#ifdef NO_LOOK_BEFORE_BARRIER
	atomic { up && was == runs -> drain() };
#endif
	atomic { at = cur; rest = (RESTED && LEASED && ONE_NAME && CONTENT == read && COVERED_FIRST) };
#ifndef NO_LOOK_BEFORE_BARRIER
	atomic { if :: up && was == runs -> drain() :: was != runs -> goto ask fi }; /* the second barrier */
#endif
decide:	atomic {
		if
		:: up && was == runs -> /* the transaction */
			if
			:: rest && COVERED && QUIET -> digest = read
#ifdef ALSO_SHOWN_BY_SEAL
			:: way == by_clock && sealed && seal_cur == cur && seal_time == TIME -> digest = seal_content
#endif
			:: else
			fi;
			kept = digest; head++
		:: was != runs -> goto ask /* nobody answered: it is sent again */
		fi;
		if
		:: !again && way == as_of_put -> again = 1; /* the answer is lost on its way, and the put sent again: the same `op` */
#ifdef NO_SAME_ANSWER_AGAIN
			goto ask
#endif
		:: skip
		fi
	};

	/* the question: all is read. A store that is under way may count or not */
	atomic { up && kept != NONE -> false_fresh = (kept == CONTENT && CONTENT != made && !(writing && !cur));
		assert(!false_fresh);
		end(); way = by_digest }
}
