/* "NAME=MODEL …" and "ASKED:TYPE:TASK=MODEL …" as tables. Pure; what the words mean is the core's.
 */
#include "model_names.h"

#include <string.h>

/* Copies text up to `end` into to[size]; false when it is empty or too long. */
static bool copy(const char *from, const char *end, char *to, size_t size)
{
    size_t length = (size_t)(end - from);
    if (!length || length >= size)
        return false;
    memcpy(to, from, length);
    to[length] = 0;
    return true;
}

static bool alias_of(const char *word, const char *end, lac_alias *out)
{
    const char *equals = memchr(word, '=', (size_t)(end - word));
    return equals && copy(word, equals, out->name, sizeof out->name) &&
           copy(equals + 1, end, out->model, sizeof out->model);
}

static bool route_of(const char *word, const char *end, lac_route *out)
{
    const char *equals = memchr(word, '=', (size_t)(end - word));
    const char *first = equals ? memchr(word, ':', (size_t)(equals - word)) : NULL;
    const char *second = first ? memchr(first + 1, ':', (size_t)(equals - first - 1)) : NULL;
    return second && copy(word, first, out->asked, sizeof out->asked) &&
           copy(first + 1, second, out->type, sizeof out->type) &&
           copy(second + 1, equals, out->task, sizeof out->task) &&
           copy(equals + 1, end, out->model, sizeof out->model);
}

lac_status lac__model_names_parse(lac__options *o, lac_error *err)
{
    static const char between[] = " \t";
    lac_model_names *names = &o->model_names;
    *names = (lac_model_names){0};
    memcpy(names->preset, o->default_model, sizeof names->preset);
    for (const char *at = o->model_alias + strspn(o->model_alias, between), *end; *at;
         at = end + strspn(end, between)) {
        end = at + strcspn(at, between);
        if (names->aliases_count == LAC_ALIASES_MAX)
            return lac_fail(err, LAC_ETOOBIG, "model-alias has more than %d words",
                            LAC_ALIASES_MAX);
        if (!alias_of(at, end, &names->aliases[names->aliases_count++]))
            return lac_fail(err, LAC_EINVAL, "model-alias has \"%.*s\", expected NAME=MODEL",
                            (int)(end - at), at);
    }
    for (const char *at = o->route + strspn(o->route, between), *end; *at;
         at = end + strspn(end, between)) {
        end = at + strcspn(at, between);
        if (names->routes_count == LAC_ROUTES_MAX)
            return lac_fail(err, LAC_ETOOBIG, "route has more than %d words", LAC_ROUTES_MAX);
        if (!route_of(at, end, &names->routes[names->routes_count++]))
            return lac_fail(err, LAC_EINVAL, "route has \"%.*s\", expected ASKED:TYPE:TASK=MODEL",
                            (int)(end - at), at);
    }
    return LAC_OK;
}
