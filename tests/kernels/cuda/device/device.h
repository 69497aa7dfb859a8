/* The kernel tests on a real device: memory that both sides see. */
#ifndef LAC_TESTS_CUDA_DEVICE_H
#define LAC_TESTS_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Opens device 0; false with a line on standard error. */
bool device_open(void);
void *device_room(size_t bytes);
void device_room_free(void *p);

#endif
