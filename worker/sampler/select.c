/* Top-k, top-p, min-p and the draw. Selection is a radix search over the logits' bits: three
 * counting passes at most, no sort, no memory. Pure, any thread. */
#include "select.h"

#include <math.h>

#include "base/assert.h"

/* The 32 bits of a key are searched from the top in digits of 11, 11 and 10 bits. */
enum { DIGITS = 3, DIGIT_MAX = 1 << 11 };
static const int shifts[DIGITS] = {21, 10, 0};
static const uint32_t digit_masks[DIGITS] = {0x7ff, 0x7ff, 0x3ff};

/* Tokens with a greater key stay, and of those with this very key the first `ties` by id. */
typedef struct {
    uint32_t key;
    size_t ties;
} threshold;

static size_t block_length(const lac__field *field, size_t block)
{
    size_t left = field->vocab - block * LAC__BLOCK;
    return left < LAC__BLOCK ? left : LAC__BLOCK;
}

void lac__field_weigh(lac__field *field)
{
    field->blocks = (field->vocab + LAC__BLOCK - 1) / LAC__BLOCK;
    LAC_ASSERT(field->blocks <= LAC__BLOCKS_MAX);
    float weights[LAC__BLOCK];
    field->total = 0;
    for (size_t block = 0; block < field->blocks; block++) {
        const float *logits = field->logits + block * LAC__BLOCK;
        size_t length = block_length(field, block);
        /* After a filter most blocks hold nothing. */
        size_t i = 0;
        while (i < length && logits[i] == -INFINITY)
            i++;
        field->sum[block] = i == length ? 0.0
                                        : lac__weigh(logits, length, field->max,
                                                     field->inverse_temperature, weights);
        field->total += field->sum[block];
    }
}

/* True when `key` agrees with `prefix` in the digits already decided. */
static bool matches(uint32_t key, uint32_t prefix, int digit)
{
    return digit == 0 || key >> shifts[digit - 1] == prefix >> shifts[digit - 1];
}

static void exclude_below(lac__field *field, threshold least)
{
    size_t ties = least.ties;
    for (size_t i = 0; i < field->vocab; i++) {
        uint32_t key = lac__key(field->logits[i]);
        if (key > least.key)
            continue;
        if (key == least.key && ties > 0)
            ties--;
        else
            field->logits[i] = -INFINITY;
    }
}

void lac__field_top_k(lac__field *field, size_t k)
{
    LAC_ASSERT(k > 0);
    if (k >= field->vocab)
        return;
    uint32_t counts[DIGIT_MAX];
    threshold least = {0, 0};
    size_t wanted = k; /* of the tokens that match the prefix */
    for (int digit = 0; digit < DIGITS; digit++) {
        memset(counts, 0, sizeof counts);
        for (size_t i = 0; i < field->vocab; i++) {
            uint32_t key = lac__key(field->logits[i]);
            if (matches(key, least.key, digit))
                counts[key >> shifts[digit] & digit_masks[digit]]++;
        }
        uint32_t at = digit_masks[digit];
        while (counts[at] < wanted) {
            wanted -= counts[at];
            LAC_ASSERT(at > 0);
            at--;
        }
        least.key |= at << shifts[digit];
    }
    least.ties = wanted;
    exclude_below(field, least);
}

/* A token's order and weight. Those with little weight are nearly all of a vocabulary, nearly
 * always: a list of the others makes the search short. */
typedef struct {
    uint32_t key;
    float weight;
} candidate;
enum { CANDIDATES_MAX = 4096 };

/* Lists, in order of ids, the tokens of at least `floor` that match the prefix; SIZE_MAX when they
 * are too many. */
static size_t list_candidates(const lac__field *field, float floor, uint32_t prefix, int digit,
                              candidate *list)
{
    float weights[LAC__BLOCK];
    size_t count = 0;
    for (size_t block = 0; block < field->blocks; block++) {
        if (field->sum[block] < (double)floor) /* then so is each of its weights */
            continue;
        const float *logits = field->logits + block * LAC__BLOCK;
        size_t length = block_length(field, block);
        lac__weigh(logits, length, field->max, field->inverse_temperature, weights);
        for (size_t i = 0; i < length; i++) {
            candidate c = {lac__key(logits[i]), weights[i]};
            if (c.weight < floor || !matches(c.key, prefix, digit))
                continue;
            if (count == CANDIDATES_MAX)
                return SIZE_MAX;
            list[count++] = c;
        }
    }
    return count;
}

static void add_by_digit(candidate c, uint32_t prefix, int digit, double *sums)
{
    if (matches(c.key, prefix, digit))
        sums[c.key >> shifts[digit] & digit_masks[digit]] += (double)c.weight;
}

/* One pass of the weighted search: sums[d] becomes the weight of the tokens that match the prefix
 * and have the digit d, over the list, or over the whole field when `list` is NULL. */
static void sum_by_digit(const lac__field *field, const candidate *list, size_t count,
                         uint32_t prefix, int digit, double *sums)
{
    memset(sums, 0, DIGIT_MAX * sizeof *sums);
    if (list) {
        for (size_t i = 0; i < count; i++)
            add_by_digit(list[i], prefix, digit, sums);
        return;
    }
    float weights[LAC__BLOCK];
    for (size_t block = 0; block < field->blocks; block++) {
        if (field->sum[block] == 0.0)
            continue;
        const float *logits = field->logits + block * LAC__BLOCK;
        size_t length = block_length(field, block);
        lac__weigh(logits, length, field->max, field->inverse_temperature, weights);
        for (size_t i = 0; i < length; i++)
            add_by_digit((candidate){lac__key(logits[i]), weights[i]}, prefix, digit, sums);
    }
}

/* One digit of the search: where, from the greatest down, the sums reach *wanted, which falls by
 * what lies above. The last one with weight takes what rounding leaves over; −1 when none has any.
 */
static int find_digit(const double *sums, int digit, double *wanted)
{
    int at = -1;
    for (int d = (int)digit_masks[digit]; d >= 0; d--) {
        if (sums[d] == 0.0)
            continue;
        if (at >= 0)
            *wanted -= sums[at];
        at = d;
        if (sums[d] >= *wanted)
            break;
    }
    return at;
}

/* False when the candidates do not weigh `wanted` together. With `count` SIZE_MAX the whole field
 * is searched, and `list` is room to list what the first digit leaves. */
static bool find_weight(const lac__field *field, candidate *list, size_t count, double wanted,
                        threshold *out)
{
    double sums[DIGIT_MAX];
    threshold least = {0, 1};
    for (int digit = 0; digit < DIGITS; digit++) {
        if (digit > 0 && count == SIZE_MAX)
            count = list_candidates(field, 0, least.key, digit, list);
        sum_by_digit(field, count == SIZE_MAX ? NULL : list, count, least.key, digit, sums);
        int at = find_digit(sums, digit, &wanted);
        if (at < 0 || (digit == 0 && sums[at] < wanted))
            return false;
        least.key |= (uint32_t)at << shifts[digit];
    }
    /* The tokens left have the same logit, so the same weight. */
    float logit = lac__unkey(least.key), weight[LAC__BLOCK];
    lac__weigh(&logit, 1, field->max, field->inverse_temperature, weight);
    for (double reached = (double)weight[0]; reached < wanted && least.ties < field->vocab;
         reached += (double)weight[0])
        least.ties++;
    *out = least;
    return true;
}

void lac__field_top_p(lac__field *field, double p)
{
    candidate list[CANDIDATES_MAX];
    threshold least;
    double wanted = p * field->total;
    size_t count = list_candidates(field, 1.0f / 4096, 0, 0, list);
    if ((count != SIZE_MAX && find_weight(field, list, count, wanted, &least)) ||
        find_weight(field, list, SIZE_MAX, wanted, &least))
        exclude_below(field, least);
    /* Else rounding alone keeps the sum below p·total: nothing is cut. */
}

void lac__field_min_p(lac__field *field, float p)
{
    float weights[LAC__BLOCK];
    for (size_t block = 0; block < field->blocks; block++) {
        float *logits = field->logits + block * LAC__BLOCK;
        size_t length = block_length(field, block);
        lac__weigh(logits, length, field->max, field->inverse_temperature, weights);
        for (size_t i = 0; i < length; i++) {
            if (weights[i] < p) /* the largest weighs 1 */
                logits[i] = -INFINITY;
        }
    }
}

uint32_t lac__field_draw(const lac__field *field, double unit)
{
    double target = unit * field->total, before = 0, next = 0;
    size_t chosen_block = 0;
    for (size_t block = 0; block < field->blocks; block++) {
        if (field->sum[block] == 0.0)
            continue;
        chosen_block = block;
        before = next;
        next = before + field->sum[block];
        if (next > target)
            break;
    }
    float weights[LAC__BLOCK];
    size_t length = block_length(field, chosen_block), chosen = 0;
    lac__weigh(field->logits + chosen_block * LAC__BLOCK, length, field->max,
               field->inverse_temperature, weights);
    for (size_t i = 0; i < length; i++) {
        if (weights[i] == 0.0f)
            continue;
        chosen = i; /* the last one with weight takes what rounding leaves over */
        before += (double)weights[i];
        if (before > target)
            break;
    }
    return (uint32_t)(chosen_block * LAC__BLOCK + chosen);
}
