// For tests of the portable directory on processors that this machine doesn't have. qemu runs one
// program; what that starts by execv() the kernel would run on the real processor. Preloaded into the
// emulated program, this puts qemu before each: $DIST_QEMU, with the processor $DIST_QEMU_CPU and the
// libraries of $DIST_QEMU_ROOT. Called between fork() and exec, so it allocates nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

enum { kArgumentsMax = 256 };

int execv(const char *path, char *const arguments[]) {
  const char *command[kArgumentsMax] = {getenv("DIST_QEMU"), "-cpu", getenv("DIST_QEMU_CPU"),
                                        "-L", getenv("DIST_QEMU_ROOT"), path};
  size_t count = 6;
  for (size_t i = 1; arguments[0] != NULL && arguments[i] != NULL; ++i) {
    if (count + 1 == kArgumentsMax) {
      errno = E2BIG;
      return -1;
    }
    command[count++] = arguments[i];
  }
  return execve(command[0], (char *const *)command, environ);
}
