// SPDX-License-Identifier: GPL-2.0-only
/*
 * nvmaint: histograms of flush, write, read and discard times, by disk.
 *
 * Loaded it does nothing but offer /dev/nvmaint. The probes are in the
 * kernel only while a disk is attached.
 */
#include <linux/miscdevice.h>
#include <linux/module.h>

#include "disk.h"

static struct miscdevice nvmaint_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "nvmaint",
	.fops = &nvmaint_fops,
	.mode = 0600,
};

static int __init nvmaint_init(void)
{
	int error;

	error = nvmaint_probes_find();
	if (error)
		return error;
	return misc_register(&nvmaint_device);
}

/* No file is open: it would hold the module. */
static void __exit nvmaint_exit(void)
{
	misc_deregister(&nvmaint_device);
}

module_init(nvmaint_init);
module_exit(nvmaint_exit);

MODULE_DESCRIPTION("Latency histograms of flush, write, read and discard");
MODULE_AUTHOR("nvmaint");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
