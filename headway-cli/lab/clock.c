/*
 * The host's time of day, as QEMU sees it in the lab: a clock that advances by a fixed amount with every look at it, and with
 * nothing else. lab/emulator.rs puts it in front of the C library (LD_PRELOAD).
 *
 * Why it exists: in the lab the same cell must give the same bytes on every run. Instructions are the guest's clock, so nothing
 * of the host's time should reach the guest; but QEMU enlarges and shrinks its model of the TLB by the host's time of day
 * (accel/tcg/cputlb.c), and a guest can notice that. While one thread of a process forks, another thread still writes to a page
 * through a TLB entry that the fork has made stale, or takes a page fault if that entry happens to be gone. The fault
 * costs instructions, which are the guest's time, and everything after it is shifted.
 *
 * What breaks without it: with the real clock 12 of 27 runs of one cell were not the same again; with this one all of 114 were,
 * on a busy host. lab/emulator.rs refuses an emulator that does not load it.
 *
 * Each thread counts for itself. The thread that runs the virtual CPU then sees a time that depends on what the guest does
 * alone, and not on how often QEMU's main thread has looked.
 */

/*
 * How far one look moves the clock, in microseconds. QEMU looks when it flushes the TLB, and shrinks the TLB again when it was
 * used little for 100 ms: here that is 500 flushes.
 */
#define LOOK_US 200

/* The time of the first look, in seconds since 1970: 2020-01-01. Any moment would do; it must only be the same on every run. */
#define START_S 1577836800

/* As in sys/time.h of a 64-bit machine; declared here so that compiling this file needs no C library. */
struct timeval {
	long tv_sec;
	long tv_usec;
};

int gettimeofday(struct timeval *tv, void *zone)
{
	static __thread long looks;
	long us = looks++ * LOOK_US;

	(void)zone; /* obsolete, and QEMU passes none */
	tv->tv_sec = START_S + us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}
