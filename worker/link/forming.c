/* How this rank becomes part of a group of several: it asks for the group's incarnation, says where
 * it can be reached, is told config and addresses (Form), loads, and says Hello again as one that
 * is formed. From then on it serves as the only rank of a group does; or, not being the leader,
 * follows. Link thread; the loading is the engine thread's. Must not know what a request is. */
#include <stdio.h>

#include "base/log.h"
#include "parts.h"

/* A Hello is due, and need not wait for the next tick. */
static void hello_again(lac_link *link)
{
    lac__link_event(link, LAC_LINK_EV_REREGISTER);
    lac__link_session_tick(link);
}

/* This rank cannot go on, and so neither can its group. */
static void give_up(lac_link *link, const lac_error *why, int exit_code)
{
    lac_error_log("%s", why->text);
    lac_msg msg = {.body.fault = {.status = why->status}};
    snprintf(msg.body.fault.reason, sizeof msg.body.fault.reason, "rank %u: %.*s", link->hello.rank,
             LAC_REASON_MAX - 16, why->text);
    if (lac_session_duties(&link->session)->beats)
        (void)lac__link_send(link, LAC_MSG_FAULT, &msg);
    link->exit_code = exit_code;
    lac__link_event(link, LAC_LINK_EV_END);
}

void lac__forming_ack(lac_link *link)
{
    lac_error err = {.status = LAC_OK};
    if (!link->rank || link->formed)
        return;
    bool known = link->hello.address.length > 0;
    if (lac_rank_open(link->rank, link->session.incarnation, &link->hello.address, &err) != LAC_OK)
        give_up(link, &err, LAC_LINK_EXIT_REJECTED);
    else if (!known)
        hello_again(link);
}

void lac__forming_form(lac_link *link, const lac_form *form)
{
    lac_error err = {.status = LAC_OK};
    if (!link->rank || link->formed)
        return; /* said to a rank that had already passed the second barrier */
    lac_status status = lac_rank_form(link->rank, form, &link->options.engine, &err);
    if (status == LAC_EEXIST)
        return;
    if (status == LAC_OK) {
        lac_info("all %u ranks are there: loading", form->addresses_count);
        lac_runner_options options = lac__link_runner_options(link);
        options.meet = lac_rank_meet;
        options.part = lac_rank_part;
        options.rank = link->rank;
        options.follows = link->hello.rank > 0;
        status = lac_runner_begin(&options, &link->runner, &err);
    }
    if (status != LAC_OK)
        give_up(link, &err, LAC_LINK_EXIT_REJECTED);
}

static void loaded(lac_link *link)
{
    lac_error err = {.status = LAC_OK};
    if (lac__link_loaded(link, &err) != LAC_OK) {
        give_up(link, &err, LAC_LINK_EXIT_REJECTED);
        return;
    }
    link->formed = true;
    lac_info("rank %u has loaded layers %u..%u, %u of their units are erased", link->hello.rank,
             link->hello.layer_first, link->hello.layer_end - 1, link->hello.erased_units);
    hello_again(link);
}

void lac__forming_wake(lac_link *link)
{
    lac_error why;
    if (!link->rank || !link->runner)
        return;
    switch (lac_runner_look(link->runner, &why)) {
    case LAC_RUNNER_LOADING: break;
    case LAC_RUNNER_READY:
        if (!link->formed)
            loaded(link);
        break;
    case LAC_RUNNER_FAILED: give_up(link, &why, LAC_LINK_EXIT_REJECTED); break;
    case LAC_RUNNER_OVER: give_up(link, &why, LAC_LINK_EXIT_DIED); break;
    case LAC_RUNNER_ENDED:
        lac_info("the leader let this rank go");
        link->let_go = true;
        lac__link_event(link, LAC_LINK_EV_END);
        break;
    }
}
