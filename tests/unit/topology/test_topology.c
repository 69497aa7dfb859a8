/* Topologies: this machine, files right and wrong, seats. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topology.h"

static lac_topology t, again; /* large */

static lac_status parsed(const char *text, lac_error *err)
{
    return lac_topology_parse(text, strlen(text), &t, err);
}

static const char two_hosts[] =
    "{\"lacuna_topology\": 1, \"hosts\": ["
    "{\"name\": \"n0\", \"numa\": [{\"package\": 0, \"cores\": 8, \"memory_mb\": 1000, "
    "\"l3_kb\": 32768}, {\"package\": 1, \"cores\": 8, \"memory_mb\": 1000}], "
    "\"gpus\": [{\"name\": \"H200\", \"memory_mb\": 141000}]},"
    "{\"name\": \"n1\", \"numa\": [{\"cores\": 4, \"memory_mb\": 500}]}]}";

START_TEST(this_machine_is_found)
{
    lac_error err = {0};
    ck_assert_msg(lac_topology_discover(&t, &err) == LAC_OK, "%s", err.text);
    ck_assert_uint_eq(t.hosts_count, 1);
    ck_assert_uint_ge(t.nodes_count, 1);
    ck_assert_uint_ge(t.nodes[0].cores, 1);
    ck_assert_uint_gt(t.nodes[0].memory_bytes, UINT64_C(64) << 20);
    ck_assert_uint_gt(strlen(t.hosts[0]), 0);
}
END_TEST

START_TEST(files_are_read_and_written)
{
    lac_error err = {0};
    ck_assert_msg(parsed(two_hosts, &err) == LAC_OK, "%s", err.text);
    ck_assert_uint_eq(t.hosts_count, 2);
    ck_assert_uint_eq(t.nodes_count, 3);
    ck_assert_uint_eq(t.nodes[1].package, 1);
    ck_assert_uint_eq(t.nodes[2].host, 1);
    ck_assert_uint_eq(t.nodes[2].memory_bytes, UINT64_C(500) << 20);
    ck_assert_uint_eq(t.gpus_count, 1);
    ck_assert_str_eq(t.gpus[0].name, "H200");
    lac_buf out = {0};
    lac_topology_write(&t, &out);
    ck_assert_msg(lac_topology_parse(out.data, out.length, &again, &err) == LAC_OK, "%s", err.text);
    ck_assert_mem_eq(&t, &again, sizeof t);
    lac_buf_free(&out);
}
END_TEST

START_TEST(wrong_files_name_the_field)
{
    static const struct {
        const char *text, *says;
        lac_status status;
    } wrong[] = {
        {"{", "line 1", LAC_EINVAL},
        {"[]", "lacuna_topology is missing", LAC_EINVAL},
        {"{\"lacuna_topology\": 2, \"hosts\": []}", "version is 2, this program reads 1",
         LAC_EUNSUPPORTED},
        {"{\"lacuna_topology\": 1, \"hosts\": []}", "hosts", LAC_EINVAL},
        {"{\"lacuna_topology\": 1, \"hosts\": [{\"numa\": []}]}", "name", LAC_EINVAL},
        {"{\"lacuna_topology\": 1, \"hosts\": [{\"name\": \"a\", \"numa\": []}]}", "no numa",
         LAC_EINVAL},
        {"{\"lacuna_topology\": 1, \"hosts\": [{\"name\": \"a\", \"numa\": [{\"cores\": 0}]}]}",
         "cores is out of range", LAC_EINVAL},
        {"{\"lacuna_topology\": 1, \"hosts\": [{\"name\": \"a\", \"numa\": [{\"cores\": 1}]}]}",
         "memory_mb is missing", LAC_EINVAL},
        {"{\"lacuna_topology\": 1, \"hosts\": [7]}", "name", LAC_EINVAL},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lac_error err = {0};
        t.hosts_count = 77;
        ck_assert_int_eq(parsed(wrong[i].text, &err), wrong[i].status);
        ck_assert_msg(strstr(err.text, wrong[i].says) != NULL, "%s", err.text);
        ck_assert_uint_eq(t.hosts_count, 77); /* written on success only */
    }
}
END_TEST

START_TEST(cores_are_shared_out)
{
    lac_error err = {0};
    lac_topology_seat seats[LAC_RANKS_MAX];
    ck_assert_int_eq(parsed(two_hosts, &err), LAC_OK);
    ck_assert_int_eq(lac_topology_seats(&t, 5, seats, &err), LAC_OK);
    uint32_t core = 0;
    for (uint32_t r = 0; r < 5; r++) {
        ck_assert_uint_eq(seats[r].core_first, core);
        ck_assert_uint_eq(seats[r].cores, 4);
        ck_assert_uint_eq(seats[r].nodes, 1);
        ck_assert_uint_eq(seats[r].node, r / 2);
        ck_assert_uint_eq(seats[r].host, r / 4);
        ck_assert_uint_eq(seats[r].memory_bytes, UINT64_C(500) << 20);
        core += seats[r].cores;
    }
    ck_assert_int_eq(lac_topology_seats(&t, 3, seats, &err), LAC_OK);
    ck_assert_uint_eq(seats[1].nodes, 2); /* cores 6 … 12 */
    ck_assert_uint_eq(seats[0].cores + seats[1].cores + seats[2].cores, 20);
    ck_assert_int_eq(lac_topology_seats(&t, 21, seats, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "21 ranks on 20 cores"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topology");
    TCase *all = tcase_create("topology");
    tcase_add_test(all, this_machine_is_found);
    tcase_add_test(all, files_are_read_and_written);
    tcase_add_test(all, wrong_files_name_the_field);
    tcase_add_test(all, cores_are_shared_out);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
