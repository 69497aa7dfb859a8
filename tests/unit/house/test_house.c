/* The house as it stands has no wrong arrow, and the check would see one: each kind of offence is
 * planted in a small tree of its own and must be reported with file and line. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "house.h"

static char root[] = "/tmp/lacuna-house-XXXXXX";
static char *report;
static size_t report_length;

static void plant(const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/* A tree with one right example of everything. */
static void tree_build(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
    plant("proto/base/include/base/a.h", "#include <stddef.h>\n");
    plant("proto/wire/include/wire/w.h", "#include \"base/a.h\"\n");
    plant("proto/wire/codec.c", "#include <protobuf-c/protobuf-c.h>\n#include \"x.pb-c.h\"\n");
    plant("coordinator/core/include/core/core.h", "#include \"base/a.h\"\n");
    plant("worker/kv/include/kv/kv.h", "#include \"base/a.h\"\n");
    plant("worker/engine/include/engine/engine.h", "#include \"kv/kv.h\"\n");
    plant("worker/engine/private.h", "/* talk of\n#include \"core/core.h\"\n*/\n");
    plant("worker/engine/engine.c", "#include \"engine/engine.h\"\n#include \"private.h\"\n");
    plant("worker/main.c", "#include \"engine/engine.h\"\n");
}

static void tree_remove(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
    free(report);
    report = NULL;
}

static int check_tree(const char *where, int required)
{
    free(report);
    FILE *out = open_memstream(&report, &report_length);
    int offences = house_check(where, required, out);
    fclose(out);
    return offences;
}

START_TEST(this_house_is_in_order)
{
    int offences = check_tree(LAC_SOURCE_DIR, 1);
    ck_assert_msg(offences == 0, "%d offences:\n%s", offences, report);
}
END_TEST

START_TEST(a_right_tree_passes)
{
    ck_assert_msg(check_tree(root, 0) == 0, "%s", report);
}
END_TEST

static const struct {
    const char *path, *text, *reported;
} planted[] = {
    {"coordinator/core/bad.c", "\n#include \"wire/w.h\"\n", "coordinator/core/bad.c:2: wire/w.h"},
    {"worker/kv/bad.c", "#include \"engine/engine.h\"\n", "worker/kv/bad.c:1: engine/engine.h"},
    {"kernels/cpu/bad.c", "#  include \"kv/kv.h\" /* why */\n", "kernels/cpu/bad.c:1: kv/kv.h"},
    {"proto/base/bad.c", "#include \"wire/w.h\"\n", "proto/base/bad.c:1: wire/w.h"},
    {"worker/engine/bad.c", "/* x */\n#include \"core/core.h\"\n",
     "worker/engine/bad.c:2: core/core.h"},
    {"coordinator/core/up.c", "#include \"../../worker/kv/kv.h\"\n", "climbs out"},
    {"worker/kv/lost.c", "#include \"nowhere.h\"\n", "worker/kv/lost.c:1: nowhere.h"},
    {"coordinator/core/pb.c", "#include \"x.pb-c.h\"\n", "coordinator/core/pb.c:1: x.pb-c.h"},
    {"proto/wire/socket.c", "#include <protobuf-c/protobuf-c.h>\n",
     "proto/wire/socket.c:1: protobuf-c/"},
    {"coordinator/link/z.c", "#include <zmq.h>\n", "coordinator/link/z.c:1: zmq.h"},
    {"coordinator/core/s.c", "#include <sqlite3.h>\n", "coordinator/core/s.c:1: sqlite3.h"},
    {"worker/chat/p.c", "#include <pcre2.h>\n", "worker/chat/p.c:1: pcre2.h"},
    {"proto/base/o.c", "#include <openssl/evp.h>\n", "proto/base/o.c:1: openssl/evp.h"},
    {"worker/engine/j.c", "#include <jansson.h>\n", "worker/engine/j.c:1: jansson.h"},
    {"kernels/cpu/c.c", "#include <cuda_runtime.h>\n", "kernels/cpu/c.c:1: cuda_runtime.h"},
    {"worker/engine/n.c", "#include <nccl.h>\n", "worker/engine/n.c:1: nccl.h"},
    {"worker/link/h.c", "#include <hwloc.h>\n", "worker/link/h.c:1: hwloc.h"},
    {"coordinator/link/l.c", "#include <llhttp.h>\n", "coordinator/link/l.c:1: llhttp.h"},
    {"cluster/topology/u.c", "#include <ucp/api/ucp.h>\n", "cluster/topology/u.c:1: ucp/"},
    {"worker/kv/include/k.h", "\n", "worker/kv/include/k.h:1: public header"},
    {"worker/shed/x.c", "#include \"wire/w.h\"\n#include \"core/core.h\"\n",
     "worker/shed/x.c:2: core/core.h"},
    {"cluster/attic/x.c", "\n", "cluster/attic/x.c:1: file"},
    {"worker/engine/x.cpp", "\n", "C++ or CUDA"},
    {"lib/x.c", "\n", "lib:0: top level"},
};

START_TEST(each_planted_offence_is_reported)
{
    plant(planted[_i].path, planted[_i].text);
    ck_assert_msg(check_tree(root, 0) == 1, "%s: %s", planted[_i].path, report);
    ck_assert_msg(strstr(report, planted[_i].reported) != NULL, "%s", report);
}
END_TEST

START_TEST(missing_rooms_are_reported)
{
    ck_assert_int_gt(check_tree(root, 1), 0);
    ck_assert_ptr_nonnull(strstr(report, "README.md:0: top level: is missing"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("house");
    TCase *tree = tcase_create("this tree"), *planted_case = tcase_create("planted");
    tcase_add_test(tree, this_house_is_in_order);
    suite_add_tcase(suite, tree);
    tcase_add_checked_fixture(planted_case, tree_build, tree_remove);
    tcase_add_test(planted_case, a_right_tree_passes);
    tcase_add_loop_test(planted_case, each_planted_offence_is_reported, 0,
                        (int)(sizeof(planted) / sizeof(planted[0])));
    tcase_add_test(planted_case, missing_rooms_are_reported);
    suite_add_tcase(suite, planted_case);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
