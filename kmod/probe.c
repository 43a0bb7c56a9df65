// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tracepoints of the block layer, and what a request means to us.
 *
 * An fsync on a drive with a volatile cache shows as
 *
 *   issue FLUSH, complete FLUSH	the flush request of the block layer
 *   complete WRITE of 0 bytes		the submitter's, which never was issued
 *
 * and a journal commit (PREFLUSH | FUA | data) as
 *
 *   issue FLUSH, complete FLUSH
 *   issue WRITE FUA, complete WRITE FUA
 *   complete WRITE of 0 bytes		the same request once more
 *
 * so completions of nothing without an issue are the submitters': FLUSH_WAIT
 * where the bio carried no data, FLUSH_SEQ where it did.
 *
 * The request's own io_start_time_ns is not used. It is set after the issue
 * tracepoint, only for queues with statistics, and from 6.12 on to a time
 * that was cached for the plug and may be earlier than the issue.
 */
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/rculist.h>
#include <linux/tracepoint.h>

#include "compat.h"
#include "disk.h"

#define NVMAINT_HASH_BITS 6

static struct hlist_head nvmaint_disks[1 << NVMAINT_HASH_BITS];

static struct hlist_head *nvmaint_head(const struct request_queue *queue)
{
	return &nvmaint_disks[hash_ptr(queue, NVMAINT_HASH_BITS)];
}

/* Under rcu_read_lock_sched, or the lock of those who attach. */
struct nvmaint_disk *nvmaint_disk_find(struct request_queue *queue)
{
	struct nvmaint_disk *disk;

	hlist_for_each_entry_rcu(disk, nvmaint_head(queue), node, true)
		if (disk->queue == queue)
			return disk;
	return NULL;
}

void nvmaint_disk_publish(struct nvmaint_disk *disk)
{
	hlist_add_head_rcu(&disk->node, nvmaint_head(disk->queue));
}

/* No probe knows the disk any more when this returns. */
void nvmaint_disk_withdraw(struct nvmaint_disk *disk)
{
	hlist_del_rcu(&disk->node);
	synchronize_rcu();
}

static enum nvmaint_class nvmaint_class_of(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return NVMAINT_READ;
	case REQ_OP_WRITE:
		return rq->cmd_flags & REQ_FUA ? NVMAINT_FUA_WRITE :
						 NVMAINT_WRITE;
	case REQ_OP_FLUSH:
		return NVMAINT_FLUSH;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return NVMAINT_DISCARD;
	case REQ_OP_WRITE_ZEROES:
		return NVMAINT_WRITE_ZEROES;
	default:
		return NVMAINT_OTHER;
	}
}

/* NULL where the queue has grown since it was attached. */
static u64 *nvmaint_slot(struct nvmaint_disk *disk, struct request *rq)
{
	unsigned int queue = rq->mq_hctx ? rq->mq_hctx->queue_num : 0;
	unsigned int tag = rq->internal_tag >= 0 ? rq->internal_tag : rq->tag;

	if (queue >= disk->queues || tag >= disk->tags)
		return NULL;
	return &disk->slots[(size_t)queue * disk->tags + tag];
}

static void nvmaint_count(struct nvmaint_disk *disk, enum nvmaint_class class,
			  u64 ns, bool error)
{
	struct nvmaint_cpu_class __percpu *own = &disk->cpu->classes[class];
	u64 max;

	this_cpu_add(own->sum_ns, ns);
	this_cpu_inc(own->buckets[nvmaint_bucket(ns)]);
	if (unlikely(error))
		this_cpu_inc(own->errors);
	/* An interrupt may complete something slower meanwhile. */
	max = this_cpu_read(own->max_ns);
	while (unlikely(ns > max)) {
		u64 found = this_cpu_cmpxchg(own->max_ns, max, ns);

		if (found == max)
			break;
		max = found;
	}
}

static void nvmaint_on_issue(void *data, struct request *rq)
{
	struct nvmaint_disk *disk;
	u64 *slot;

	nvmaint_probe_enter();
	disk = nvmaint_disk_find(rq->q);
	/*
	 * The timer of a request is armed just after this, and reset when the
	 * request is allocated: one that has it was issued before, and is
	 * counted from then.
	 */
	if (disk && READ_ONCE(rq->deadline) == 0) {
		slot = nvmaint_slot(disk, rq);
		if (likely(slot))
			WRITE_ONCE(*slot,
				   (ktime_get_ns() & NVMAINT_SLOT_TIME) |
				   nvmaint_class_of(rq));
		else
			this_cpu_inc(disk->cpu->no_slot);
	}
	nvmaint_probe_leave();
}

static void nvmaint_on_requeue(void *data, struct request *rq)
{
	struct nvmaint_disk *disk;

	nvmaint_probe_enter();
	disk = nvmaint_disk_find(rq->q);
	if (disk)
		this_cpu_inc(
			disk->cpu->classes[nvmaint_class_of(rq)].requeues);
	nvmaint_probe_leave();
}

/* A completion of nothing that was never issued. */
static void nvmaint_submitter(struct nvmaint_disk *disk, struct request *rq,
			      bool error)
{
	u64 start = rq->start_time_ns;

	/* Whether it was taken is said by the flag: 0 is no proof. */
	if (!(rq->rq_flags & RQF_IO_STAT) || start == 0) {
		this_cpu_inc(disk->cpu->no_start);
		return;
	}
	nvmaint_count(disk,
		      rq->bio && rq->bio->bi_io_vec ? NVMAINT_FLUSH_SEQ :
						      NVMAINT_FLUSH_WAIT,
		      ktime_get_ns() - start, error);
}

static void nvmaint_on_complete(void *data, struct request *rq,
				nvmaint_complete_t status,
				unsigned int nr_bytes)
{
	struct nvmaint_disk *disk;
	u64 *slot, start, now;

	nvmaint_probe_enter();
	disk = nvmaint_disk_find(rq->q);
	if (!disk)
		goto out;
	/* A part of it: the rest comes, and brings the time. */
	if (unlikely(nr_bytes < blk_rq_bytes(rq)))
		goto out;
	slot = nvmaint_slot(disk, rq);
	start = slot ? READ_ONCE(*slot) : 0;
	if (likely(start)) {
		enum nvmaint_class class = start & NVMAINT_SLOT_CLASS;

		WRITE_ONCE(*slot, 0);
		start &= NVMAINT_SLOT_TIME;
		now = ktime_get_ns();
		now = now > start ? now - start : 0;
		nvmaint_count(disk, class, now, status != 0);
		if (unlikely(class == NVMAINT_FLUSH &&
			     now >= READ_ONCE(disk->threshold_ns))) {
			struct nvmaint_event event = {
				.start_ns = start,
				.duration_ns = now,
				.event_class = class,
				.error = nvmaint_errno(status),
				.queue = rq->mq_hctx ? rq->mq_hctx->queue_num :
						       0,
			};

			nvmaint_disk_event(disk, &event);
		}
	} else if (nr_bytes == 0 && req_op(rq) == REQ_OP_WRITE) {
		nvmaint_submitter(disk, rq, status != 0);
	} else {
		this_cpu_inc(disk->cpu->no_start);
	}
out:
	nvmaint_probe_leave();
}

/* The tracepoints are not exported, but may be found by name. */
static struct nvmaint_probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
} nvmaint_probes[] = {
	{ "block_rq_issue", nvmaint_on_issue, NULL },
	{ "block_rq_requeue", nvmaint_on_requeue, NULL },
	{ "block_rq_complete", nvmaint_on_complete, NULL },
};

static void nvmaint_compare(struct tracepoint *tracepoint, void *data)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nvmaint_probes); i++)
		if (!strcmp(tracepoint->name, nvmaint_probes[i].name))
			nvmaint_probes[i].tracepoint = tracepoint;
}

int nvmaint_probes_find(void)
{
	unsigned int i;

	for_each_kernel_tracepoint(nvmaint_compare, NULL);
	for (i = 0; i < ARRAY_SIZE(nvmaint_probes); i++) {
		if (!nvmaint_probes[i].tracepoint) {
			pr_err("nvmaint: no tracepoint %s in this kernel\n",
			       nvmaint_probes[i].name);
			return -ENOENT;
		}
	}
	return 0;
}

static void nvmaint_probes_remove(unsigned int count)
{
	while (count-- > 0)
		tracepoint_probe_unregister(nvmaint_probes[count].tracepoint,
					    nvmaint_probes[count].function,
					    NULL);
	tracepoint_synchronize_unregister();
}

int nvmaint_probes_register(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < ARRAY_SIZE(nvmaint_probes); i++) {
		error = tracepoint_probe_register(
			nvmaint_probes[i].tracepoint,
			nvmaint_probes[i].function, NULL);
		if (error) {
			nvmaint_probes_remove(i);
			return error;
		}
	}
	return 0;
}

void nvmaint_probes_unregister(void)
{
	nvmaint_probes_remove(ARRAY_SIZE(nvmaint_probes));
}
