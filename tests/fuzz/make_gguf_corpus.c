/* Writes the seeds of fuzz_gguf into the folder named on the command line. */
#include <stdio.h>

#include "gguf_builder.h"

static void save(builder *b, const char *folder, const char *name)
{
    char path[4096];
    lac_buf out = {0};
    build_finish(b, &out);
    build_free(b);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(out.data, 1, out.length, file) != out.length || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    lac_buf_free(&out);
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    static builder b;
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "tiny-%s", archs[i]);
        build_tiny(&b, archs[i]);
        save(&b, argv[1], name);
    }
    build_tiny(&b, "llama");
    build_add_tensor(&b, "output.weight", LAC_TYPE_F16, TINY_HIDDEN, TINY_VOCAB);
    build_add_tensor(&b, "rope_freqs.weight", LAC_TYPE_F32, 4, 0);
    build_text(&b, "llama.rope.scaling.type", "linear");
    build_f32(&b, "llama.rope.scaling.factor", 2);
    build_u32(&b, "general.alignment", 64);
    b.alignment = 64;
    save(&b, argv[1], "own-head");
    build_init(&b);
    build_tiny_tokenizer(&b);
    save(&b, argv[1], "tokenizer-alone");
    build_init(&b);
    build_bool(&b, "bool", 1);
    build_raw(&b, "f64", LAC_GGUF_F64, "12345678", 8);
    lac_buf_add(build_array(&b, "u16s", LAC_GGUF_U16, 2), "1234", 4);
    build_texts(&b, "texts", archs, 3);
    build_add_tensor(&b, "t", LAC_TYPE_Q8_0, 32, 2);
    save(&b, argv[1], "kinds");
    build_init(&b);
    save(&b, argv[1], "empty");
    build_init(&b);
    build_u32(&b, "split.no", 0);
    build_u32(&b, "split.count", 2);
    build_u32(&b, "split.tensors.count", 0);
    save(&b, argv[1], "split");
    return 0;
}
