/* Status codes and the fixed-size error text that travels beside them.
 *
 * A code says what must be rebuilt, so that recovery is a switch: nothing (try again), the request,
 * the peer's session, or the process. The text says which field, value and limit. Any thread. */
#ifndef LAC_BASE_STATUS_H
#define LAC_BASE_STATUS_H

typedef enum {
    LAC_OK = 0,
    /* Nothing is broken: come back later. */
    LAC_AGAIN, /* nothing to take right now */
    LAC_BUSY,  /* a bounded queue, pool or quota is full */
    /* The request is lost, its peer and process are fine. */
    LAC_EINVAL,       /* a field is missing, malformed or out of range */
    LAC_ENOTFOUND,    /* the thing named does not exist */
    LAC_EUNSUPPORTED, /* understood, but this build or model cannot do it */
    LAC_ETOOBIG,      /* over a written limit */
    LAC_EDEADLINE,    /* its time ran out */
    LAC_ECANCELLED,   /* its owner no longer wants it */
    LAC_EREFUSED,     /* not allowed, or nobody serves it */
    LAC_EEXIST,       /* already there */
    /* The session with this peer must be made again. */
    LAC_EPEER,  /* gone or unreachable */
    LAC_EPROTO, /* it spoke nonsense */
    LAC_EEPOCH, /* it belongs to another epoch, incarnation or session */
    /* The process (or the file it depends on) must be mended. */
    LAC_ECORRUPT, /* stored data does not hold together */
    LAC_EIO,      /* the operating system refused */
    LAC_ENOMEM,   /* out of memory or over a memory budget */
    LAC_EINTERNAL /* a bug */
} lac_status;

enum { LAC_ERROR_TEXT_MAX = 320 };

/* Filled by whoever first knows the error; callers pass it on unchanged. */
typedef struct {
    lac_status status;
    char text[LAC_ERROR_TEXT_MAX];
} lac_error;

/* The code's short lower-case name, for logs and wire texts ("busy", "not found"). Never NULL. */
const char *lac_status_name(lac_status status);

/* Writes the formatted text (cut at the limit, always ended) and returns `status`, so that a
 * failing function ends with `return lac_fail(err, LAC_EINVAL, "top_p is %g, allowed 0..1", v);`.
 * `err` may be NULL. */
lac_status lac_fail(lac_error *err, lac_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text already in `err`; returns err's status. For a caller that alone
 * knows which file or field was being read. `err` may be NULL, then returns LAC_EINTERNAL. */
lac_status lac_fail_in(lac_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
