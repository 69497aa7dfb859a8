/* The check of the house: which folders there are, which may include which, and behind which door
 * each third party stays. The compiler refuses most wrong arrows already, since a target sees only
 * what it links; this check sees the rest and says why. */
#ifndef LAC_TESTS_HOUSE_H
#define LAC_TESTS_HOUSE_H

#include <stddef.h>
#include <stdio.h>

/* Checks the tree under `root`; writes one line an offence, "file:line: what and why", and returns
 * how many there are. `required`: names of the top level that are missing count too. */
int house_check(const char *root, int required, FILE *out);

/* A folder with code of its own, and what it may include besides itself and proto/base. */
typedef struct {
    const char *folder;
    const char *may_use; /* folders separated by blanks; "name/" means all below */
} house_arrow;
extern const house_arrow house_arrows[];
extern const size_t house_arrows_count;

/* A third party's headers (by the beginning of the name) and the places that may include them. */
typedef struct {
    const char *header;
    const char *doors; /* beginnings of paths, separated by blanks */
} house_door;
extern const house_door house_doors[];
extern const size_t house_doors_count;

/* The same for headers that the build makes, by the end of their names. */
extern const house_door house_generated[];
extern const size_t house_generated_count;

extern const char house_top[];       /* must be there */
extern const char house_top_extra[]; /* may be there */

#endif
