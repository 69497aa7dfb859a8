/* Requests that kill: which contents may not come in (quarantine) and which may not move on (fleet
 * guard). Knows contents only by a seeded hash; bounded tables, the oldest entry goes. Loop thread.
 *
 * A content that finished well since is not the cause of the deaths it was near, so popular prompts
 * on unlucky groups are not taken for poison. */
#include "state.h"

#include <string.h>

uint64_t lac__poison_content(const lac_core *core, const lac_submit *submit)
{
    const lac_prompt *p = &submit->prompt;
    uint64_t hash = lac__hash_bytes(core->hash_seed, submit->model, strlen(submit->model));
    hash = lac__hash_bytes(hash, p->text.data, p->text.length);
    hash = lac__hash_bytes(hash, p->ids, p->ids_count * sizeof *p->ids);
    hash = lac__hash_bytes(hash, p->suffix.data, p->suffix.length);
    hash = lac__hash_bytes(hash, p->tools.data, p->tools.length);
    hash = lac__hash_mix(hash, (uint64_t)p->want);
    for (uint32_t i = 0; i < p->messages_count; i++) {
        const lac_chat_message *m = &p->messages[i];
        hash = lac__hash_bytes(hash, m->role, strlen(m->role));
        hash = lac__hash_bytes(hash, m->content.data, m->content.length);
        hash = lac__hash_bytes(hash, m->calls.data, m->calls.length);
    }
    return hash;
}

/* ---- quarantine ---- */

uint32_t lac__poison_quarantined_ms(const lac_core *core, uint64_t content)
{
    const lac__poison *p = &core->poison;
    for (size_t i = 0; i < p->quarantine_count; i++)
        if (p->quarantine[i].content == content && p->quarantine[i].until_ms > core->now_ms)
            return (uint32_t)(p->quarantine[i].until_ms - core->now_ms);
    return 0;
}

size_t lac__poison_quarantine_size(const lac_core *core)
{
    size_t size = 0;
    for (size_t i = 0; i < core->poison.quarantine_count; i++)
        size += core->poison.quarantine[i].until_ms > core->now_ms;
    return size;
}

void lac__poison_quarantine(lac_core *core, uint64_t content)
{
    lac__poison *p = &core->poison;
    size_t slot = 0;
    while (slot < p->quarantine_count && p->quarantine[slot].content != content)
        slot++;
    if (slot == p->quarantine_count && p->quarantine_count < LAC_QUARANTINE_MAX) {
        p->quarantine_count++;
    } else if (slot == p->quarantine_count) {
        slot = 0;
        for (size_t i = 1; i < p->quarantine_count; i++)
            if (p->quarantine[i].until_ms < p->quarantine[slot].until_ms)
                slot = i;
    }
    p->quarantine[slot].content = content;
    p->quarantine[slot].until_ms = core->now_ms + LAC_QUARANTINE_MS;
    lac__note(core, LAC_LOG_WARN, "content %016llx: in quarantine for %d s",
              (unsigned long long)content, LAC_QUARANTINE_MS / 1000);
}

/* ---- the fleet guard ---- */

static lac__suspicion *find(lac__poison *p, uint64_t content)
{
    for (size_t i = 0; i < p->suspicions_count; i++)
        if (p->suspicions[i].content == content)
            return &p->suspicions[i];
    return NULL;
}

static uint64_t newest(const lac__suspicion *s)
{
    return s->deaths[(s->next + LAC_GUARD_DEATHS - 1) % LAC_GUARD_DEATHS].ms;
}

static lac__suspicion *make(lac__poison *p, uint64_t content)
{
    lac__suspicion *s = &p->suspicions[0];
    if (p->suspicions_count < LAC_QUARANTINE_MAX) {
        s = &p->suspicions[p->suspicions_count++];
    } else {
        for (size_t i = 1; i < p->suspicions_count; i++)
            if (newest(&p->suspicions[i]) < newest(s))
                s = &p->suspicions[i];
    }
    *s = (lac__suspicion){.content = content};
    return s;
}

void lac__poison_death(lac_core *core, uint64_t content, uint64_t group)
{
    lac__suspicion *s = find(&core->poison, content);
    if (!s)
        s = make(&core->poison, content);
    for (size_t i = 0; i < LAC_GUARD_DEATHS; i++)
        if (s->deaths[i].group == group)
            return; /* the same death, of two requests with this content */
    s->deaths[s->next].group = group;
    s->deaths[s->next].ms = core->now_ms;
    s->next = (s->next + 1) % LAC_GUARD_DEATHS;
}

bool lac__poison_guarded(lac_core *core, uint64_t content)
{
    const lac__suspicion *s = find(&core->poison, content);
    for (size_t i = 0; s && i < LAC_GUARD_DEATHS; i++)
        if (!s->deaths[i].group || core->now_ms - s->deaths[i].ms > LAC_GUARD_MS)
            return false;
    return s != NULL;
}

void lac__poison_finished(lac_core *core, uint64_t content)
{
    lac__poison *p = &core->poison;
    lac__suspicion *s = find(p, content);
    if (s)
        *s = p->suspicions[--p->suspicions_count];
}
