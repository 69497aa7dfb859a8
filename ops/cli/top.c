/* lacuna top: the cluster's table, drawn anew every second until q or Ctrl-C. On something that is
 * no terminal the tables follow each other, --count of them. */
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000 };

static const char enter_screen[] = "\033[?1049h\033[?25l", leave_screen[] = "\033[?25h\033[?1049l",
                  redraw[] = "\033[H\033[2J";

static struct termios terminal_before;
static bool drawing;

/* Keys come one by one and unseen; the screen before comes back at the end. */
static void screen_open(void)
{
    struct termios raw;
    drawing =
        isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !tcgetattr(STDIN_FILENO, &terminal_before);
    if (!drawing)
        return;
    raw = terminal_before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs(enter_screen, stdout);
}

static void screen_close(void)
{
    if (!drawing)
        return;
    fputs(leave_screen, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

/* True once the user wants no more. */
static bool wait_or_quit(double seconds)
{
    struct pollfd keys = {.fd = drawing ? STDIN_FILENO : -1, .events = POLLIN};
    char key;
    if (poll(&keys, 1, (int)(seconds * 1000)) > 0 &&
        (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
        return true;
    return cli_interrupted != 0;
}

static int draw(const char *endpoint, const char *before, const char *after, double seconds)
{
    if (drawing)
        fputs(redraw, stdout);
    int code = cli_status_table(before, after);
    if (!code)
        printf(drawing ? "\n%s, every %.1f s; q ends\n" : "\n", endpoint ? endpoint : "", seconds);
    return !code && fflush(stdout) ? CLI_FAILED : code;
}

static int watch(lac_client *client, const char *endpoint, double seconds, long long count)
{
    char *before = NULL, *after = NULL;
    int rc = lac_client_status(client, TIMEOUT_MS, &before), code = CLI_OK;
    for (long long drawn = 0; !rc && !code && (!count || drawn < count); drawn++) {
        if (wait_or_quit(drawn || !drawing ? seconds : 0.3))
            break;
        rc = lac_client_status(client, TIMEOUT_MS, &after);
        if (rc)
            break;
        code = draw(endpoint, before, after, seconds);
        free(before);
        before = after;
        after = NULL;
    }
    free(before);
    screen_close();
    return rc ? cli_fail(endpoint, rc, 0) : code;
}

int cli_top(int argc, char **argv, const char *endpoint)
{
    double seconds = 1;
    long long count = 0;
    const cli_option options[] = {{.name = "every",
                                   .value = "S",
                                   .help = "seconds between two tables (default 1)",
                                   .kind = CLI_NUMBER,
                                   .out = &seconds,
                                   .low = 0.1,
                                   .high = 3600},
                                  {.name = "count",
                                   .value = "N",
                                   .help = "end after so many (default: until q)",
                                   .kind = CLI_WHOLE,
                                   .out = &count,
                                   .low = 1,
                                   .high = 1e9}};
    const cli_spec spec = {"top", "[--every S] [--count N]",
                           "Shows what `lacuna status` shows, again and again: q or Ctrl-C ends.\n",
                           options, 2};
    size_t words;
    int code = cli_parse(&spec, argc, argv, &endpoint, NULL, 0, &words);
    if (code >= 0)
        return code;
    lac_client *client = NULL;
    code = cli_connect(endpoint, &client);
    if (code)
        return code;
    cli_catch_interrupts();
    screen_open();
    code = watch(client, endpoint, seconds, count);
    lac_client_close(&client);
    return code;
}
