/*
 * The host's time of day, as the lab's emulator sees it: it advances with every look and with nothing else.
 *
 * QEMU resizes its model of the TLB by this clock (accel/tcg/cputlb.c), and a guest can tell: while one thread forks,
 * another one of the process still writes to a page through a TLB entry that the fork has made stale, or takes a page
 * fault if that entry happens to be gone. With the real clock one cell in three was not the same again.
 *
 * Each thread has a count of its own: that of the virtual CPU then depends on what the guest does and on nothing else.
 * lab/emulator.rs puts this in front of the C library (LD_PRELOAD).
 */

/* What one look lasts. A look is a flush of the TLB; QEMU's window for shrinking it again, 100 ms, is 500 of them. */
#define LOOK_US 200
/* Any moment long past: 2020-01-01. */
#define START_S 1577836800

struct timeval {
	long tv_sec;
	long tv_usec;
};

int gettimeofday(struct timeval *tv, void *zone)
{
	static __thread long looks;
	long us = looks++ * LOOK_US;

	(void)zone;
	tv->tv_sec = START_S + us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}
