// SPDX-License-Identifier: GPL-2.0-only
/* /dev/nvmaint: one open file counts for one disk. */
#include <linux/capability.h>
#include <linux/device.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "disk.h"

/* Who attaches and detaches: which disks there are, and their files. */
static DEFINE_MUTEX(nvmaint_lock);
static unsigned int nvmaint_attached;

static int nvmaint_open(struct inode *inode, struct file *filp)
{
	struct nvmaint_file *file;

	/* Afterwards the descriptor is the right, and may be handed on. */
	if (!perfmon_capable())
		return -EPERM;
	file = kzalloc(sizeof(*file), GFP_KERNEL);
	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	INIT_LIST_HEAD(&file->node);
	filp->private_data = file;
	return 0;
}

static void nvmaint_detach(struct nvmaint_file *file)
{
	struct nvmaint_disk *disk = file->disk;

	mutex_lock(&nvmaint_lock);
	list_del(&file->node);
	if (!list_empty(&disk->files)) {
		nvmaint_disk_threshold(disk);
		disk = NULL;
	} else {
		if (--nvmaint_attached == 0)
			nvmaint_probes_unregister();
		nvmaint_disk_withdraw(disk);
	}
	mutex_unlock(&nvmaint_lock);
	if (disk)
		nvmaint_disk_destroy(disk);
}

static int nvmaint_release(struct inode *inode, struct file *filp)
{
	struct nvmaint_file *file = filp->private_data;

	if (file->disk)
		nvmaint_detach(file);
	kvfree(file->snapshot);
	kfree(file);
	return 0;
}

/* Joins those who count for this queue already, or begins. */
static int nvmaint_join(struct nvmaint_file *file, struct request_queue *queue,
			struct gendisk *gendisk)
{
	struct nvmaint_disk *disk;
	int error = 0;

	mutex_lock(&nvmaint_lock);
	disk = nvmaint_disk_find(queue);
	if (!disk) {
		disk = nvmaint_disk_create(queue, gendisk);
		if (IS_ERR(disk)) {
			error = PTR_ERR(disk);
			goto unlock;
		}
		if (nvmaint_attached == 0)
			error = nvmaint_probes_register();
		if (error) {
			nvmaint_disk_destroy(disk);
			goto unlock;
		}
		nvmaint_attached++;
		nvmaint_disk_publish(disk);
	}
	file->seen = READ_ONCE(disk->events);
	WRITE_ONCE(file->disk, disk);
	list_add_tail(&file->node, &disk->files);
	nvmaint_disk_threshold(disk);
unlock:
	mutex_unlock(&nvmaint_lock);
	return error;
}

/*
 * nvmeXcYnZ is a path of nvmeXnZ and of no other head. Its disk is hidden:
 * no node, so it is looked up among the disks by name.
 */
static bool nvmaint_is_path_of(const char *path, const char *head)
{
	unsigned int x, y, z, hx, hz;
	char rest;

	return sscanf(path, "nvme%uc%un%u%c", &x, &y, &z, &rest) == 3 &&
	       sscanf(head, "nvme%un%u%c", &hx, &hz, &rest) == 2 && x == hx &&
	       z == hz;
}

static struct device *nvmaint_find_disk(const struct class *class,
					const char *name)
{
	struct class_dev_iter iter;
	struct device *device;

	class_dev_iter_init(&iter, (struct class *)class, NULL, NULL);
	while ((device = class_dev_iter_next(&iter))) {
		if (!strcmp(dev_name(device), name)) {
			get_device(device);
			break;
		}
	}
	class_dev_iter_exit(&iter);
	return device;
}

static int nvmaint_attach_path(struct nvmaint_file *file,
			       struct block_device *head, const char *path)
{
	struct device *device;
	struct gendisk *disk;
	int error;

	if (!nvmaint_is_path_of(path, head->bd_disk->disk_name))
		return -EINVAL;
	device = nvmaint_find_disk(disk_to_dev(head->bd_disk)->class, path);
	if (!device)
		return -ENODEV;
	disk = dev_to_disk(device);
	if (disk->flags & GENHD_FL_HIDDEN)
		error = nvmaint_join(file, disk->queue, disk);
	else
		error = -EINVAL;
	put_device(device);
	return error;
}

static int nvmaint_attach(struct nvmaint_file *file,
			  const struct nvmaint_attach *attach)
{
	struct block_device *bdev;
	struct fd fd;
	int error;

	if (attach->flags || attach->reserved ||
	    memchr_inv(attach->path + strnlen(attach->path,
					      sizeof(attach->path)),
		       0, sizeof(attach->path) -
				  strnlen(attach->path, sizeof(attach->path))))
		return -EINVAL;
	if (strnlen(attach->path, sizeof(attach->path)) ==
	    sizeof(attach->path))
		return -EINVAL;
	if (file->disk)
		return -EBUSY;
	fd = fdget(attach->disk_fd);
	if (!nvmaint_fd_file(fd))
		return -EBADF;
	error = -EBADF;
	if (!(nvmaint_fd_file(fd)->f_mode & FMODE_READ))
		goto put;
	bdev = nvmaint_bdev(nvmaint_fd_file(fd));
	error = -ENOTBLK;
	if (!bdev)
		goto put;
	error = -EINVAL;
	if (nvmaint_is_partition(bdev))
		goto put;
	file->threshold_ns = attach->flush_threshold_ns;
	if (attach->path[0])
		error = nvmaint_attach_path(file, bdev, attach->path);
	else
		error = nvmaint_join(file, bdev_get_queue(bdev),
				     bdev->bd_disk);
put:
	fdput(fd);
	return error;
}

static int nvmaint_set_threshold(struct nvmaint_file *file,
				 const struct nvmaint_threshold *threshold)
{
	if (threshold->reserved)
		return -EINVAL;
	if (!file->disk)
		return -ENOTCONN;
	mutex_lock(&nvmaint_lock);
	file->threshold_ns = threshold->flush_threshold_ns;
	nvmaint_disk_threshold(file->disk);
	mutex_unlock(&nvmaint_lock);
	return 0;
}

/* A struct that says its own size; what we don't know of it must be zero. */
static int nvmaint_copy(void *to, size_t size, size_t least,
			const void __user *from)
{
	u32 theirs;

	if (get_user(theirs, (const u32 __user *)from))
		return -EFAULT;
	if (theirs < least)
		return -EINVAL;
	if (theirs > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(to, size, from, theirs);
}

static long nvmaint_ioctl(struct file *filp, unsigned int command,
			  unsigned long argument)
{
	struct nvmaint_file *file = filp->private_data;
	const void __user *from = (const void __user *)argument;
	union {
		struct nvmaint_attach attach;
		struct nvmaint_threshold threshold;
	} u;
	long error;

	mutex_lock(&file->lock);
	switch (command) {
	case NVMAINT_IOC_ATTACH:
		error = nvmaint_copy(&u.attach, sizeof(u.attach),
				     sizeof(u.attach), from);
		if (!error)
			error = nvmaint_attach(file, &u.attach);
		break;
	case NVMAINT_IOC_THRESHOLD:
		error = nvmaint_copy(&u.threshold, sizeof(u.threshold),
				     sizeof(u.threshold), from);
		if (!error)
			error = nvmaint_set_threshold(file, &u.threshold);
		break;
	default:
		error = -ENOTTY;
	}
	mutex_unlock(&file->lock);
	return error;
}

/*
 * At offset 0 a new snapshot is taken; further on, and in the file's own
 * position, the one taken last is read to its end.
 */
static ssize_t nvmaint_read(struct file *filp, char __user *to, size_t length,
			    loff_t *position)
{
	struct nvmaint_file *file = filp->private_data;
	ssize_t done;

	mutex_lock(&file->lock);
	if (!file->disk) {
		done = -ENOTCONN;
		goto unlock;
	}
	if (!file->snapshot) {
		file->snapshot = kvzalloc(nvmaint_snapshot_size(), GFP_KERNEL);
		if (!file->snapshot) {
			done = -ENOMEM;
			goto unlock;
		}
	}
	if (*position == 0) {
		memset(file->snapshot, 0, nvmaint_snapshot_size());
		file->snapshot_size = nvmaint_snapshot_size();
		file->seen = nvmaint_snapshot_take(file->disk, file->snapshot);
	}
	done = simple_read_from_buffer(to, length, position, file->snapshot,
				       file->snapshot_size);
unlock:
	mutex_unlock(&file->lock);
	return done;
}

static __poll_t nvmaint_poll(struct file *filp, poll_table *table)
{
	struct nvmaint_file *file = filp->private_data;
	struct nvmaint_disk *disk = READ_ONCE(file->disk);
	__poll_t ready = 0;

	if (!disk)
		return EPOLLERR;
	poll_wait(filp, &disk->readers, table);
	if (READ_ONCE(disk->events) != READ_ONCE(file->seen))
		ready |= EPOLLIN | EPOLLRDNORM;
	if (blk_queue_dying(disk->queue))
		ready |= EPOLLHUP;
	return ready;
}

const struct file_operations nvmaint_fops = {
	.owner = THIS_MODULE,
	.open = nvmaint_open,
	.release = nvmaint_release,
	.unlocked_ioctl = nvmaint_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = default_llseek,
	.read = nvmaint_read,
	.poll = nvmaint_poll,
};
