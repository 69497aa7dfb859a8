/* SHA-256 against the example vectors of FIPS 180-2, whole and in pieces. */
#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "suites.h"

static void expect(const char *text, size_t length, const char *hex)
{
    lac_digest digest;
    char got[65];
    lac_sha256(text, length, &digest);
    lac_hex(digest.bytes, 32, got);
    ck_assert_str_eq(got, hex);
}

START_TEST(known_answers)
{
    expect(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect(two_blocks, strlen(two_blocks),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}
END_TEST

START_TEST(pieces_give_the_digest_of_the_whole)
{
    char text[300];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7);
    lac_digest whole, pieces;
    lac_sha256(text, sizeof(text), &whole);
    for (size_t cut = 0; cut <= sizeof(text); cut += 37) {
        lac_hasher *hasher = lac_hasher_create();
        lac_hasher_add(hasher, text, cut);
        lac_hasher_add(hasher, NULL, 0);
        lac_hasher_add(hasher, text + cut, sizeof(text) - cut);
        lac_hasher_finish(&hasher, &pieces);
        ck_assert_ptr_null(hasher);
        ck_assert_mem_eq(whole.bytes, pieces.bytes, 32);
    }
}
END_TEST

Suite *suite_digest(void)
{
    Suite *suite = suite_create("digest");
    TCase *tc = tcase_create("digest");
    tcase_add_test(tc, known_answers);
    tcase_add_test(tc, pieces_give_the_digest_of_the_whole);
    suite_add_tcase(suite, tc);
    return suite;
}
