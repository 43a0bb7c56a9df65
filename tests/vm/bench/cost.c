// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the module's probes cost, by calling them on a request made up for it:
 * with QEMU's -icount shift=0 a nanosecond is an instruction.
 *
 * Loaded with disk=PATH it measures, writes a line for each figure to the
 * kernel's log, and refuses to stay.
 */
#include <linux/file.h>
#include <linux/module.h>

#include "probe.c"

static char *disk = "/dev/nullb0";
module_param(disk, charp, 0400);

#define ROUNDS 20000

/* As the tracepoint does it: through a pointer that the compiler cannot see through. */
static void nothing(void *data, struct request *rq)
{
}

static void nothing_done(void *data, struct request *rq, nvmaint_complete_t status, unsigned int bytes)
{
}

static u64 measure(struct request *rq, unsigned int bytes, void (*issue)(void *, struct request *),
		   void (*complete)(void *, struct request *, nvmaint_complete_t, unsigned int))
{
	unsigned long flags;
	unsigned int i;
	u64 begun, took;

	OPTIMIZER_HIDE_VAR(issue);
	OPTIMIZER_HIDE_VAR(complete);
	local_irq_save(flags);
	begun = ktime_get_ns();
	for (i = 0; i < ROUNDS; i++) {
		issue(NULL, rq);
		complete(NULL, rq, 0, bytes);
	}
	took = ktime_get_ns() - begun;
	local_irq_restore(flags);
	return took;
}

static u64 clock_alone(void)
{
	unsigned int i;
	u64 begun = ktime_get_ns(), sum = 0;

	for (i = 0; i < ROUNDS; i++)
		sum += ktime_get_ns();
	OPTIMIZER_HIDE_VAR(sum);
	return ktime_get_ns() - begun;
}

static void tell(const char *what, u64 took, u64 empty)
{
	pr_info("nvmaint_cost: %s %llu\n", what, (took - min(took, empty) + ROUNDS / 2) / ROUNDS);
}

static int measure_all(struct request_queue *queue, struct gendisk *gendisk)
{
	struct nvmaint_disk *counted = nvmaint_disk_create(queue, gendisk);
	struct request *rq = kzalloc(sizeof(*rq), GFP_KERNEL);
	struct blk_mq_hw_ctx *hctx = kzalloc(sizeof(*hctx), GFP_KERNEL);
	int error = -ENOMEM;
	u64 empty;

	if (IS_ERR(counted) || !rq || !hctx) {
		error = IS_ERR(counted) ? PTR_ERR(counted) : error;
		goto out;
	}
	nvmaint_disk_publish(counted);
	rq->q = queue;
	rq->mq_hctx = hctx;
	rq->internal_tag = -1;
	rq->tag = 5;
	rq->__data_len = 4096;
	empty = measure(rq, 4096, nothing, nothing_done);
	tell("clock", clock_alone(), 0);
	rq->cmd_flags = REQ_OP_READ;
	tell("read", measure(rq, 4096, nvmaint_on_issue, nvmaint_on_complete), empty);
	rq->cmd_flags = REQ_OP_WRITE | REQ_FUA;
	tell("fua_write", measure(rq, 4096, nvmaint_on_issue, nvmaint_on_complete), empty);
	rq->cmd_flags = REQ_OP_FLUSH;
	rq->__data_len = 0;
	tell("flush", measure(rq, 0, nvmaint_on_issue, nvmaint_on_complete), empty);
	/* Another queue: only its address matters. */
	rq->q = (struct request_queue *)rq;
	tell("unattached", measure(rq, 0, nvmaint_on_issue, nvmaint_on_complete), empty);
	nvmaint_disk_withdraw(counted);
	error = 0;
out:
	if (!IS_ERR(counted))
		nvmaint_disk_destroy(counted);
	kfree(hctx);
	kfree(rq);
	return error;
}

static int __init nvmaint_cost_init(void)
{
	struct file *file = filp_open(disk, O_RDONLY, 0);
	struct block_device *bdev;
	int error;

	if (IS_ERR(file))
		return PTR_ERR(file);
	bdev = nvmaint_bdev(file);
	error = bdev ? measure_all(bdev_get_queue(bdev), bdev->bd_disk) : -ENOTBLK;
	fput(file);
	return error ? error : -EAGAIN;
}
module_init(nvmaint_cost_init);

MODULE_DESCRIPTION("Cost of the probes of nvmaint");
MODULE_LICENSE("GPL");
