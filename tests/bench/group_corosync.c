/* A member of a closed process group of corosync, for `./dev bench group`.
 *
 * group_corosync NODEID               joins and receives until it is killed
 * group_corosync NODEID OUTSTANDING SECONDS   joins, waits for three members, keeps so many messages of 150 bytes under
 *                                     way (agreed order), and prints figures as JSON
 */
#include <corosync/cpg.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

enum { BODY = 150, MEMBERS = 3, RING = 1 << 16, WAITS_MAX = 1 << 23 };

static unsigned own, outstanding, under_way;
static size_t members, count;
static double sent_at[RING], stop_at, *waits;
static unsigned long posted, delivered;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid, void *body, size_t len) {
    (void)handle, (void)group, (void)pid, (void)body, (void)len;
    if (node != own)
        return;
    if (count < WAITS_MAX)
        waits[count++] = now() - sent_at[delivered % RING];
    delivered++;
    under_way--;
}

static void changed(cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *list, size_t entries,
                    const struct cpg_address *left, size_t left_n, const struct cpg_address *joined, size_t joined_n) {
    (void)handle, (void)group, (void)list, (void)left, (void)left_n, (void)joined, (void)joined_n;
    members = entries;
}

static int lower(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv) {
    cpg_handle_t handle;
    cpg_callbacks_t callbacks = {deliver, changed};
    struct cpg_name group = {5, "bench"};
    static char body[BODY];
    struct iovec piece = {body, BODY};
    int fd;
    if (argc != 2 && argc != 4)
        return 2;
    own = (unsigned)atoi(argv[1]);
    outstanding = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
    waits = malloc(sizeof(double) * WAITS_MAX);
    if (waits == NULL || cpg_initialize(&handle, &callbacks) != CS_OK || cpg_join(handle, &group) != CS_OK ||
        cpg_fd_get(handle, &fd) != CS_OK) {
        fprintf(stderr, "cannot join the group: is corosync running here?\n");
        return 1;
    }
    struct pollfd ready = {fd, POLLIN, 0};
    while (outstanding == 0 || members < MEMBERS) {
        poll(&ready, 1, 100);
        if (cpg_dispatch(handle, CS_DISPATCH_ALL) != CS_OK)
            return 1;
    }
    double began = now(), used = cpu();
    stop_at = began + atof(argv[3]);
    while (now() < stop_at || under_way) {
        while (under_way < outstanding && now() < stop_at) {
            sent_at[posted % RING] = now();
            if (cpg_mcast_joined(handle, CPG_TYPE_AGREED, &piece, 1) != CS_OK)
                break; /* it takes no more at the moment */
            posted++;
            under_way++;
        }
        poll(&ready, 1, 1);
        if (cpg_dispatch(handle, CS_DISPATCH_ALL) != CS_OK)
            return 1;
    }
    double lasted = now() - began;
    qsort(waits, count, sizeof(double), lower);
    printf("{\"count\": %zu, \"per_s\": %f, \"p50_us\": %f, \"p99_us\": %f, \"max_us\": %f, \"cpu_us\": %f}\n", count,
           (double)count / lasted, 1e6 * waits[count / 2], 1e6 * waits[count * 99 / 100], 1e6 * waits[count - 1],
           1e6 * (cpu() - used) / (double)count);
    return 0;
}
