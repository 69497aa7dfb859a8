/* The table of a ROUTER's peers. One entry a connection, found by id and by number, kept in order
 * of last word: uthash's first table holds its entries in insertion order, so an entry heard from
 * moves to the end and the quietest is the first. Knows no socket. One thread. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/assert.h"
#include "base/mem.h"
#include "peers.h"

typedef struct {
    lac__peer_id id;
    uint64_t number;
    UT_hash_handle by_id;
    UT_hash_handle by_number;
} peer_entry;

struct lac__peers {
    peer_entry *ids, *numbers;
    size_t max;
    uint64_t last_number;
    uint64_t *lost; /* a ring of numbers not yet told */
    size_t lost_size, lost_head, lost_count;
};

lac__peers *lac__peers_create(size_t max)
{
    lac__peers *peers = lac_alloc(1, sizeof *peers);
    peers->max = max;
    return peers;
}

static void forget(lac__peers *peers, peer_entry *entry)
{
    HASH_DELETE(by_id, peers->ids, entry);
    HASH_DELETE(by_number, peers->numbers, entry);
    free(entry);
}

void lac__peers_destroy(lac__peers **peers)
{
    if (!*peers)
        return;
    while ((*peers)->ids)
        forget(*peers, (*peers)->ids);
    free((*peers)->lost);
    free(*peers);
    *peers = NULL;
}

uint64_t lac__peers_number(lac__peers *peers, const void *id, size_t length)
{
    LAC_ASSERT(length >= 1 && length <= sizeof peers->ids->id.bytes);
    peer_entry *entry;
    HASH_FIND(by_id, peers->ids, id, length, entry);
    if (entry) {
        if (entry->by_id.next) {
            HASH_DELETE(by_id, peers->ids, entry);
            HASH_ADD_KEYPTR(by_id, peers->ids, entry->id.bytes, entry->id.length, entry);
        }
        return entry->number;
    }
    if (HASH_CNT(by_id, peers->ids) >= peers->max)
        lac__peers_lose(peers, peers->ids->number);
    entry = lac_alloc(1, sizeof *entry);
    entry->number = ++peers->last_number;
    entry->id.length = (uint8_t)length;
    memcpy(entry->id.bytes, id, length);
    HASH_ADD_KEYPTR(by_id, peers->ids, entry->id.bytes, length, entry);
    HASH_ADD(by_number, peers->numbers, number, sizeof entry->number, entry);
    return entry->number;
}

static peer_entry *find(const lac__peers *peers, uint64_t number)
{
    peer_entry *entry;
    HASH_FIND(by_number, peers->numbers, &number, sizeof number, entry);
    return entry;
}

const lac__peer_id *lac__peers_id(const lac__peers *peers, uint64_t number)
{
    const peer_entry *entry = find(peers, number);
    return entry ? &entry->id : NULL;
}

/* The queue grows with losses not yet told. The loop tells all of them each turn, and a turn makes
 * at most one a message it drains and one a send to a known peer. */
static void queue_lost(lac__peers *peers, uint64_t number)
{
    if (peers->lost_count == peers->lost_size) {
        size_t size = peers->lost_size ? 2 * peers->lost_size : 16;
        uint64_t *wider = lac_alloc(size, sizeof *wider);
        for (size_t i = 0; i < peers->lost_count; i++)
            wider[i] = peers->lost[(peers->lost_head + i) % peers->lost_size];
        free(peers->lost);
        peers->lost = wider;
        peers->lost_size = size;
        peers->lost_head = 0;
    }
    peers->lost[(peers->lost_head + peers->lost_count++) % peers->lost_size] = number;
}

void lac__peers_lose(lac__peers *peers, uint64_t number)
{
    peer_entry *entry = find(peers, number);
    if (!entry)
        return;
    forget(peers, entry);
    queue_lost(peers, number);
}

bool lac__peers_has_lost(const lac__peers *peers)
{
    return peers->lost_count != 0;
}

bool lac__peers_take_lost(lac__peers *peers, uint64_t *number)
{
    if (!peers->lost_count)
        return false;
    *number = peers->lost[peers->lost_head];
    peers->lost_head = (peers->lost_head + 1) % peers->lost_size;
    peers->lost_count--;
    return true;
}

size_t lac__peers_count(const lac__peers *peers)
{
    return HASH_CNT(by_id, peers->ids);
}
