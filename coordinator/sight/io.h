/* Events as bytes, both ways by the same functions, so that what is written can be read: each
 * `io_…` either copies its field out or fills it. Inside this folder only. */
#ifndef LAC__SIGHT_IO_H
#define LAC__SIGHT_IO_H

#include "core/core.h"
#include "sight/recorder.h"

typedef struct {
    bool reading, failed; /* failed: no room, or not enough bytes */
    uint8_t *at, *end;
    lac_arena *arena; /* reading: of lists and fillers */
} lac__io;

/* Scalars and fixed arrays. */
void lac__io_bytes(lac__io *io, void *field, size_t size);
/* The body of a message, without its texts and tokens. False for a type whose body is not kept: the
 * core's decisions do not depend on it, or nobody has taught it here. */
bool lac__io_message(lac__io *io, lac_msg *msg);
void lac__io_facts(lac__io *io, lac_prompt_facts *facts);
void lac__io_fleet(lac__io *io, const lac_fleet_entry **entries, size_t *count);

/* What a recording begins with. Texts are fixed arrays, so that it can be copied as it is. */
typedef struct {
    char policy[64], http_address[LAC_ENDPOINT_MAX + 1], prefix[LAC_NAME_MAX + 1];
    bool has_policy, has_address, has_prefix;
    lac_core_options options; /* its pointers are NULL */
} lac__kept_options;
void lac__options_keep(const lac_core_options *options, lac__kept_options *out);
void lac__options_use(lac__kept_options *kept);

/* ---- the block: one piece of memory that is a file as it is ---- */

enum { LAC__BLOCK_GUARDS = 65536 };

typedef struct {
    char magic[8];
    char version[16];
    uint64_t layout; /* of the structs in it: another build has another */
    uint64_t size;   /* of data */
    /* Positions count up for ever; modulo size they are places. Entries never wrap. */
    uint64_t head, tail;
    uint64_t numbers, kept; /* events since the start; in the block */
    uint64_t current;       /* position of the newest entry */
    lac__kept_options kept_options;
    uint32_t guards_length;
    char guards[LAC__BLOCK_GUARDS];
    _Alignas(8) uint8_t data[LAC_RECORDED_BYTES];
} lac__block;

enum { LAC__ENTRY_PAD = LAC_RECORDED_KINDS }; /* what fills the end of the block */

typedef struct {
    uint32_t size; /* with this head, a multiple of 8 */
    uint8_t kind;  /* a lac_recorded_kind, or LAC__ENTRY_PAD */
    uint8_t event_kind, plane;
    bool whole, finished;
    uint16_t type;
    uint64_t number, now_ms, peer, hash;
    int64_t wall_s;
    uint32_t lag_ms; /* of a drain: its deadline */
    uint32_t actions;
    uint32_t failures; /* after the body: struct lac_failure each */
    uint32_t body;     /* bytes */
} lac__entry;

uint64_t lac__block_layout(void);

#endif
