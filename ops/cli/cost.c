/* lacuna cost: what traffic costs by class, how many devices it needs, and what leaving parts out
 * saves. Pure arithmetic over two files; no coordinator is asked. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { CLASSES_MAX = 64 };

/* By service tier; "full" is what runs everything. */
static const char *const tiers[] = {"full", "gold", "standard", "economy"};
enum { TIERS = sizeof tiers / sizeof *tiers };

typedef struct {
    char currency[16];
    double device_hour, device_tokens_s; /* of one device, running full */
    double million_layer_tokens[TIERS];  /* price of a million tokens through one active layer */
} prices;

typedef struct {
    const char *name;
    int tier;
    double active_layers, cost, tokens; /* cost: of a token, relative to full */
} traffic_class;

typedef struct {
    double layers, seconds;
    traffic_class classes[CLASSES_MAX];
    size_t count;
} traffic;

/* ---- reading ---- */

static int complain(const char *file, const char *what)
{
    fprintf(stderr, "lacuna cost: %s: %s\n", file, what);
    return CLI_FAILED;
}

/* A finite number in [low, high]; one line names field, value and range otherwise. */
static int number(const char *file, const json_t *object, const char *name, double low, double high,
                  double *out)
{
    const json_t *value = json_object_get(object, name);
    double got = json_number_value(value);
    if (json_is_number(value) && got >= low && got <= high) {
        *out = got;
        return CLI_OK;
    }
    if (json_is_number(value))
        fprintf(stderr, "lacuna cost: %s: %s is %g, allowed %g to %g\n", file, name, got, low,
                high);
    else
        fprintf(stderr, "lacuna cost: %s: %s is missing or no number\n", file, name);
    return CLI_FAILED;
}

static int prices_read(const char *file, const json_t *root, prices *out)
{
    const json_t *table = json_object_get(root, "million_layer_tokens");
    const char *currency = json_string_value(json_object_get(root, "currency"));
    if (!currency || strlen(currency) >= sizeof out->currency)
        return complain(file, "currency is missing or longer than 15 bytes");
    snprintf(out->currency, sizeof out->currency, "%s", currency);
    int code = number(file, root, "device_hour", 0, 1e9, &out->device_hour);
    if (!code)
        code = number(file, root, "device_tokens_s", 1e-6, 1e12, &out->device_tokens_s);
    for (int t = 0; t < TIERS && !code; t++)
        code = number(file, table, tiers[t], 0, 1e9, &out->million_layer_tokens[t]);
    return code;
}

static int class_read(const char *file, const json_t *object, double layers, traffic_class *out)
{
    const char *tier = json_string_value(json_object_get(object, "tier"));
    out->name = json_string_value(json_object_get(object, "class"));
    for (out->tier = 0; tier && out->tier < TIERS && strcmp(tiers[out->tier], tier);)
        out->tier++;
    if (!out->name || !tier || out->tier == TIERS)
        return complain(file,
                        "a class needs a name (class) and a tier: full, gold, standard or economy");
    int code = number(file, object, "active_layers", 0, layers, &out->active_layers);
    if (!code)
        code = number(file, object, "cost", 0, 10, &out->cost);
    if (!code)
        code = number(file, object, "tokens", 0, 1e18, &out->tokens);
    return code;
}

static int traffic_read(const char *file, const json_t *root, traffic *out)
{
    const json_t *list = json_object_get(root, "classes"), *object;
    size_t i;
    int code = number(file, root, "layers", 1, 1e6, &out->layers);
    if (!code)
        code = number(file, root, "seconds", 1e-3, 1e12, &out->seconds);
    if (!code && (!json_array_size(list) || json_array_size(list) > CLASSES_MAX))
        code = complain(file, "classes must be a list of 1 to 64");
    json_array_foreach(list, i, object)
    {
        if (code)
            return code;
        code = class_read(file, object, out->layers, &out->classes[out->count++]);
    }
    return code;
}

/* ---- reckoning ---- */

typedef struct {
    double price, devices, tokens;
} bill;

/* Devices are by time: a token of a class takes `cost` of a token of full. */
static bill bill_of(const prices *p, const traffic *t, const traffic_class *c, bool as_full)
{
    double layers = as_full ? t->layers : c->active_layers;
    double price = p->million_layer_tokens[as_full ? 0 : c->tier];
    return (bill){.price = c->tokens * layers * price / 1e6,
                  .devices = c->tokens / t->seconds * (as_full ? 1 : c->cost) / p->device_tokens_s,
                  .tokens = c->tokens};
}

static void add(bill *sum, bill one)
{
    sum->price += one.price;
    sum->devices += one.devices;
    sum->tokens += one.tokens;
}

static double device_price(const prices *p, const traffic *t, double devices)
{
    return ceil(devices) * t->seconds / 3600 * p->device_hour;
}

static void report(const prices *p, const traffic *t, bool json)
{
    bill now = {0}, full = {0};
    if (!json)
        printf("%-24s %-9s %14s %14s %14s\n", "CLASS", "TIER", "TOKENS", "PRICE", "AS FULL");
    for (size_t i = 0; i < t->count; i++) {
        const traffic_class *c = &t->classes[i];
        bill one = bill_of(p, t, c, false), whole = bill_of(p, t, c, true);
        add(&now, one);
        add(&full, whole);
        if (!json)
            printf("%-24s %-9s %14.0f %14.2f %14.2f\n", c->name, tiers[c->tier], c->tokens,
                   one.price, whole.price);
    }
    double device = device_price(p, t, now.devices), device_full = device_price(p, t, full.devices);
    if (json)
        printf("{\"currency\":\"%s\",\"price\":%.6f,\"price_full\":%.6f,\"devices\":%.0f,"
               "\"devices_full\":%.0f,\"device_cost\":%.6f,\"device_cost_full\":%.6f}\n",
               p->currency, now.price, full.price, ceil(now.devices), ceil(full.devices), device,
               device_full);
    else
        printf("%-24s %-9s %14.0f %14.2f %14.2f  %s, %.1f %% less\n"
               "devices: %.0f (%.2f busy), as full %.0f (%.2f busy); they cost %.2f, as full %.2f "
               "%s\n",
               "all", "", now.tokens, now.price, full.price, p->currency,
               full.price > 0 ? 100 * (1 - now.price / full.price) : 0, ceil(now.devices),
               now.devices, ceil(full.devices), full.devices, device, device_full, p->currency);
}

static json_t *load(const char *file)
{
    json_error_t err;
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &err);
    if (!root)
        fprintf(stderr, "lacuna cost: %s: line %d: %s\n", file, err.line, err.text);
    return root;
}

int cli_cost(int argc, char **argv, const char *endpoint)
{
    bool json = false;
    const char *prices_file = NULL, *traffic_file = NULL;
    const cli_option options[] = {
        {.name = "json", .help = "print the sums as JSON", .out = &json},
        {"prices", "FILE",
         "{\"currency\", \"device_hour\", \"device_tokens_s\" (of one, in full), "
         "\"million_layer_tokens\": {\"full\", \"gold\", \"standard\", \"economy\"}}",
         CLI_TEXT, &prices_file, 0, 0},
        {"traffic", "FILE",
         "{\"layers\", \"seconds\", \"classes\": [{\"class\", \"tier\", "
         "\"active_layers\", \"cost\", \"tokens\"}]}",
         CLI_TEXT, &traffic_file, 0, 0}};
    const cli_spec spec = {
        "cost", "--prices FILE --traffic FILE",
        "Turns prices and traffic into cost and devices, by class, and says what "
        "the same traffic would\ncost in full. A class's price is tokens × active "
        "layers × its tier's price; its devices are\nby time (cost is what `lacuna plan "
        "show` lists: a token's, relative to full).\n",
        options, sizeof options / sizeof *options};
    size_t count;
    const char *words[1];
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 0, &count);
    if (code >= 0)
        return code;
    if (!prices_file || !traffic_file)
        return cli_misuse("cost", "--prices FILE and --traffic FILE are needed");
    prices p = {0};
    traffic t = {0};
    json_t *price_list = load(prices_file), *flow = price_list ? load(traffic_file) : NULL;
    code = price_list && flow ? prices_read(prices_file, price_list, &p) : CLI_FAILED;
    if (!code)
        code = traffic_read(traffic_file, flow, &t);
    if (!code)
        report(&p, &t, json);
    if (!code && fflush(stdout))
        code = CLI_FAILED;
    json_decref(price_list);
    json_decref(flow);
    return code;
}
