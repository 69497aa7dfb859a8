/* A plan: the file that lists the classes of one model. JSON, with the patches in a GGUF file
 * beside it. A plan that loads is whole: every number lies in its range, every mask in the model,
 * every patch has its shape and its hash. One thread loads or writes; reading a loaded plan is safe
 * from any. Must not know requests, engines or how a class was found.
 *
 * The file:
 *   {"format": "lacuna-plan", "version": 1 | 2,
 *    "model": {"name", "digest", "layers", "hidden"},
 *    "patches": null | {"file": "<stem>.patches-<first 8 hex digits>.gguf", "sha256"},
 *    "classes": [{"name", "scope": "request"|"decode", "mask": "A7,A25", "notes"?,
 *       "serves": {"structured": {"tier": "gold"|"standard"|"economy",
 *          "certificate": {"kl_mean", "kl_upper", "kl_p95", "top1", "cost_saved", "data",
 *                          "documents", "requests", "tokens", "method", "date"},
 *          "checks"?: [{"name", "full", "class", "bound"}]}, …},
 *       "patches"?: [{"unit": "A7", "rank": 32}],
 *       "probe"?: {"mean", "scale", "weights": [LAC_PROBE_FEATURES numbers], "bias", "threshold"}},
 * …], "canaries"?: {"structured": ["text", …], …}} A field that is not listed is refused by name:
 * what is not understood may matter.
 *
 * The companion: tensors patch.<class>.<unit>.down [hidden × rank] and .up [rank × hidden] in
 * GGUF's order (columns first), F16, so that P = up·down maps rmsnorm(h) to what is added to h. A
 * patch of full rank is .up alone, [hidden × hidden]. */
#ifndef LAC_PLAN_H
#define LAC_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/class.h"
#include "base/status.h"
#include "model/model.h"

/* A change of the format raises VERSION; the one before it is still read. A plan is written in the
 * oldest version that can say what it holds: 2 came with canaries and probes. */
enum { LAC_PLAN_VERSION = 2, LAC_PLAN_VERSION_OLDEST = 1 };

/* A score of the class beside full's: a task, or a robustness check. Higher is better. */
typedef struct {
    char name[LAC_NAME_MAX + 1];
    double full, masked;
    double bound; /* lower bound of masked − full, paired by document */
} lac_plan_check;

typedef struct {
    lac_tier tier; /* NONE: does not serve this type, the rest is empty */
    lac_certificate certificate;
    uint32_t checks_count;
    lac_plan_check *checks; /* [checks_count], the plan's */
} lac_plan_serve;

typedef struct {
    char name[LAC_NAME_MAX + 1]; /* letter or digit, then those and . _ -; not "full" */
    lac_scope scope;
    lac_mask mask; /* not empty */
    lac_plan_serve serves[LAC_INPUT_TYPES];
    uint32_t patches_count;
    lac_patch *patches;      /* [patches_count] ascending units of the mask; all the plan's */
    struct lac_probe *probe; /* NULL: none; the plan's. No part of the digest: it changes who runs
                                as the class, not what the class does */
    char notes[LAC_PLAN_NOTES_MAX + 1];
    lac_digest digest; /* lac_class_digest(); hint: lac_class_hint() */
} lac_plan_class;

/* Texts of one input type that every class of the type is scored on again and again while it
 * serves. */
typedef struct {
    uint32_t count;
    char *texts[LAC_PLAN_CANARIES_MAX]; /* UTF-8, NUL-ended; the plan's */
} lac_plan_canaries;

typedef struct {
    char model_name[LAC_MODEL_NAME_MAX + 1];
    lac_digest model_digest;
    uint32_t layers, hidden;
    uint32_t classes_count; /* < LAC_CLASSES_MAX; class i here is an engine's class i + 1 */
    lac_plan_class classes[LAC_CLASSES_MAX - 1];
    lac_plan_canaries canaries[LAC_INPUT_TYPES];
    lac_digest patches_digest; /* of the companion's bytes; zeros when there is none */
} lac_plan;

/* Reads and checks a plan and its companion. With `model` the plan must be made for exactly that
 * one; NULL checks against what the file says of its model. Errors name file, field, value and
 * limit: LAC_EIO, LAC_ETOOBIG, LAC_EUNSUPPORTED (another version), LAC_EINVAL (a field),
 * LAC_ECORRUPT (companion: hash, tensor, shape), LAC_EREFUSED (another model). The files may go
 * afterwards. */
lac_status lac_plan_load(const char *path, const lac_model *model, lac_plan **out, lac_error *err);
void lac_plan_destroy(lac_plan **plan);

/* The class of that name; NULL when there is none. */
const lac_plan_class *lac_plan_find(const lac_plan *plan, const char *name);

/* ---- making one ---- */

/* An empty plan for a model. */
lac_plan *lac_plan_create(const lac_model *model);
/* Adds a class without types and patches; NULL when the plan is full. The pointer stays valid. */
lac_plan_class *lac_plan_class_add(lac_plan *plan, const char *name, lac_scope scope,
                                   const lac_mask *mask);
/* Copies the matrices (`down` NULL at full rank) in place of an earlier patch of that unit.
 * LAC_EINVAL for a unit the class does not erase, a rank that is not allowed, or an element that is
 * not finite. */
lac_status lac_plan_patch_set(lac_plan *plan, lac_plan_class *class, uint32_t unit, uint32_t rank,
                              const uint16_t *down, const uint16_t *up, lac_error *err);
/* Copies the probe in place of an earlier one; NULL takes that away. */
void lac_plan_probe_set(lac_plan_class *class, const struct lac_probe *probe);
/* Fills serves[type]; copies the checks. */
void lac_plan_serve_set(lac_plan_class *class, lac_input_type type, lac_tier tier,
                        const lac_certificate *certificate, const lac_plan_check *checks,
                        uint32_t checks_count);
/* Copies the text. LAC_EINVAL: empty, longer than LAC_PLAN_CANARY_BYTES_MAX, no UTF-8, a NUL in it;
 * LAC_ETOOBIG: one more than LAC_PLAN_CANARIES_MAX. */
lac_status lac_plan_canary_add(lac_plan *plan, lac_input_type type, const char *text, size_t length,
                               lac_error *err);
/* Sets each class's digest (load and save do it too). */
void lac_plan_digest(lac_plan *plan);
/* The rules that load applies: what passes can be read back. */
lac_status lac_plan_check_all(const lac_plan *plan, lac_error *err);
/* Writes companion (when a class has patches) and plan, each whole or not at all, the plan last.
 * Equal plans give equal bytes. A companion of an earlier plan stays where it is: a worker that
 * starts at this moment may have read that plan. */
lac_status lac_plan_save(lac_plan *plan, const char *path, lac_error *err);

#endif
