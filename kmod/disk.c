// SPDX-License-Identifier: GPL-2.0-only
/* An attached disk: its memory, its events, its snapshots. */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "disk.h"

/* What is slower than this many a second tells nobody anything new. */
#define NVMAINT_EVENTS_A_SECOND NVMAINT_EVENTS
/* A flush that does not return is noticed within this. */
#define NVMAINT_WATCH_EVERY (HZ / 2)

static void nvmaint_wake(struct irq_work *work)
{
	struct nvmaint_disk *disk =
		container_of(work, struct nvmaint_disk, wake);

	wake_up_interruptible_all(&disk->readers);
}

/* From the probe, interrupts off or not; also from the watch. */
void nvmaint_disk_event(struct nvmaint_disk *disk,
			const struct nvmaint_event *event)
{
	struct nvmaint_event *kept;
	unsigned long flags;
	u64 now = ktime_get_ns();

	raw_spin_lock_irqsave(&disk->events_lock, flags);
	disk->events++;
	if (now - disk->second_began_ns >= NSEC_PER_SEC) {
		disk->second_began_ns = now;
		disk->second_events = 0;
	}
	if (++disk->second_events > NVMAINT_EVENTS_A_SECOND) {
		disk->events_dropped++;
		raw_spin_unlock_irqrestore(&disk->events_lock, flags);
		return;
	}
	kept = &disk->ring[disk->ring_next];
	*kept = *event;
	kept->number = disk->events;
	disk->ring_next = (disk->ring_next + 1) % NVMAINT_EVENTS;
	if (disk->ring_used < NVMAINT_EVENTS)
		disk->ring_used++;
	raw_spin_unlock_irqrestore(&disk->events_lock, flags);
	/* Waking takes locks that the completion may hold already. */
	irq_work_queue(&disk->wake);
}

/*
 * Tells of flushes that are out for longer than the threshold, each once, and
 * of the end of the disk.
 */
static void nvmaint_watch(struct work_struct *work)
{
	struct nvmaint_disk *disk = container_of(
		to_delayed_work(work), struct nvmaint_disk, watch);
	u64 threshold = READ_ONCE(disk->threshold_ns);
	u64 now = ktime_get_ns(), told = disk->pending_seen_ns;
	size_t i, slots = (size_t)disk->queues * disk->tags;

	if (blk_queue_dying(disk->queue)) {
		wake_up_interruptible_all(&disk->readers); /* EPOLLHUP */
		return;
	}
	for (i = 0; i < slots && threshold != U64_MAX; i++) {
		u64 slot = READ_ONCE(disk->slots[i]);
		u64 start = slot & NVMAINT_SLOT_TIME;

		if ((slot & NVMAINT_SLOT_CLASS) != NVMAINT_FLUSH || !start ||
		    start <= disk->pending_seen_ns || start > now ||
		    now - start < threshold)
			continue;
		told = max(told, start);
		nvmaint_disk_event(disk, &(struct nvmaint_event){
			.start_ns = start,
			.duration_ns = now - start,
			.event_class = NVMAINT_FLUSH,
			.flags = NVMAINT_EVENT_PENDING,
			.queue = i / disk->tags,
		});
	}
	disk->pending_seen_ns = told;
	schedule_delayed_work(&disk->watch, NVMAINT_WATCH_EVERY);
}

/* The lowest of all files' thresholds; caller holds the lock of the files. */
void nvmaint_disk_threshold(struct nvmaint_disk *disk)
{
	struct nvmaint_file *file;
	u64 lowest = U64_MAX;

	list_for_each_entry(file, &disk->files, node)
		if (file->threshold_ns)
			lowest = min(lowest, file->threshold_ns);
	WRITE_ONCE(disk->threshold_ns, lowest);
}

/* Tags as the driver or the scheduler hands them out, whichever are more. */
static unsigned int nvmaint_tags(struct request_queue *queue)
{
	unsigned long tags = queue->nr_requests;

	if (queue->tag_set && queue->tag_set->queue_depth > tags)
		tags = queue->tag_set->queue_depth;
	/* A scheduler that is switched on later has twice as many. */
	return max_t(unsigned long, tags, 256);
}

/* ERR_PTR: EOPNOTSUPP for bio-based disks, which have no requests. */
struct nvmaint_disk *nvmaint_disk_create(struct request_queue *queue,
					 struct gendisk *gendisk)
{
	struct nvmaint_disk *disk;
	int error = -ENOMEM;

	BUILD_BUG_ON(sizeof(struct nvmaint_cpu) > PCPU_MIN_UNIT_SIZE);
	BUILD_BUG_ON(NVMAINT_CLASSES > NVMAINT_SLOT_CLASS + 1);
	if (!queue_is_mq(queue) || queue->nr_hw_queues == 0)
		return ERR_PTR(-EOPNOTSUPP);
	disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	if (!disk)
		return ERR_PTR(-ENOMEM);
	disk->queues = queue->nr_hw_queues;
	disk->tags = nvmaint_tags(queue);
	disk->slots = kvcalloc((size_t)disk->queues * disk->tags,
			       sizeof(*disk->slots), GFP_KERNEL);
	if (!disk->slots)
		goto free_disk;
	disk->cpu = alloc_percpu(struct nvmaint_cpu);
	if (!disk->cpu)
		goto free_slots;
	/* Holding the gendisk as well would keep a driver from unloading. */
	if (!blk_get_queue(queue)) {
		error = -ENODEV;
		goto free_cpu;
	}
	disk->queue = queue;
	disk->attached_ns = ktime_get_ns();
	disk->diskseq = nvmaint_diskseq(gendisk);
	if (!(gendisk->flags & GENHD_FL_HIDDEN)) {
		disk->major = gendisk->major;
		disk->minor = gendisk->first_minor;
	}
	strscpy(disk->name, gendisk->disk_name, sizeof(disk->name));
	disk->threshold_ns = U64_MAX;
	INIT_LIST_HEAD(&disk->files);
	raw_spin_lock_init(&disk->events_lock);
	init_irq_work(&disk->wake, nvmaint_wake);
	init_waitqueue_head(&disk->readers);
	INIT_DELAYED_WORK(&disk->watch, nvmaint_watch);
	schedule_delayed_work(&disk->watch, NVMAINT_WATCH_EVERY);
	return disk;

free_cpu:
	free_percpu(disk->cpu);
free_slots:
	kvfree(disk->slots);
free_disk:
	kfree(disk);
	return ERR_PTR(error);
}

/* No probe knows it any more, and no file. */
void nvmaint_disk_destroy(struct nvmaint_disk *disk)
{
	cancel_delayed_work_sync(&disk->watch);
	irq_work_sync(&disk->wake);
	blk_put_queue(disk->queue);
	free_percpu(disk->cpu);
	kvfree(disk->slots);
	kfree(disk);
}

#define NVMAINT_CLASS_STRIDE \
	(sizeof(struct nvmaint_class_stats) + NVMAINT_BUCKETS * sizeof(u64))

size_t nvmaint_snapshot_size(void)
{
	return sizeof(struct nvmaint_snapshot) +
	       NVMAINT_CLASSES * NVMAINT_CLASS_STRIDE +
	       NVMAINT_EVENTS * sizeof(struct nvmaint_event);
}

static void nvmaint_add_cpu(const struct nvmaint_disk *disk, void *classes,
			    const struct nvmaint_cpu *from)
{
	unsigned int class, bucket;

	for (class = 0; class < NVMAINT_CLASSES; class++) {
		const struct nvmaint_cpu_class *own = &from->classes[class];
		struct nvmaint_class_stats *to =
			classes + class * NVMAINT_CLASS_STRIDE;
		u64 *buckets = (u64 *)(to + 1);

		to->sum_ns += READ_ONCE(own->sum_ns);
		to->max_ns = max(to->max_ns, READ_ONCE(own->max_ns));
		to->errors += READ_ONCE(own->errors);
		to->requeues += READ_ONCE(own->requeues);
		for (bucket = 0; bucket < NVMAINT_BUCKETS; bucket++) {
			u64 found = READ_ONCE(own->buckets[bucket]);

			buckets[bucket] += found;
			to->count += found;
		}
	}
}

static void nvmaint_add_pending(const struct nvmaint_disk *disk,
				void *classes, u64 now)
{
	size_t i, slots = (size_t)disk->queues * disk->tags;

	for (i = 0; i < slots; i++) {
		u64 slot = READ_ONCE(disk->slots[i]);
		u64 start = slot & NVMAINT_SLOT_TIME;
		struct nvmaint_class_stats *to;

		if (!start)
			continue;
		to = classes + (slot & NVMAINT_SLOT_CLASS) *
				       NVMAINT_CLASS_STRIDE;
		to->in_flight++;
		if (now > start)
			to->oldest_ns = max(to->oldest_ns, now - start);
	}
}

/*
 * Fills the whole buffer, which is zeroed and of nvmaint_snapshot_size().
 * Counters go on meanwhile: a request may be in a bucket and not yet in a
 * sum. Returns the number of the last event in it.
 */
u64 nvmaint_snapshot_take(struct nvmaint_disk *disk, void *buffer)
{
	struct nvmaint_snapshot *head = buffer;
	void *classes = buffer + sizeof(*head);
	struct nvmaint_event *events =
		classes + NVMAINT_CLASSES * NVMAINT_CLASS_STRIDE;
	unsigned long flags;
	unsigned int i;
	int cpu;

	head->magic = NVMAINT_MAGIC;
	head->size = nvmaint_snapshot_size();
	head->header_size = sizeof(*head);
	head->class_offset = sizeof(*head);
	head->class_stride = NVMAINT_CLASS_STRIDE;
	head->class_count = NVMAINT_CLASSES;
	head->bucket_offset = sizeof(struct nvmaint_class_stats);
	head->bucket_count = NVMAINT_BUCKETS;
	head->sub_bits = NVMAINT_SUB_BITS;
	head->min_exponent = NVMAINT_MIN_EXPONENT;
	head->max_exponent = NVMAINT_MAX_EXPONENT;
	head->event_offset = (void *)events - buffer;
	head->event_stride = sizeof(*events);
	if (blk_queue_dying(disk->queue))
		head->flags |= NVMAINT_DYING;
	if (!nvmaint_write_back(disk->queue))
		head->flags |= NVMAINT_WRITE_THROUGH;
	if (!blk_queue_io_stat(disk->queue))
		head->flags |= NVMAINT_NO_WAIT;
	head->attached_ns = disk->attached_ns;
	head->diskseq = disk->diskseq;
	head->major = disk->major;
	head->minor = disk->minor;
	memcpy(head->disk, disk->name, sizeof(head->disk));
	/* A CPU that has been taken offline has counted all the same. */
	for_each_possible_cpu(cpu) {
		const struct nvmaint_cpu *from = per_cpu_ptr(disk->cpu, cpu);

		nvmaint_add_cpu(disk, classes, from);
		head->no_start += READ_ONCE(from->no_start);
		head->no_slot += READ_ONCE(from->no_slot);
	}
	head->now_ns = ktime_get_ns();
	nvmaint_add_pending(disk, classes, head->now_ns);

	raw_spin_lock_irqsave(&disk->events_lock, flags);
	head->events = disk->events;
	head->events_dropped = disk->events_dropped;
	head->event_count = disk->ring_used;
	for (i = 0; i < disk->ring_used; i++)
		events[i] = disk->ring[(disk->ring_next + NVMAINT_EVENTS -
					disk->ring_used + i) %
				       NVMAINT_EVENTS];
	raw_spin_unlock_irqrestore(&disk->events_lock, flags);
	return head->events;
}
