/* Asks a running cluster one question and prints the answer as it comes.
 *
 *   cc ask.c -o ask $(pkg-config --cflags --libs lacuna_client)
 *   ./ask "Why is the sky blue?" [tcp://127.0.0.1:7070]
 */
#include <lacuna_client.h>
#include <stdio.h>

static int fail(int code)
{
    fprintf(stderr, "ask: %s\n", lac_client_error());
    return -code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: ask QUESTION [tcp://HOST:PORT]\n");
        return 1;
    }
    lac_client *client = NULL;
    int rc = lac_client_connect(argc > 2 ? argv[2] : NULL, &client);
    if (rc)
        return fail(rc);

    lac_client_message question = {.role = "user", .content = argv[1]};
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    request.messages = &question;
    request.messages_count = 1;
    request.max_tokens = 256;
    request.temperature = 0;

    lac_stream *stream = NULL;
    lac_client_piece piece = {0};
    rc = lac_client_submit(client, &request, &stream);
    while (rc == LAC_CLIENT_OK && !piece.done) {
        rc = lac_stream_next(stream, -1, &piece);
        if (rc == LAC_CLIENT_OK) {
            fwrite(piece.text, 1, piece.length, stdout);
            fflush(stdout);
        }
    }
    int status = 0;
    if (rc) {
        status = fail(rc);
    } else {
        uint32_t prompt_tokens, completion_tokens;
        lac_stream_usage(stream, &prompt_tokens, &completion_tokens);
        fprintf(stderr, "\n%u + %u tokens, finish: %s\n", prompt_tokens, completion_tokens,
                piece.finish);
    }
    lac_stream_close(&stream);
    lac_client_close(&client);
    return status;
}
