/* Names of messages and reasons, and the end of a decoded message. Pure. */
#include "base/msg.h"
#include "base/mem.h"

void lac_msg_free(lac_msg *msg)
{
    lac_arena *arena = msg->memory;
    lac_arena_destroy(&arena);
    *msg = (lac_msg){0};
}

const char *lac_finish_name(lac_finish finish)
{
    switch (finish) {
    case LAC_FINISH_NONE: return "none";
    case LAC_FINISH_STOP: return "stop";
    case LAC_FINISH_LENGTH: return "length";
    case LAC_FINISH_CANCEL: return "cancel";
    case LAC_FINISH_ERROR: return "error";
    }
    return "none";
}

const char *lac_msg_name(uint16_t type)
{
    switch ((lac_msg_type)type) {
    case LAC_MSG_NONE: break;
    case LAC_MSG_HELLO: return "hello";
    case LAC_MSG_HEARTBEAT: return "heartbeat";
    case LAC_MSG_STEP_OUTPUT: return "step_output";
    case LAC_MSG_DRAINED: return "drained";
    case LAC_MSG_FAULT: return "fault";
    case LAC_MSG_SHADOW: return "shadow";
    case LAC_MSG_HELLO_ACK: return "hello_ack";
    case LAC_MSG_HELLO_REJECT: return "hello_reject";
    case LAC_MSG_REREGISTER: return "reregister";
    case LAC_MSG_DIE: return "die";
    case LAC_MSG_DISPATCH: return "dispatch";
    case LAC_MSG_CANCEL: return "cancel";
    case LAC_MSG_DRAIN: return "drain";
    case LAC_MSG_FORM: return "form";
    case LAC_MSG_SUBMIT: return "submit";
    case LAC_MSG_CLIENT_CANCEL: return "client_cancel";
    case LAC_MSG_CREDIT: return "credit";
    case LAC_MSG_PATH_QUERY: return "path_query";
    case LAC_MSG_PATH_REPLY: return "path_reply";
    case LAC_MSG_PLAN_QUERY: return "plan_query";
    case LAC_MSG_PATH_FORCE: return "path_force";
    case LAC_MSG_PLAN_REPLY: return "plan_reply";
    case LAC_MSG_SCALE: return "scale";
    case LAC_MSG_DRAIN_GROUP: return "drain_group";
    case LAC_MSG_ORDERED: return "ordered";
    case LAC_MSG_JOB_SUBMIT: return "job_submit";
    case LAC_MSG_JOB_QUERY: return "job_query";
    case LAC_MSG_JOB_CANCEL: return "job_cancel";
    case LAC_MSG_JOB_REPLY: return "job_reply";
    case LAC_MSG_FEEDBACK: return "feedback";
    case LAC_MSG_STATUS_QUERY: return "status_query";
    case LAC_MSG_ACCEPTED: return "accepted";
    case LAC_MSG_TOKENS: return "tokens";
    case LAC_MSG_DONE: return "done";
    case LAC_MSG_REFUSED: return "refused";
    case LAC_MSG_STATUS_REPLY: return "status_reply";
    }
    return "unknown";
}
