/* Texts that claim to be hints. */
#include <string.h>

#include "base/class_facts.h"
#include "suites.h"

START_TEST(hints_are_judged)
{
    lac_digest a = {{0}}, b;
    for (int i = 0; i < 32; i++)
        a.bytes[i] = (uint8_t)(i * 91 + 7);
    char text[LAC_HINT_LENGTH + 2] = "";
    lac_class_hint(&a, text);
    ck_assert(lac_class_hint_valid(text));
    ck_assert(lac_class_hinted(text, &a));
    b = a;
    b.bytes[24] ^= 1; /* beyond the hint */
    ck_assert(lac_class_hinted(text, &b));
    b.bytes[23] ^= 1;
    ck_assert(!lac_class_hinted(text, &b));
    ck_assert(!lac_class_hinted("", &a) && !lac_class_hint_valid(""));
    text[LAC_HINT_LENGTH] = 'A';
    ck_assert(!lac_class_hint_valid(text) && !lac_class_hinted(text, &a));
    text[LAC_HINT_LENGTH - 1] = '=';
    text[LAC_HINT_LENGTH] = '\0';
    ck_assert(!lac_class_hint_valid(text));
}
END_TEST

Suite *suite_class_facts(void)
{
    Suite *suite = suite_create("class facts");
    TCase *tc = tcase_create("class facts");
    tcase_add_test(tc, hints_are_judged);
    suite_add_tcase(suite, tc);
    return suite;
}
