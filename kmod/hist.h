/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The histogram: 16 buckets an octave from 2^10 ns (1.024 us) to 2^36 ns
 * (68.7 s), one below and one above.
 *
 *   ns = 2 000 000 (2 ms): exponent 20, the four bits below the leading one
 *   are 1110: bucket 1 + (20 - 10) * 16 + 14 = 175, which holds 1 966 080 to
 *   2 031 615 ns. Its middle is at most 1 / 32 of a value away: 3.2 %.
 */
#ifndef NVMAINT_HIST_H
#define NVMAINT_HIST_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/types.h>
#endif

#define NVMAINT_SUB_BITS	4
#define NVMAINT_MIN_EXPONENT	10
#define NVMAINT_MAX_EXPONENT	36
#define NVMAINT_BUCKETS \
	(((NVMAINT_MAX_EXPONENT - NVMAINT_MIN_EXPONENT) << NVMAINT_SUB_BITS) + 2)

static inline unsigned int nvmaint_bucket(u64 ns)
{
	unsigned int exponent;

	if (ns < (1ULL << NVMAINT_MIN_EXPONENT))
		return 0;
	if (ns >= (1ULL << NVMAINT_MAX_EXPONENT))
		return NVMAINT_BUCKETS - 1;
	exponent = fls64(ns) - 1;
	return 1 + ((exponent - NVMAINT_MIN_EXPONENT) << NVMAINT_SUB_BITS) +
	       ((ns >> (exponent - NVMAINT_SUB_BITS)) &
		((1U << NVMAINT_SUB_BITS) - 1));
}

#endif
