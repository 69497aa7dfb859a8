/* One message of every type with every field set to a value of its own, and a text of every field,
 * so that tests can ask whether anything was lost on the way. Static storage, one thread. */
#ifndef TEST_WIRE_SAMPLES_H
#define TEST_WIRE_SAMPLES_H

#include "base/mem.h"
#include "base/msg.h"

/* Those before SAMPLES_1_0 came with version 1.0, those before SAMPLES_1_1 with 1.1, and so on. */
enum { SAMPLES_1_0 = 25, SAMPLES_1_1 = 28, SAMPLES_1_2 = 48, SAMPLES_1_3 = 65, SAMPLES = SAMPLES_1_3 };
/* The sample's file name in the corpus, without its ending. */
const char *sample_name(int index);
/* Fills *out; what it points to is static and shared by later calls of the same index. */
void sample_make(int index, lac_msg *out);

/* Appends every field of the body as "name=value" lines. */
void msg_dump(const lac_msg *msg, lac_buf *out);

/* samples_jobs.c */
void sample_job_submit(lac_msg *m);
void sample_job_query(lac_msg *m);
void sample_job_cancel(lac_msg *m);
void sample_job_reply(lac_msg *m);
void dump_jobs(const lac_msg *msg, lac_buf *out);

#endif
