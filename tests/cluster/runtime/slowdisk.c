/* A disk of one process that is as slow as a file says: put before the C library (LD_PRELOAD), every sync waits for the
   milliseconds that the first eight bytes of the file $SLOWDISK hold, and is then done as ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wait_ms;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("SLOWDISK");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file >= 0) {
        void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (at != MAP_FAILED)
            wait_ms = at;
        close(file);
    }
}

static void wait(void)
{
    int64_t ms = wait_ms ? *wait_ms : 0;
    if (ms > 0) {
        struct timespec pause = {ms / 1000, (ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
    }
}

int fsync(int file)
{
    static int (*real)(int);
    if (!real)
        real = dlsym(RTLD_NEXT, "fsync");
    wait();
    return real(file);
}

int fdatasync(int file)
{
    static int (*real)(int);
    if (!real)
        real = dlsym(RTLD_NEXT, "fdatasync");
    wait();
    return real(file);
}
