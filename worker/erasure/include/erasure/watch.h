/* Watches how uncertain a class becomes of its next token while it generates. A class that is lost
 * says so by its entropy: text it was certified on keeps it low, and it stays high once the class
 * has gone astray. Pure; one watch a sequence. */
#ifndef LAC_ERASURE_WATCH_H
#define LAC_ERASURE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LAC_WATCH_EVERY =
        8, /* output tokens from look to look: the distribution is read in full then */
    LAC_WATCH_LOOKS = 4, /* before it knows what is usual for this text */
    LAC_WATCH_HIGH = 2   /* high looks in a row are a spike: one is a new paragraph */
};
#define LAC_WATCH_RISE 3.0 /* nats above the mean of the text so far */

typedef struct {
    uint32_t looks, high; /* looks that were usual; high ones in a row */
    double mean;          /* entropy of the usual ones, nats */
} lac_watch;

/* Adds a look at a distribution of this entropy. True: a spike. What was uncertain from the start
 * is usual: whether a class suits a type at all is for its certificate and the shadow scores to
 * say. */
bool lac_watch_add(lac_watch *watch, double entropy);

/* Entropy in nats of softmax(logits). Logits that are not finite give NAN. */
double lac_watch_entropy(const float *logits, uint32_t count);

#endif
