/* SPDX-License-Identifier: GPL-2.0-only */
/* One attached disk: what the probes write and the readers read. */
#ifndef NVMAINT_DISK_H
#define NVMAINT_DISK_H

#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "hist.h"
#include "uapi/nvmaint.h"

/* Kept for readers that look once a second. */
#define NVMAINT_EVENTS 64

struct nvmaint_cpu_class {
	u64 sum_ns;
	u64 max_ns;
	u64 errors;
	u64 requeues;
	u64 buckets[NVMAINT_BUCKETS];
};

struct nvmaint_cpu {
	struct nvmaint_cpu_class classes[NVMAINT_CLASSES];
	u64 no_start;
	u64 no_slot;
};

/*
 * When the requests in flight were issued, by hardware queue and tag. A
 * request that is requeued gives its driver tag back and gets another one:
 * where there is a scheduler its own tag is the one that stays.
 *
 * A slot is the time with the class in its low bits, and 0 where the request
 * is not in flight.
 */
#define NVMAINT_SLOT_CLASS	15ULL
#define NVMAINT_SLOT_TIME	(~NVMAINT_SLOT_CLASS)

struct nvmaint_disk {
	struct hlist_node node;		/* by queue, under RCU */
	struct request_queue *queue;	/* a reference; the gendisk is not held */
	struct list_head files;		/* under nvmaint_lock */
	struct nvmaint_cpu __percpu *cpu;
	u64 *slots;
	unsigned int queues;
	unsigned int tags;		/* of one queue */

	u64 attached_ns;
	u64 diskseq;
	u32 major;
	u32 minor;
	char name[32];

	u64 threshold_ns;		/* lowest of the files', U64_MAX: none */
	raw_spinlock_t events_lock;
	u64 events;
	u64 events_dropped;
	u64 second_began_ns;
	unsigned int second_events;
	u64 pending_seen_ns;		/* start of the last one told as pending */
	struct nvmaint_event ring[NVMAINT_EVENTS];
	unsigned int ring_used;
	unsigned int ring_next;
	struct irq_work wake;
	wait_queue_head_t readers;
	struct delayed_work watch;	/* for flushes that do not complete */
};

/* One open file. */
struct nvmaint_file {
	struct list_head node;		/* of its disk */
	struct nvmaint_disk *disk;
	struct mutex lock;
	u64 threshold_ns;
	u64 seen;			/* events, as of the last snapshot */
	void *snapshot;
	size_t snapshot_size;
};

/* probe.c */
int nvmaint_probes_find(void);
int nvmaint_probes_register(void);
void nvmaint_probes_unregister(void);
void nvmaint_disk_publish(struct nvmaint_disk *disk);
void nvmaint_disk_withdraw(struct nvmaint_disk *disk);
struct nvmaint_disk *nvmaint_disk_find(struct request_queue *queue);

/* disk.c */
struct nvmaint_disk *nvmaint_disk_create(struct request_queue *queue,
					 struct gendisk *gendisk);
void nvmaint_disk_destroy(struct nvmaint_disk *disk);
void nvmaint_disk_event(struct nvmaint_disk *disk,
			const struct nvmaint_event *event);
void nvmaint_disk_threshold(struct nvmaint_disk *disk);
size_t nvmaint_snapshot_size(void);
u64 nvmaint_snapshot_take(struct nvmaint_disk *disk, void *buffer);

/* chardev.c */
extern const struct file_operations nvmaint_fops;

#endif
