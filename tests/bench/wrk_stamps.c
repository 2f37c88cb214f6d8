// Loaded into wrk (LD_PRELOAD): when did the answers come that wrk read, as the kernel says?
//
// wrk counts until it reads an answer, loadgen until it came. This notes both for every request of wrk, from when it was
// written, and at the end writes to standard error one line of percentiles (p50 and p99, in milliseconds) of each:
//     stamps REQUESTS READ_P50 READ_P99 CAME_P50 CAME_P99 LAIN_P50 LAIN_P99
// One thread, one answer in one read, as the benchmark has it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_TIMESTAMPNS
#define SO_TIMESTAMPNS 35
#endif

enum { FILES = 4096, REQUESTS = 4000000 };

static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_write)(int, const void *, size_t);
static double sent_s[FILES];
static char stamped[FILES];
static float *read_ms, *came_ms, *lain_ms;
static long count;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

__attribute__((constructor)) static void begin(void) {
    real_read = dlsym(RTLD_NEXT, "read");
    real_write = dlsym(RTLD_NEXT, "write");
    read_ms = malloc(REQUESTS * sizeof(float));
    came_ms = malloc(REQUESTS * sizeof(float));
    lain_ms = malloc(REQUESTS * sizeof(float));
}

ssize_t write(int file, const void *data, size_t size) {
    if (file > 2 && file < FILES && size > 4 && !memcmp(data, "GET ", 4)) {
        if (!stamped[file]) {
            int yes = 1;
            stamped[file] = !setsockopt(file, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes);
        }
        sent_s[file] = now_s();
    }
    return real_write(file, data, size);
}

ssize_t read(int file, void *data, size_t size) {
    if (file < 0 || file >= FILES || !stamped[file]) return real_read(file, data, size);
    char room[64];
    struct iovec part = {data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t found = recvmsg(file, &message, 0);
    struct cmsghdr *stamp = found > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (stamp && count < REQUESTS) {
        struct timespec came;
        memcpy(&came, CMSG_DATA(stamp), sizeof came);
        double came_s = came.tv_sec + came.tv_nsec * 1e-9, read_s = now_s();
        read_ms[count] = (read_s - sent_s[file]) * 1e3;
        came_ms[count] = (came_s - sent_s[file]) * 1e3;
        lain_ms[count++] = (read_s - came_s) * 1e3;
    }
    return found;
}

static int by_size(const void *a, const void *b) {
    float one = *(const float *)a, other = *(const float *)b;
    return (one > other) - (one < other);
}

static void tell(float *values) {
    qsort(values, count, sizeof *values, by_size);
    fprintf(stderr, " %.4f %.4f", values[count / 2], values[count * 99 / 100]);
}

__attribute__((destructor)) static void end(void) {
    if (!count) return;
    fprintf(stderr, "stamps %ld", count);
    tell(read_ms);
    tell(came_ms);
    tell(lain_ms);
    fprintf(stderr, "\n");
}
