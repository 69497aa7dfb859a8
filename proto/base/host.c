/* The boot id, as Linux gives it. */
#include "base/host.h"

#include <fcntl.h>
#include <unistd.h>

bool lac_boot_id(char out[LAC_BOOT_ID + 1])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, out, LAC_BOOT_ID);
    close(fd);
    out[got == LAC_BOOT_ID ? LAC_BOOT_ID : 0] = '\0';
    return got == LAC_BOOT_ID;
}
