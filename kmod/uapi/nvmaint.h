/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * What nvmaint.ko and its readers agree on; ABI.md explains it.
 *
 *   fd = open("/dev/nvmaint", O_RDONLY) mode 0600 and CAP_PERFMON
 *   ioctl(fd, NVMAINT_IOC_ATTACH, &a)   counts from here on, for one disk
 *   pread(fd, buffer, length, 0)        a snapshot of what was counted
 *   poll(fd, POLLIN)                    a flush was slow, or is
 *   close(fd)                           the last one ends the counting
 *
 * Numbers are in host byte order, times in nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef _UAPI_NVMAINT_H
#define _UAPI_NVMAINT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define NVMAINT_DEVICE "/dev/nvmaint"

/* A request is counted in one class, by what it was when it was issued. */
enum nvmaint_class {
	NVMAINT_FLUSH,		/* device: FLUSH, from issue to completion */
	NVMAINT_FLUSH_WAIT,	/* submitter of an empty flush, all it waited */
	NVMAINT_FUA_WRITE,	/* device: write with FUA */
	NVMAINT_FLUSH_SEQ,	/* submitter of data with a flush around it */
	NVMAINT_WRITE,
	NVMAINT_READ,
	NVMAINT_DISCARD,	/* secure erase included */
	NVMAINT_WRITE_ZEROES,
	NVMAINT_OTHER,		/* passthrough, zone management */
	NVMAINT_CLASSES
};

struct nvmaint_attach {
	__u32 size;		/* of this struct, as the caller knows it */
	__s32 disk_fd;		/* a whole block device, open for reading */
	__u32 flags;		/* none defined: 0 */
	__u32 reserved;		/* 0 */
	/*
	 * Slower flushes (NVMAINT_FLUSH) are events; 0: none. Other classes
	 * have histograms alone.
	 */
	__u64 flush_threshold_ns;
	/*
	 * A hidden path of the multipath head that disk_fd is, nvmeXcYnZ;
	 * empty: the disk itself.
	 */
	char path[32];
};

struct nvmaint_threshold {
	__u32 size;
	__u32 reserved;		/* 0 */
	__u64 flush_threshold_ns;
};

/* The size within the struct counts, not one encoded in the number. */
#define NVMAINT_IOC_ATTACH	_IO(0xBD, 0x40)
#define NVMAINT_IOC_THRESHOLD	_IO(0xBD, 0x41)

#define NVMAINT_MAGIC		0x31746e69616d766eULL	/* "nvmaint1" */

/* nvmaint_snapshot.flags */
#define NVMAINT_DYING		(1U << 0)	/* the disk is gone */
#define NVMAINT_WRITE_THROUGH	(1U << 1)	/* the kernel sends no flush */
#define NVMAINT_NO_WAIT		(1U << 2)	/* iostats off: no *_WAIT, _SEQ */

/*
 * Head of a snapshot. What follows is found by the offsets and strides in
 * here, so that a reader of today understands the snapshot of tomorrow:
 * fields and classes are only ever added at the end.
 */
struct nvmaint_snapshot {
	__u64 magic;
	__u32 size;		/* of the whole snapshot */
	__u32 header_size;
	__u32 class_offset;	/* of the first struct nvmaint_class_stats */
	__u32 class_stride;	/* its buckets included */
	__u32 class_count;
	__u32 bucket_offset;	/* within a class: bucket_count times __u64 */
	__u32 bucket_count;
	__u32 sub_bits;		/* 2^sub_bits buckets an octave */
	__u32 min_exponent;	/* bucket 0: below 2^min_exponent ns */
	__u32 max_exponent;	/* last bucket: from 2^max_exponent ns on */
	__u32 event_offset;	/* of the first struct nvmaint_event */
	__u32 event_stride;
	__u32 event_count;	/* oldest first */
	__u32 flags;
	__u64 now_ns;
	__u64 attached_ns;	/* counters are 0 at this moment */
	__u64 diskseq;		/* 0 where the kernel has none (before 5.15) */
	__u64 events;		/* ever seen: number of the last one */
	__u64 events_dropped;	/* of these, not kept: too many a second */
	__u64 no_start;		/* completions whose issue was not seen */
	__u64 no_slot;		/* issues beyond the slots made at attach */
	__u32 major;		/* of the disk; 0 for a hidden path */
	__u32 minor;
	char disk[32];
};

struct nvmaint_class_stats {
	__u64 count;		/* completed, errors included */
	__u64 sum_ns;
	__u64 max_ns;
	__u64 errors;
	__u64 requeues;
	__u64 in_flight;	/* 0 for FLUSH_WAIT, FLUSH_SEQ: not tracked */
	__u64 oldest_ns;	/* age of the oldest in flight; 0: none */
	__u64 reserved;
	/* __u64 buckets[bucket_count]; */
};

/* nvmaint_event.flags */
#define NVMAINT_EVENT_PENDING	(1U << 0)	/* has not completed yet */

struct nvmaint_event {
	__u64 number;		/* from 1; a gap shows what was dropped */
	__u64 start_ns;
	__u64 duration_ns;	/* so far, where pending */
	__u32 event_class;	/* enum nvmaint_class */
	__u32 flags;
	__s32 error;		/* negative errno, 0 where none or pending */
	__u32 queue;		/* hardware queue */
};

#endif
