/* Finding the texts of control and user-defined tokens: a trie, leftmost match, longest first.
 * Built once, read from any thread. Knows nothing of BPE. A search is linear: at each byte that can
 * start a special text the trie is followed, at most the length of a token (LAC_TOKEN_TEXT_MAX). */
#include <stdlib.h>

#include "base/mem.h"
#include "internal.h"

typedef struct {
    uint8_t byte;
    bool control;
    uint32_t id;             /* of the token that ends here, or LAC_TOKEN_NONE */
    uint32_t child, sibling; /* 0 = none: node 0 is the root */
} node;

struct lac__special {
    node *nodes;
    uint32_t count, size;
    uint32_t first[256]; /* the root's children by byte, 0 = none */
};

static uint32_t add_node(lac__special *special, uint8_t byte)
{
    if (special->count == special->size) {
        special->size = special->size ? 2 * special->size : 64;
        special->nodes = lac_realloc(special->nodes, special->size, sizeof *special->nodes);
    }
    special->nodes[special->count] = (node){.byte = byte, .id = LAC_TOKEN_NONE};
    return special->count++;
}

static uint32_t find_child(const lac__special *special, uint32_t parent, uint8_t byte)
{
    if (parent == 0)
        return special->first[byte];
    uint32_t at = special->nodes[parent].child;
    while (at != 0 && special->nodes[at].byte != byte)
        at = special->nodes[at].sibling;
    return at;
}

static void add_text(lac__special *special, const char *text, size_t length, uint32_t id,
                     bool control)
{
    uint32_t at = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        uint32_t next = find_child(special, at, byte);
        if (next == 0) {
            next = add_node(special, byte);
            if (at == 0) {
                special->first[byte] = next;
            } else {
                special->nodes[next].sibling = special->nodes[at].child;
                special->nodes[at].child = next;
            }
        }
        at = next;
    }
    if (at != 0 && special->nodes[at].id == LAC_TOKEN_NONE) {
        special->nodes[at].id = id;
        special->nodes[at].control = control;
    }
}

lac__special *lac__special_create(const lac__vocab *vocab)
{
    lac__special *special = lac_alloc(1, sizeof *special);
    add_node(special, 0);
    for (uint32_t id = 0; id < vocab->size; id++)
        if (vocab->types[id] == LAC__TOKEN_CONTROL || vocab->types[id] == LAC__TOKEN_USER)
            add_text(special, vocab->bytes + vocab->starts[id], lac__vocab_length(vocab, id), id,
                     vocab->types[id] == LAC__TOKEN_CONTROL);
    return special;
}

void lac__special_destroy(lac__special **special)
{
    if (!*special)
        return;
    free((*special)->nodes);
    free(*special);
    *special = NULL;
}

bool lac__special_find(const lac__special *special, const char *text, size_t length, size_t from,
                       bool control, size_t *start, size_t *match_length, uint32_t *id)
{
    for (size_t i = from; i < length; i++) {
        uint32_t at = special->first[(uint8_t)text[i]];
        size_t best = 0;
        for (size_t n = 1; at != 0; n++) {
            const node *here = &special->nodes[at];
            if (here->id != LAC_TOKEN_NONE && (control || !here->control)) {
                best = n;
                *id = here->id;
            }
            at = i + n < length ? find_child(special, at, (uint8_t)text[i + n]) : 0;
        }
        if (best > 0) {
            *start = i;
            *match_length = best;
            return true;
        }
    }
    return false;
}
