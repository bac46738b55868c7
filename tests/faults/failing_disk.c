/* What stands between a daemon and the file of its store: calls on data.mdb fail as the file $FAILING says.

   It holds one line, "WHAT ERRNO MOST", read at each call; without it all is well, and after MOST failures too. WHAT:
     write  nothing that is written gets there
     torn   half of it does
     sync   what was written is in memory, and the kernel does not say that it is on the disk
     meta   the page that makes a transaction count stays in memory, is not on the disk, and cannot be taken back
   What is in memory is never forgotten, as where the system still hopes to write it.
   Each failure adds a byte to $FAILING.count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { METAS = 8192 }; /* two pages at the beginning of the file */

static int is_store(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 9) return 0;
    path[length] = 0;
    return strcmp(path + length - 9, "/data.mdb") == 0;
}

/* The errno to fail with where `what` is to fail, else 0. */
static int fails(int fd, const char *what) {
    int before = errno, error = 0, most = 0;
    const char *control = getenv("FAILING");
    char line[64] = "", said[16] = "", count[4096];
    int file = control ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (read(file, line, sizeof line - 1) <= 0 || sscanf(line, "%15s %d %d", said, &error, &most) != 3 ||
            strcmp(said, what) != 0 || !is_store(fd))
            error = 0;
        close(file);
    }
    if (error) {
        struct stat there;
        snprintf(count, sizeof count, "%s.count", control);
        int counted = open(count, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (counted < 0 || fstat(counted, &there) != 0) _exit(99);
        if (there.st_size >= most) error = 0;
        else if (write(counted, "x", 1) != 1) _exit(99);
        close(counted);
    }
    errno = before;
    return error;
}

static ssize_t real_pwrite(int fd, const void *data, size_t size, off_t at) {
    static ssize_t (*call)(int, const void *, size_t, off_t);
    if (!call) call = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    return call(fd, data, size, at);
}

/* Through another descriptor, which does not wait for the disk. */
static void into_memory(int fd, const void *data, size_t size, off_t at) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int other = open(link, O_WRONLY | O_CLOEXEC);
    if (other < 0 || real_pwrite(other, data, size, at) != (ssize_t)size) _exit(98);
    close(other);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    int error;
    if ((error = fails(fd, "write"))) return errno = error, -1;
    if ((error = fails(fd, "torn"))) {
        real_pwrite(fd, data, size / 2, at);
        return errno = error, -1;
    }
    if (at < METAS && size < METAS / 2 && (error = fails(fd, "meta"))) {
        if (fcntl(fd, F_GETFL) & O_DSYNC) into_memory(fd, data, size, at);
        return errno = error, -1;
    }
    return real_pwrite(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*call)(int, const struct iovec *, int);
    if (!call) call = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    int error;
    if ((error = fails(fd, "write"))) return errno = error, -1;
    if ((error = fails(fd, "torn"))) {
        call(fd, parts, count / 2);
        return errno = error, -1;
    }
    return call(fd, parts, count);
}

#define SYNC(NAME)                                                             \
    int NAME(int fd) {                                                         \
        static int (*call)(int);                                               \
        if (!call) call = (int (*)(int))dlsym(RTLD_NEXT, #NAME);               \
        int error = fails(fd, "sync");                                         \
        return error ? (errno = error, -1) : call(fd);                         \
    }
SYNC(fsync)
SYNC(fdatasync)

int posix_fadvise64(int fd, off_t at, off_t size, int advice) {
    static int (*call)(int, off_t, off_t, int);
    if (!call) call = (int (*)(int, off_t, off_t, int))dlsym(RTLD_NEXT, "posix_fadvise64");
    return is_store(fd) ? 0 : call(fd, at, size, advice);
}

int posix_fadvise(int fd, off_t at, off_t size, int advice) { return posix_fadvise64(fd, at, size, advice); }
