/* A CUDA driver whose device is the emulator, so that the whole backend runs without a GPU: memory,
 * modules, streams, events, graphs with nodes switched on and off. */
#ifndef LAC_TESTS_CUDA_FAKE_DRIVER_H
#define LAC_TESTS_CUDA_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

typedef struct {
    uint32_t calls;    /* of all kinds, since the start */
    uint32_t fail_at;  /* the call with this number fails; 0 = none */
    uint32_t alive;    /* things made and not given back */
    uint32_t launches; /* kernels run one by one */
    uint32_t graphs;   /* graph launches */
    uint32_t nodes;    /* kernels run by graphs */
    uint32_t waits;    /* events found not ready: each is so once */
    uint64_t seed;     /* of the next kernel's order */
    char error[400];   /* of the last kernel that failed */
} fake_device;

extern fake_device fake;

/* Puts it in the driver's place. */
void fake_driver_use(void);

#endif
