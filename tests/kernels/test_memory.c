/* The memory of packed weights: zeroed, apart from each other, given back in any order. */
#include "backend.h"
#include "suites.h"

enum { PIECES = 60, MIB = 1 << 20 };

typedef struct {
    uint8_t *p;
    size_t bytes;
    lac__chunk *chunk;
} piece;

START_TEST(pieces_are_zero_apart_and_freed_in_any_order)
{
    lac__arena arena = {0};
    piece pieces[PIECES];
    uint64_t seed = 5;
    for (uint32_t i = 0; i < PIECES; i++) {
        pieces[i].bytes = i == 30 ? 40u * MIB : 1 + rnd(&seed) % (2u * MIB);
        pieces[i].p = lac__arena_alloc(&arena, pieces[i].bytes, &pieces[i].chunk);
        ck_assert_ptr_nonnull(pieces[i].p);
        ck_assert_uint_eq((uintptr_t)pieces[i].p % LAC__CACHE_LINE, 0);
        ck_assert_uint_eq(pieces[i].p[0] | pieces[i].p[pieces[i].bytes - 1], 0);
        pieces[i].p[0] = (uint8_t)(i + 1);
        pieces[i].p[pieces[i].bytes - 1] = (uint8_t)(i + 1);
    }
    for (uint32_t k = 0; k < PIECES; k++) { /* 7 and 60 share no factor: every piece once */
        const piece *f = &pieces[k * 7 % PIECES];
        ck_assert_uint_eq(f->p[0], k * 7 % PIECES + 1);
        ck_assert_uint_eq(f->p[f->bytes - 1], k * 7 % PIECES + 1);
        lac__arena_free(&arena, f->chunk, f->p, f->bytes);
    }
    ck_assert_ptr_null(arena.first);
}
END_TEST

START_TEST(large_memory_is_usable_to_its_last_byte)
{
    static const size_t sizes[] = {1, 4096, 4097, 2u * MIB, 2u * MIB + 1, 5u * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *p = lac__big_alloc(sizes[i]);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq(p[0] | p[sizes[i] - 1], 0);
        p[0] = p[sizes[i] - 1] = 1;
        lac__big_free(p, sizes[i]);
    }
}
END_TEST

Suite *suite_memory(void)
{
    Suite *s = suite_create("memory");
    TCase *t = tcase_create("memory");
    tcase_add_test(t, pieces_are_zero_apart_and_freed_in_any_order);
    tcase_add_test(t, large_memory_is_usable_to_its_last_byte);
    suite_add_tcase(s, t);
    return s;
}
