// SPDX-License-Identifier: Apache-2.0
// io DISK COUNT: that many reads, writes and flushes of a block device, one at a time, without the page cache. Prints the mean
// time of each in nanoseconds: "read N write N flush N". A flush is a write and an fdatasync, of which the write's mean is taken off.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	const int fd = argc == 3 ? open(argv[1], O_RDWR | O_DIRECT | O_EXCL) : -1;
	const long count = argc == 3 ? atol(argv[2]) : 0;
	void *buffer = NULL;
	if (fd < 0 || count < 1 || posix_memalign(&buffer, 4096, 4096) != 0) {
		perror("io DISK COUNT");
		return 1;
	}
	long long times[4] = {now()};
	for (int kind = 0; kind < 3; kind++) {
		for (long i = 0; i < count; i++) {
			const off_t at = i % 1024 * 4096;
			const ssize_t done = kind == 0 ? pread(fd, buffer, 4096, at) : pwrite(fd, buffer, 4096, at);
			if (done != 4096 || (kind == 2 && fdatasync(fd) != 0)) {
				perror(argv[1]);
				return 1;
			}
		}
		times[kind + 1] = now();
	}
	const long long write = (times[2] - times[1]) / count;
	printf("read %lld write %lld flush %lld\n", (times[1] - times[0]) / count, write, (times[3] - times[2]) / count - write);
	return 0;
}
