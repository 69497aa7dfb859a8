/* lacuna keys: makes the key files that coordinators, workers and clients are given. Local; asks
 * nobody. */
#include <string.h>

#include "cli.h"

static const char help[] =
    "Makes a pair of keys: FILE, which stays with its owner, and FILE.pub for others.\n\n"
    "  lacuna keys new coordinator.key     # on the coordinator's host\n"
    "  lacuna keys new g0.key              # on the worker's host\n\n"
    "The coordinator is started with --key coordinator.key --allow allowed, where `allowed` has a\n"
    "line for each key that may connect, the key being the one in FILE.pub:\n\n"
    "  worker g0 KEY                       # the group it may be, or *\n"
    "  client kim KEY\n"
    "  admin root KEY                      # may also scale, drain, force\n\n"
    "Workers get --key g0.key --server-key coordinator.key.pub, and so does this program.\n\n"
    "  lacuna keys api kim                 # an API key for HTTP, shown once, and its line for "
    "the\n"
    "                                      # file of lacuna-coordinator --api-keys\n";

static int api_key(const char *name)
{
    char key[LAC_CLIENT_API_KEY + 1], hash[LAC_CLIENT_API_HASH + 1];
    if (!*name || strlen(name) > 64 || strpbrk(name, " \t\r\n#"))
        return cli_misuse("keys", "name is '%s', allowed: 1..64 bytes without spaces", name);
    lac_client_api_key_make(key, hash);
    printf("%s\n", key);
    fprintf(stderr, "the key is shown this once; add this line to the file of --api-keys:\n%s %s\n",
            name, hash);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

int cli_keys(int argc, char **argv, const char *endpoint)
{
    const cli_spec spec = {"keys", "new FILE | api NAME", help, NULL, 0};
    const char *words[2];
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 2, &count);
    if (code >= 0)
        return code;
    if (count == 2 && !strcmp(words[0], "api"))
        return api_key(words[1]);
    if (count != 2 || strcmp(words[0], "new") != 0)
        return cli_misuse("keys", "allowed: new FILE, api NAME");
    if (lac_client_key_make(words[1])) {
        fprintf(stderr, "lacuna: %s\n", lac_client_error());
        return CLI_FAILED;
    }
    printf("%s (keep it secret), %s.pub (give it away)\n", words[1], words[1]);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}
