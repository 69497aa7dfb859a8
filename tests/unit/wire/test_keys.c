/* Keys: files that are refused, and planes that let in who they should and nobody else. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "wire/socket.h"

static char dir[] = "/tmp/lacuna-keys-XXXXXX";
static lac_error err;

static const char *at(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void write_file(const char *name, mode_t mode, const char *text)
{
    FILE *f = fopen(at(name), "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    chmod(at(name), mode);
}

static lac_key make(const char *name)
{
    lac_key key;
    ck_assert_msg(lac_key_make(at(name), &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac_key_load(at(name), &key, &err) == LAC_OK, "%s", err.text);
    return key;
}

static void setup(void)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf -- '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(a_key_is_its_owners_and_never_replaced)
{
    lac_key key = make("a.key"), again;
    char public_key[LAC_KEY_TEXT + 1];
    struct stat info;
    ck_assert_int_eq(stat(at("a.key"), &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0600);
    ck_assert_int_eq(lac_key_load_public(at("a.key.pub"), public_key, &err), LAC_OK);
    ck_assert_str_eq(public_key, key.public_key);
    ck_assert_int_eq(lac_key_make(at("a.key"), &err), LAC_EEXIST);
    chmod(at("a.key"), 0640);
    ck_assert_int_eq(lac_key_load(at("a.key"), &again, &err), LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "chmod 600"));
    ck_assert_int_eq(lac_key_load(at("none.key"), &again, &err), LAC_ENOTFOUND);
    write_file("bad.key", 0600, "public short\nsecret shorter\n");
    ck_assert_int_eq(lac_key_load(at("bad.key"), &again, &err), LAC_ECORRUPT);
    ck_assert_int_eq(lac_key_load_public(at("bad.key"), public_key, &err), LAC_ECORRUPT);
}
END_TEST

START_TEST(allow_files_are_read_strictly)
{
    lac_key a = make("a.key"), b = make("b.key");
    lac_allowed *list = NULL;
    size_t count = 0;
    char text[512];
    snprintf(text, sizeof text, "# who may come\n\nworker g0 %s\nadmin * %s\r\n", a.public_key,
             b.public_key);
    write_file("allow", 0644, text);
    ck_assert_msg(lac_allow_load(at("allow"), &list, &count, &err) == LAC_OK, "%s", err.text);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(list[0].role, LAC_ROLE_WORKER);
    ck_assert_str_eq(list[0].name, "g0");
    ck_assert_int_eq(list[1].role, LAC_ROLE_ADMIN);
    free(list);

    static const struct {
        const char *format, *says;
    } bad[] = {
        {"", "lets nobody in"},
        {"worker g0\n", ":1: expected ROLE NAME KEY"},
        {"worker g0 %s more\n", "expected ROLE NAME KEY"},
        {"\nking g0 %s\n", ":2: role is \"king\""},
        {"worker g/0 %s\n", "name is \"g/0\""},
        {"worker g0 abc\n", "40 characters of Z85"},
        {"worker g0 %1$s\nclient x %1$s\n", ":2: this key is there already (worker g0)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, bad[i].format, a.public_key);
#pragma GCC diagnostic pop
        write_file("allow", 0644, text);
        ck_assert_int_ne(lac_allow_load(at("allow"), &list, &count, &err), LAC_OK);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s", err.text);
    }
}
END_TEST

/* ---- planes ---- */

static uv_loop_t loop;
static lac_wire *server;
static lac_socket *workers, *clients;
static struct {
    unsigned messages;
    lac_role role;
    char name[LAC_NAME_MAX + 1];
} got;

static void on_message(void *arg, uint64_t peer, const lac_msg *msg)
{
    const char *name;
    (void)peer;
    (void)msg;
    got.role = lac_socket_sender(*(lac_socket **)arg, &name);
    snprintf(got.name, sizeof got.name, "%s", name);
    got.messages++;
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until `done`, or for `ms`. */
static bool turn(bool (*done)(void), uint64_t ms)
{
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, 10, 10);
    uint64_t end = lac_now_ms() + ms;
    while (!done() && lac_now_ms() < end)
        uv_run(&loop, UV_RUN_ONCE);
    bool is = done();
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    return is;
}

static bool one_message(void)
{
    return got.messages > 0;
}

static bool one_refused(void)
{
    return lac_wire_guard_refused(server) > 0;
}

static void open_server(const char *allow)
{
    lac_key own = make("server.key");
    write_file("allow", 0644, allow);
    uv_loop_init(&loop);
    ck_assert_int_eq(lac_wire_create(&server, &err), LAC_OK);
    ck_assert_msg(lac_wire_guard(server, &own, at("allow"), &err) == LAC_OK, "%s", err.text);
    lac_socket_events w = {.arg = &workers, .message = on_message};
    lac_socket_events c = {.arg = &clients, .message = on_message};
    /* With keys a plane may be wider than this machine. */
    ck_assert_msg(lac_socket_open(server, &loop, LAC_SOCKET_LISTEN_WORKERS, "tcp://0.0.0.0:0",
                                  false, &w, &workers, &err) == LAC_OK,
                  "%s", err.text);
    ck_assert_int_eq(lac_socket_open(server, &loop, LAC_SOCKET_LISTEN_CLIENTS, "tcp://127.0.0.1:0",
                                     false, &c, &clients, &err),
                     LAC_OK);
}

/* One process that tries: with a key, or without any. */
typedef struct {
    lac_wire *wire;
    lac_socket *socket;
} caller;

static caller call(const lac_key *key, const char *server_key, const lac_socket *plane)
{
    caller c = {0};
    char endpoint[LAC_ENDPOINT_MAX + 1];
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1%s",
             strrchr(lac_socket_endpoint(plane), ':'));
    memset(&got, 0, sizeof got);
    ck_assert_int_eq(lac_wire_create(&c.wire, &err), LAC_OK);
    if (key)
        ck_assert_int_eq(lac_wire_trust(c.wire, key, server_key, &err), LAC_OK);
    lac_socket_events events = {.arg = &c, .message = on_message};
    ck_assert_int_eq(lac_socket_open(c.wire, &loop, LAC_SOCKET_CONNECT, endpoint, false, &events,
                                     &c.socket, &err),
                     LAC_OK);
    return c;
}

static caller *sender;
static bool sent(void)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_STATUS_QUERY, .seq = 1},
                   .body.status_query.stream = 1};
    return lac_socket_send(sender->socket, 1, &msg, &err) == LAC_OK;
}

static void hang_up(caller *c)
{
    lac_socket_close(&c->socket);
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    lac_wire_destroy(&c->wire);
}

static void close_server(void)
{
    lac_socket_close(&workers);
    lac_socket_close(&clients);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    lac_wire_destroy(&server);
}

static void expect_in(const lac_key *key, const char *server_key, const lac_socket *plane,
                      lac_role role, const char *name)
{
    caller c = call(key, server_key, plane);
    sender = &c;
    ck_assert(turn(sent, 10000));
    ck_assert(turn(one_message, 10000));
    ck_assert_int_eq(got.role, role);
    ck_assert_str_eq(got.name, name);
    hang_up(&c);
}

/* Nothing is ever sent: the connection does not stand. */
static void expect_out(const lac_key *key, const char *server_key, const lac_socket *plane)
{
    caller c = call(key, server_key, plane);
    sender = &c;
    ck_assert(!turn(sent, 500));
    ck_assert_uint_eq(got.messages, 0);
    hang_up(&c);
}

START_TEST(who_is_on_the_list_comes_in_on_the_planes_of_its_role)
{
    lac_key worker = make("w.key"), admin = make("a.key"), stranger = make("s.key");
    char allow[256], server_key[LAC_KEY_TEXT + 1];
    snprintf(allow, sizeof allow, "worker g0 %s\nadmin root %s\n", worker.public_key,
             admin.public_key);
    open_server(allow);
    ck_assert_int_eq(lac_key_load_public(at("server.key.pub"), server_key, &err), LAC_OK);
    expect_in(&worker, server_key, workers, LAC_ROLE_WORKER, "g0");
    expect_in(&admin, server_key, clients, LAC_ROLE_ADMIN, "root");
    ck_assert_uint_eq(lac_wire_guard_refused(server), 0);
    expect_out(&stranger, server_key, workers);
    ck_assert(turn(one_refused, 5000));
    expect_out(&admin, server_key, workers); /* the other plane is not its own */
    expect_out(&worker, server_key, clients);
    expect_out(NULL, NULL, workers);                   /* no key at all */
    expect_out(&worker, stranger.public_key, workers); /* another server than it trusts */
    close_server();
}
END_TEST

START_TEST(the_list_can_be_read_again)
{
    lac_key first = make("1.key"), second = make("2.key");
    char allow[256], server_key[LAC_KEY_TEXT + 1];
    snprintf(allow, sizeof allow, "client one %s\n", first.public_key);
    open_server(allow);
    lac_key_load_public(at("server.key.pub"), server_key, &err);
    expect_in(&first, server_key, clients, LAC_ROLE_CLIENT, "one");
    write_file("allow", 0644, "nonsense\n");
    ck_assert_int_ne(lac_wire_guard_reload(server, &err), LAC_OK);
    expect_in(&first, server_key, clients, LAC_ROLE_CLIENT, "one"); /* the old list stays */
    snprintf(allow, sizeof allow, "client two %s\n", second.public_key);
    write_file("allow", 0644, allow);
    ck_assert_int_eq(lac_wire_guard_reload(server, &err), LAC_OK);
    expect_in(&second, server_key, clients, LAC_ROLE_CLIENT, "two");
    expect_out(&first, server_key, clients);
    close_server();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire_keys");
    TCase *keys = tcase_create("keys");
    tcase_set_timeout(keys, 120);
    tcase_add_checked_fixture(keys, setup, teardown);
    tcase_add_test(keys, a_key_is_its_owners_and_never_replaced);
    tcase_add_test(keys, allow_files_are_read_strictly);
    tcase_add_test(keys, who_is_on_the_list_comes_in_on_the_planes_of_its_role);
    tcase_add_test(keys, the_list_can_be_read_again);
    suite_add_tcase(suite, keys);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
