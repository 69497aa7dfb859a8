/* Reads labelled samples from standard input ("=== TYPE KIND BYTES\n" and the bytes, again and
 * again) and prints a line of features for each: type, kind, values. For make_tree.py. */
#include <stdio.h>
#include <stdlib.h>

#include "type.h"

int main(void)
{
    char type[32], kind[64];
    size_t length;
    int n;
    for (int f = 0; f < LAC__FEATURES; f++)
        printf("%s%s", f ? " " : "", lac__feature_name((lac__feature)f));
    printf("\n");
    while ((n = scanf(" === %31s %63s %zu", type, kind, &length)) == 3) {
        char *text = malloc(length + 1);
        if (!text || getchar() != '\n' || fread(text, 1, length, stdin) != length)
            return 1;
        lac__features features;
        lac__features_read(text, length, &features);
        printf("%s %s", type, kind);
        for (int f = 0; f < LAC__FEATURES; f++)
            printf(" %u", features.value[f]);
        printf("\n");
        free(text);
    }
    return n == EOF ? 0 : 1;
}
