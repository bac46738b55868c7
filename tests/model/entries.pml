/* An entry that rests on another: `a` on a file, put with the digest of what was read; `b` on `entry:a`, made from its value.
 *
 * A value is a number, equal for equal values. A put without a value stands for one that is kept elsewhere, so that nobody
 * can tell whether it is equal. A version is the position of the record that made a value current.
 *
 * Each NO_... takes one rule of the contract away, each LIMIT_... an assumption (docs/model.md). All must lead to a
 * counterexample; with none of them there is none.
 */
#define PUTS 3
#define NOWHERE 255 /* no version: unproven */

typedef Store {
	byte head;
	bit has;       /* `a` is there */
	byte version;
	bit digest;    /* that the value of `a` rests on */
	byte value;    /* a ghost: what the value is; from 2 on it is kept elsewhere */
	bit made       /* a ghost: the content of the file that it was made from */
};

Store now;
Store durable;
bit up = 1, crashed, log;
byte elsewhere = 2;    /* how many values were made that are kept elsewhere */
byte count;            /* puts since `a` was last forgotten */

bit f;                 /* the file */
byte stores;
byte b_made;           /* a ghost: the value of `a` that `b` was made from */
byte b_version = NOWHERE; /* what `b` keeps of `a` */
bit held = 1;          /* a ghost: whether all was true at any moment since the question was sent */
bool false_fresh, false_alarm;

/* what a put by a clock keeps: the version that stood at the clock */
#ifdef NO_VERSION_AT_CLOCK
#define STOOD 1
#else
#define STOOD (now.has && now.version <= clock)
#endif
#ifdef NO_UNKNOWN_LOG_IS_UNPROVEN
#define VERSION_AT_CLOCK (STOOD -> now.version : NOWHERE)
#else
#define VERSION_AT_CLOCK (STOOD && of_log == log -> now.version : NOWHERE)
#endif
#ifdef NO_LATER_NUMBERS
#define TOLD_HERE 1
#else
#define TOLD_HERE (of_log == log)
#endif
#ifdef NO_VERSION_COMPARED
#define SAME_VERSION 1
#else
#define SAME_VERSION (version == b_version)
#endif
#ifdef NO_VERDICT_BELOW
#define VERDICT_OF_A 1
#else
#define VERDICT_OF_A (read == digest)
#endif
#define TRUE_NOW (now.has && now.value == b_made && now.made == f)

inline copy(from, to) {
	to.head = from.head; to.has = from.has; to.version = from.version; to.digest = from.digest; to.value = from.value;
	to.made = from.made
}

inline commit() {
	held = held | TRUE_NOW;
#ifndef NO_DURABLE_BEFORE_ANSWER
	copy(now, durable)
#endif
}

active proctype Machine() {
	do
	:: atomic { stores < 2 -> stores++; f = 1 - f; held = held | TRUE_NOW }
	:: atomic { up && !crashed -> up = 0; crashed = 1; copy(durable, now) };
		atomic {
			if
			:: log = 1; now.head = 0; now.has = 0; now.version = 0; now.digest = 0; now.value = 0; now.made = 0;
				b_version = NOWHERE /* the store is lost, `b` with it */
			:: skip
			fi;
			up = 1; now.head++; held = held | TRUE_NOW; copy(now, durable) }
#ifdef NO_DURABLE_BEFORE_ANSWER
	:: atomic { up && now.head != durable.head -> copy(now, durable) }
#endif
	od
}

active proctype PutsA() {
	byte puts;
	bit read, valued;
	do
	:: puts < PUTS ->
		puts++;
		atomic { read = f };
		if :: valued = 1 :: valued = 0 fi;
		atomic { up ->
			if
#ifndef NO_LATE
			:: now.has && read != f && now.digest == f -> now.head++; goto answered /* what stands is fresh: archived */
#else
			:: now.has && read != f && now.digest == f -> false_alarm = 1; assert(!false_alarm)
#endif
			:: !now.has || read == f || now.digest != f
			fi;
			now.head++; count++;
			if
			:: valued && now.has && now.value == read -> skip /* an equal value keeps its version */
#ifdef NO_NEW_VERSION_WITHOUT_VALUE
			:: !valued && now.has && now.value >= 2
#endif
			:: else ->
#ifndef NO_VERSION_IS_POSITION
				now.version = now.head
#else
				now.version = count
#endif
			fi;
			now.has = 1; now.digest = read; now.made = read;
			if
			:: valued -> now.value = read
			:: !valued -> now.value = elsewhere; elsewhere++
			fi;
answered:		read = 0; valued = 0;
			commit() }
	:: atomic { up && now.has && puts < PUTS -> puts++; /* entry.forget */
		now.head++; now.has = 0; now.version = 0; now.digest = 0; now.value = 0; now.made = 0; count = 0; commit() }
	od
}

active proctype Client() {
	byte clock, version;
	bit of_log, has, digest, read;
	/* log.clock, and entry.get of `a`, whatever its verdict; then the put of `b` */
	if
	:: atomic { up -> clock = now.head; of_log = log }; /* by the clock */
		atomic { up && now.has -> b_made = now.value };
		atomic { up -> b_version = VERSION_AT_CLOCK; clock = 0; of_log = 0; goto kept }
	:: atomic { up && now.has -> b_made = now.value; version = now.version; of_log = log }; /* by the version that was told */
		atomic { up && TOLD_HERE -> b_version = version; version = 0; of_log = 0 }
	fi;
kept:	atomic { up -> held = TRUE_NOW };

	/* the question: facts, the file, the facts once more */
again:	atomic { up -> has = now.has; version = now.version; digest = now.digest };
	atomic { read = f };
#ifndef NO_JUDGED_AGAIN
	if
	:: atomic { up && has == now.has && version == now.version && digest == now.digest }
	:: atomic { up && (has != now.has || version != now.version || digest != now.digest) -> goto again }
	fi;
#endif
	atomic {
		false_fresh = (has && SAME_VERSION && VERDICT_OF_A && b_version != NOWHERE && !held);
		assert(!false_fresh);
		stores = 2; crashed = 1; held = 1 }
}
