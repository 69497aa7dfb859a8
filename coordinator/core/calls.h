/* The calls between the files of the core, by the file that owns them. Included by state.h, which
 * has the records. */
#ifndef LAC_CORE_CALLS_H
#define LAC_CORE_CALLS_H

#include "state.h"

/* ---- core.c ---- */

void lac__note(const lac_core *core, lac_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Hands one message out; fills epoch and type. `session` 0 on the client side. */
lac_status lac__send(lac_core *core, lac_plane plane, uint64_t peer, uint64_t session,
                     uint16_t type, lac_msg *msg);
void lac__copy_text(char *to, size_t size, const char *from);

/* ---- registry.c ---- */

void lac__registry_hello(lac_core *core, uint64_t peer, const lac_hello *hello);
/* The rank behind a frame, its lease renewed; NULL (and an answer sent) when the session is not the
 * current one or its group is dead. */
lac__rank *lac__registry_rank(lac_core *core, uint64_t peer, const lac_envelope *envelope);
void lac__registry_heartbeat(lac_core *core, lac__rank *rank, const lac_heartbeat *beat);
void lac__registry_lost(lac_core *core, uint64_t peer);
void lac__registry_tick(lac_core *core);
/* Moves along the life cycle table and runs the new state's action. */
void lac__group_step(lac_core *core, lac__group *group, lac__group_event event, const char *why);
/* Deals with groups marked lost during this step. */
void lac__registry_settle(lac_core *core);
bool lac__group_living(const lac__group *group);
const char *lac__group_state_name(lac__group_state state);
lac__group *lac__registry_find(const lac_core *core, const char *id);
/* NULL when no group that serves just that name ever came. */
lac__model *lac__registry_model(const lac_core *core, const char *name);
/* Sends in the rank's session; a rank that is gone marks itself and its group lost. */
lac_status lac__rank_send(lac_core *core, lac__rank *rank, uint16_t type, lac_msg *msg);
/* To the leader. */
lac_status lac__group_send(lac_core *core, lac__group *group, uint16_t type, lac_msg *msg);
void lac__registry_free(lac_core *core);

/* ---- models.c ---- */

/* The model that a client's name means; "" is the default. NULL while nobody ever served it. */
lac__model *lac__models_named(lac_core *core, const char *asked);
/* The name of that model, be it there or not: `asked`, or one of the core's. */
const char *lac__models_target(const lac_core *core, const char *asked);
/* Names that are served, for people. */
void lac__models_list(const lac_core *core, lac_buf *out);
/* Its fingerprint is known: sets the model it is for. */
void lac__models_choose(lac_core *core, lac__request *request);

/* ---- feedback.c ---- */

/* Its client goes away before its end. */
void lac__feedback_left(lac_core *core, const lac__request *request);
void lac__feedback_message(lac_core *core, lac_plane plane, uint64_t peer, const lac_msg *msg);

/* ---- forming.c ---- */

/* The Hello of a rank that started over where the others count on what it had: why, for people. */
bool lac__forming_breaks(const lac__group *group, const lac_hello *hello, char *why, size_t size);
/* The same shape, model and plan as the rank that made the record; otherwise why not. */
bool lac__forming_agrees(const lac__group *group, const lac_hello *hello, char *why, size_t size);
/* Fills a new rank's record. */
void lac__forming_take(lac__rank *rank, const lac_hello *hello);
/* After a Hello was taken: passes the barriers that it completes. */
void lac__forming_step(lac_core *core, lac__group *group, const char *why);
void lac__forming_enter(lac_core *core, lac__group *group, const char *why);
/* Of a group that is PROVISIONING or FORMING. */
void lac__forming_tick(lac_core *core, lac__group *group);
/* Every rank is connected. */
bool lac__group_whole(const lac__group *group);

/* ---- requests.c ---- */

/* Copies prompt and sampling. NULL when memory for them is not there. Without a tenant: only to be
 * refused. */
lac__request *lac__record_create(lac_core *core, const lac__stream_key *key,
                                 const lac_submit *submit, lac__tenant *tenant);
/* About how many tokens a prompt has. */
uint64_t lac__record_tokens(const lac_prompt *prompt);
/* Takes it out of whatever list it is in and frees it with all its memory. */
void lac__record_free(lac_core *core, lac__request *request);
/* Memory it holds besides its record, kept within options.bytes_max by those who refuse. */
void lac__record_charge(lac_core *core, lac__request *request, int64_t bytes);
bool lac__record_memory_left(const lac_core *core, uint64_t bytes);
/* The only ways between the lists. */
void lac__record_to_queue(lac_core *core, lac__request *request);
void lac__record_to_group(lac_core *core, lac__request *request, lac__group *group);
void lac__record_to_done(lac_core *core, lac__request *request);
bool lac__record_before(const lac__request *a, const lac__request *b);
lac__request *lac__record_by_id(const lac_core *core, uint64_t id);
lac__request *lac__record_by_stream(const lac_core *core, const lac__stream_key *key);
/* Appends accepted tokens; false when the memory budget is spent. */
bool lac__record_accept(lac_core *core, lac__request *request, const uint32_t *tokens,
                        uint32_t count);
/* Sets its end (DONE or REFUSED), tells the group to stop if it runs, and delivers. Frees it when
 * its client has everything: the pointer is dead afterwards. */
void lac__record_finish(lac_core *core, lac__request *request, lac_finish finish);
void lac__record_refuse(lac_core *core, lac__request *request, lac__outcome outcome,
                        lac_status status, uint32_t retry_after_ms, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Counts and notes that a stream's client will never hear of its end: only when its queue stays
 * full for longer than its connection can last. */
void lac__stream_given_up(lac_core *core, const lac__stream_key *key, const char *why);
/* The client is gone or said stop: the group hears it at once, the record goes. */
void lac__record_abandon(lac_core *core, lac__request *request);
/* Deadlines, waiting for nobody, slow clients. */
void lac__records_tick(lac_core *core);
void lac__records_settle(lac_core *core);
void lac__records_free(lac_core *core);

/* ---- batch.c ---- */

/* A batch item stands behind all other requests: that much later than it came. */
#define LAC__BATCH_BEHIND_MS (INT64_C(1) << 40)
static inline bool lac__is_batch(const lac__stream_key *key)
{
    return key->plane == LAC_PLANE_BATCH;
}
void lac__batch_queued(lac_core *core, const lac__request *request, int change);
void lac__batch_running(lac_core *core, const lac__request *request, int change);
/* What queue and memory keep free for others. */
lac_status lac__batch_admit(const lac_core *core, uint64_t tokens);

/* ---- admission.c ---- */

/* False, and why, when the request is not let in; `tenant` may be NULL. */
bool lac__admitted(lac_core *core, const lac__stream_key *key, lac__tenant *tenant,
                   const lac_submit *submit, lac__refusal *out);

/* ---- queue.c ---- */

/* Room for one more? LAC_OK or LAC_BUSY. */
lac_status lac__queue_admit(const lac_core *core, const lac__stream_key *key, uint64_t tokens);
int64_t lac__queue_order_ms(const lac_core *core, int32_t priority);
/* How long a newcomer of that tenant and priority would wait, by the ends of the last 10 s; 0 = not
 * at all, or nobody knows. */
uint64_t lac__queue_wait_ms(const lac_core *core, const lac__tenant *tenant, int32_t priority);
uint32_t lac__queue_retry_ms(const lac_core *core);
/* Dispatches what can be dispatched, by turns and age. */
void lac__queue_pump(lac_core *core);
/* May it be dispatched just now, if there is a group for it? Ends it when its time is over: false,
 * and the record is gone. */
bool lac__queue_ready(lac_core *core, lac__request *request);
/* True when a group has it now. Else it waits on, or was refused and is gone. */
bool lac__queue_place(lac_core *core, lac__request *request);

/* ---- tenant.c ---- */

/* The tenant of that name (NULL or "": those without one), made when it is new; NULL when
 * LAC_TENANTS_MAX are busy. */
lac__tenant *lac__tenant_find(lac_core *core, const char *name);
/* True, and why, when its rules or quotas do not allow that request now. */
bool lac__tenant_refuses(lac_core *core, lac__tenant *tenant, const lac_submit *submit,
                         lac__refusal *out);
bool lac__tenant_may_use(const lac__tenant *tenant, const char *model);
int32_t lac__tenant_priority(const lac__tenant *tenant, const lac_submit *submit);
lac__tiers lac__tenant_tiers(const lac_core *core, const lac__request *request);
/* What hashes of its prompts begin with: its own, by model and tenant. */
uint64_t lac__tenant_prefix_seed(const lac_core *core, const lac__request *request);
lac_quota lac__tenant_quota(const lac_core *core, lac__tenant *tenant);
/* A request of it was let in; has ended. */
void lac__tenant_admitted(lac_core *core, lac__request *request);
void lac__tenant_ended(lac_core *core, const lac__request *request);
void lac__tenants_audit(const lac_core *core);
void lac__tenants_free(lac_core *core);

/* ---- brownout.c ---- */

void lac__brownout_tick(lac_core *core);
/* While it lasts: a request runs at that ratio of its usual cost. */
void lac__brownout_decided(lac__model *model, double ratio);

/* ---- fair.c ---- */

/* Into and out of its tenant's queue. */
void lac__fair_add(lac_core *core, lac__request *request);
void lac__fair_remove(lac_core *core, lac__request *request);
/* Its work is known now. */
void lac__fair_ended(const lac__request *request);
/* Gives groups what may go; `background`: what is of low priority and still young. */
void lac__fair_pass(lac_core *core, bool background);
/* How many requests go before a newcomer with that place in its tenant's queue, about. */
uint64_t lac__fair_ahead(const lac_core *core, const lac__tenant *tenant, int64_t order_ms);
void lac__fair_audit(const lac_core *core, const lac__tenant *tenant);

/* ---- bucket.c ---- */

/* What was used of another limit stays used. */
void lac__bucket_limit(lac__bucket *bucket, uint64_t limit, uint64_t now_ms);
/* Until so much is there; 0 = it is, or nothing is limited. */
uint32_t lac__bucket_wait_ms(lac__bucket *bucket, uint64_t amount, uint64_t now_ms);
/* Below 0 it is owed; a negative amount is given back. */
void lac__bucket_take(lac__bucket *bucket, int64_t amount, uint64_t now_ms);
/* Whole ones; `reset_ms`: until it is full. */
uint64_t lac__bucket_left(lac__bucket *bucket, uint64_t now_ms, uint32_t *reset_ms);

/* ---- router.c ---- */

const lac__policy *lac__policy_find(const char *name);
/* A READY group of its model with room in its window for that request, and why; or NULL. With
 * `holders`: of those that hold its class. */
lac__group *lac__router_pick(lac_core *core, const lac__request *request, bool holders,
                             lac__choice *choice);
/* The request's prompt is the group's to prefill: from dispatch until its first token. */
void lac__router_charge(lac_core *core, lac__request *request, lac__group *group);
void lac__router_discharge(lac__request *request);
/* A request ended by itself with so many tokens. */
void lac__router_learn(lac_core *core, uint32_t tokens);
uint32_t lac__router_window(const lac__group *group);
/* Corrects the local account of a group by its report. */
void lac__router_reconcile(lac__group *group, const lac_heartbeat *beat);

/* ---- prefix.c, cost.c ---- */

void lac__prefix_take(uint64_t seed, const lac_prompt *prompt, lac__prefix *out);
/* The same chain for something that keeps its own cache: equal beginnings stay equal. */
void lac__prefix_salt(const lac__prefix *chain, uint64_t salt, lac__prefix *out);
void lac__prefix_remember(lac__prefix_table *table, const lac__prefix *prefix, uint64_t now_ms);
/* How many leading blocks the table has had within LAC_PREFIX_MS. */
uint32_t lac__prefix_hit(const lac__prefix_table *table, const lac__prefix *prefix,
                         uint64_t now_ms);
/* 0 without a block; the group (by a hash of its name) with the highest is the prefix's home. */
uint64_t lac__prefix_weight(const lac__prefix *prefix, uint64_t group);
lac__cost lac__cost_of(const lac_core *core, const lac__request *request, const lac__group *group,
                       const lac__prices *usual, bool home);

/* ---- recovery.c ---- */

/* Takes a running request off its group and queues it again, or ends it when it moved or crashed
 * too often. */
void lac__recovery_move(lac_core *core, lac__request *request, lac__blame how, const char *why);
void lac__recovery_move_all(lac_core *core, lac__group *group, lac__blame how, const char *why);
/* It is known now whether the group of that record died when its connection went. */
void lac__recovery_resolve(lac_core *core, const lac__group *group, bool died, const char *why);
/* It was on a group that died (or may have) and has not got beyond that position since. */
bool lac__recovery_suspect(const lac__request *request);
bool lac__recovery_has_suspect(const lac__group *group);
/* For a request about to be dispatched. */
lac__hold lac__recovery_hold(lac_core *core, lac__request *request);
/* A rank said Hello again: keeps what both sides agree on, moves what it lost, stops what it should
 * not run. */
void lac__recovery_resume(lac_core *core, lac__group *group, const lac_hello *hello);

/* ---- verdict.c ---- */

/* Before a report replaces the last one: what its steps took. */
void lac__verdict_measure(const lac_core *core, lac__rank *rank, const lac_heartbeat *beat);
void lac__verdict_pace(lac_core *core, lac__group *group, const lac_heartbeat *beat);
/* Busy without a step for so long is a stall, by the group's own steps. */
uint64_t lac__verdict_stall_ms(const lac__group *group);
/* A group became SUSPECT by silence; freezes verdicts when too many did at once. */
void lac__verdict_vanished(lac_core *core, lac__group *group);
bool lac__verdict_frozen(const lac_core *core);
void lac__verdict_tick(lac_core *core);
/* The verdict from frames and progress of a connected, living group. */
void lac__verdict_judge(lac_core *core, lac__group *group);

/* ---- breaker.c ---- */

bool lac__breaker_admits(const lac_core *core, const lac__group *group);
void lac__breaker_dispatched(lac__group *group, const lac__request *request);
void lac__breaker_failed(lac_core *core, lac__group *group);
void lac__breaker_succeeded(lac_core *core, lac__group *group);
/* Does an error of that status speak against the group, not against the request? */
bool lac__breaker_counts(lac_status error);

/* ---- poison.c ---- */

uint64_t lac__poison_content(const lac_core *core, const lac_submit *submit);
/* How long that content is still not let in; 0 = it is. */
uint32_t lac__poison_quarantined_ms(const lac_core *core, uint64_t content);
size_t lac__poison_quarantine_size(const lac_core *core);
void lac__poison_quarantine(lac_core *core, uint64_t content);
/* A group (by serial) died while it ran that content; that content finished well. */
void lac__poison_death(lac_core *core, uint64_t content, uint64_t group);
void lac__poison_finished(lac_core *core, uint64_t content);
/* LAC_GUARD_DEATHS groups died of it within LAC_GUARD_MS: it is not moved any more. */
bool lac__poison_guarded(lac_core *core, uint64_t content);

/* ---- fleet.c ---- */

void lac__fleet_create(lac_core *core);
void lac__fleet_free(lac_core *core);
/* What the launcher sees. */
void lac__fleet_report(lac_core *core, const lac_fleet_entry *entries, size_t count);
void lac__fleet_tick(lac_core *core);
/* A group may still be started for those who wait. */
bool lac__fleet_comes(const lac_core *core);
/* Orders from people, answered. */
void lac__fleet_scale(lac_core *core, lac_plane plane, uint64_t peer, const lac_scale *scale);
void lac__fleet_drain(lac_core *core, lac_plane plane, uint64_t peer, const lac_drain_group *drain);
void lac__fleet_audit(const lac_core *core);

/* ---- rate.c, hash.c ---- */

void lac__rate_add(lac__rate *rate, uint64_t now_ms);
/* Over the last `seconds` ≤ LAC__RATE_SECONDS, the present one included. */
uint64_t lac__rate_sum(const lac__rate *rate, uint64_t now_ms, uint32_t seconds);
/* A second; over what has passed since `start_ms` while that is less. */
double lac__rate_mean(const lac__rate *rate, uint64_t now_ms, uint64_t start_ms, uint32_t seconds);
uint64_t lac__hash_bytes(uint64_t seed, const void *data, size_t size);
uint64_t lac__hash_mix(uint64_t a, uint64_t b);

/* ---- output.c ---- */

void lac__output_step(lac_core *core, lac__rank *rank, const lac_step_output *output);
void lac__output_cancel(lac_core *core, lac__group *group, uint64_t request, uint32_t attempt);

/* ---- delivery.c ---- */

/* Gives the client a chunk, or keeps it until there is credit. False: it keeps too much already. */
bool lac__delivery_chunk(lac_core *core, lac__request *request, const lac_chunk *chunk);
/* Sends what credit allows and then the end. True when the client has everything including the end.
 */
bool lac__delivery_flush(lac_core *core, lac__request *request);
/* Forgets what the client has not got. */
void lac__delivery_drop(lac_core *core, lac__request *request);

/* ---- client.c ---- */

void lac__client_message(lac_core *core, lac_plane plane, uint64_t peer, const lac_msg *msg);
void lac__client_lost(lac_core *core, lac_plane plane, uint64_t peer);

/* ---- path.c ---- */

void lac__path_meters(lac_core *core);
/* True when what is asked for cannot be: a hint that is none, a class that may not be forced. */
bool lac__path_refuses(lac_core *core, const lac_submit *submit, char reason[LAC_WHY_MAX + 1],
                       lac_status *status);
/* Takes the fingerprint of a new record and counts it. */
void lac__path_admit(lac_core *core, lac__request *request, const lac_submit *submit);
/* Before its first placement: the class it is to run as. */
void lac__path_decide(lac_core *core, lac__request *request);
/* It is decided anew, unless it was dispatched or forced. */
void lac__path_forget(lac_core *core, lac__request *request);
/* It goes on in full. */
void lac__path_fall(lac_core *core, lac__request *request, lac__fell how, const char *why);
/* What the worker says it ran. */
void lac__path_reported(lac_core *core, lac__request *request, const lac_run_account *account);
/* For the client; its mask lives as long as the request. */
void lac__path_account(const lac__request *request, lac_run_account *out);
/* Counts it and keeps what may be asked for. */
void lac__path_ended(lac_core *core, lac__request *request, lac__outcome outcome);
lac_input_type lac__path_input(const lac__fingerprint *fingerprint);
double lac__path_shadow_share(lac_core *core, const lac__request *request);
/* Says how a prompt would be judged; keeps nothing of it. */
void lac__path_explain(lac_core *core, lac_plane plane, uint64_t peer, const lac_path_query *query);

/* ---- classes.c ---- */

/* Takes over what a group announces. */
void lac__classes_hello(lac_core *core, lac__group *group, const lac_hello *hello);
/* The group's record goes. */
void lac__classes_leave(lac_core *core, lac__group *group);
lac__class *lac__class_find(const lac__model *model, const lac_digest *digest);
lac__class *lac__class_named(const lac__model *model, const char *name);
lac__class *lac__class_hold(lac__class *class);
void lac__class_drop(lac__class **class);
bool lac__group_holds(const lac__group *group, const lac__class *class);
/* Some READY group holds it. */
bool lac__class_served(const lac_core *core, const lac__class *class);
/* The guard of a class for a type, made when there is none; NULL when LAC_GUARDS_MAX are kept. */
lac__guard *lac__guard_of(lac_core *core, const lac_digest *digest, lac_input_type type);
void lac__guards_shadow(lac_core *core, const lac__group *group, const lac_shadow *shadow);
void lac__guards_tick(lac_core *core);

/* ---- plan.c ---- */

void lac__plan_reply(lac_core *core, lac_plane plane, uint64_t peer, uint64_t stream);
void lac__plan_force(lac_core *core, lac_plane plane, uint64_t peer, const lac_path_force *force);

/* ---- sight.c ---- */

/* A class was chosen for it: what that promises. */
void lac__sight_chosen(lac_core *core, lac__request *request);
/* `count` tokens of it came: before they are counted as accepted. */
void lac__sight_tokens(lac_core *core, lac__request *request, uint32_t count);
/* It ended: what it did is held against what its class promised. Before it leaves its group. */
void lac__sight_ended(lac_core *core, lac__request *request, lac__outcome outcome);
void lac__sight_tick(lac_core *core, uint32_t lag_ms);
/* All that is watched. */
uint32_t lac__sight_checks(lac_core *core, lac_check out[LAC_CHECKS_MAX]);
/* The newest first. */
uint32_t lac__sight_decided(const lac_core *core, lac_decided out[LAC_DECIDED_MAX]);

/* ---- status.c, meters.c ---- */

const char *lac__outcome_name(lac__outcome outcome); /* "stop" */
void lac__status_reply(lac_core *core, lac_plane plane, uint64_t peer, uint64_t stream);
void lac__meters_create(lac_core *core);
void lac__meters_tick(lac_core *core);

#endif
