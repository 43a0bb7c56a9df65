/* SPDX-License-Identifier: GPL-2.0-only */
/* All differences between kernels, 5.10 and later. */
#ifndef NVMAINT_COMPAT_H
#define NVMAINT_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/version.h>
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
#include <linux/genhd.h>
#endif

/*
 * Arguments of the tracepoint block_rq_complete. Distributions that carry
 * the change of 5.16 back set NVMAINT_COMPLETE_STATUS in their build.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0) || \
	defined(NVMAINT_COMPLETE_STATUS)
typedef blk_status_t nvmaint_complete_t;
#define nvmaint_errno(status) blk_status_to_errno(status)
#else
typedef int nvmaint_complete_t;
#define nvmaint_errno(error) (error)
#endif

/* The disk's number among all that ever were: 5.15. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
#define nvmaint_diskseq(disk) ((disk)->diskseq)
#else
#define nvmaint_diskseq(disk) ((void)(disk), 0ULL)
#endif

/* A bit of the queue until 6.10, a feature in its limits since. */
#ifdef QUEUE_FLAG_WC
#define nvmaint_write_back(q) test_bit(QUEUE_FLAG_WC, &(q)->queue_flags)
#else
#define nvmaint_write_back(q) blk_queue_write_cache(q)
#endif

/* The file's block device, NULL where it is none. */
static inline struct block_device *nvmaint_bdev(struct file *file)
{
	struct inode *inode = file->f_mapping->host;

	return S_ISBLK(inode->i_mode) ? I_BDEV(inode) : NULL;
}

static inline bool nvmaint_is_partition(struct block_device *bdev)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
	return bdev->bd_contains != bdev;
#else
	return bdev_is_partition(bdev);
#endif
}

/*
 * Tracepoints call their probes with preemption off, and since 7.0 under
 * SRCU with preemption on.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define nvmaint_probe_enter() rcu_read_lock_sched_notrace()
#define nvmaint_probe_leave() rcu_read_unlock_sched_notrace()
#else
#define nvmaint_probe_enter() do { } while (0)
#define nvmaint_probe_leave() do { } while (0)
#endif

/* What struct fd holds became private in 6.12. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define nvmaint_fd_file(f) fd_file(f)
#else
#define nvmaint_fd_file(f) ((f).file)
#endif

#endif
