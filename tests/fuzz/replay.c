/*
 * replay.c - runs a fuzz target over stored inputs, without libFuzzer.
 *
 *     walk_replay FILE…      a .hex file holds one input a line, # starts a comment; any other file
 * is one input
 *
 * Each input is in a block of exactly its size, so that Valgrind and ASan see a read past the end.
 */
#include "fuzz.h"

#include <string.h>

static int inputs;

static int hex_value(int c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Runs one input, which it copies. Returns false without memory. */
static int run_input(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size ? size : 1);
    if (!block) {
        return 0;
    }
    memcpy(block, data, size);
    LLVMFuzzerTestOneInput(block, size);
    free(block);
    inputs++;
    return 1;
}

/* Bytes of the file, for the caller to free; NULL on failure. */
static uint8_t *read_file(const char *path, size_t *size)
{
    uint8_t *data = NULL;
    FILE *f = fopen(path, "rb");
    if (!f) {
        return NULL;
    }
    long end = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    if (end < 0 || fseek(f, 0, SEEK_SET)) {
        goto done;
    }
    *size = (size_t)end;
    data = malloc(*size + 1);
    if (data && fread(data, 1, *size, f) != *size) {
        free(data);
        data = NULL;
    }
done:
    fclose(f);
    return data;
}

/* Decodes a line in place. Returns how many bytes, or -1 when it is malformed. */
static long decode_line(uint8_t *line, size_t size)
{
    long n = 0;
    if (size % 2) {
        return -1;
    }
    for (size_t i = 0; i < size; i += 2) {
        int high = hex_value(line[i]), low = hex_value(line[i + 1]);
        if (high < 0 || low < 0) {
            return -1;
        }
        line[n++] = (uint8_t)(high << 4 | low);
    }
    return n;
}

static int run_hex(uint8_t *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint8_t *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        if (length && text[at] != '#') {
            long n = decode_line(text + at, length);
            if (n < 0 || !run_input(text + at, (size_t)n)) {
                return 0;
            }
        }
        at += length + 1;
    }
    return 1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t size = 0;
        size_t length = strlen(argv[i]);
        uint8_t *data = read_file(argv[i], &size);
        int is_hex = length > 4 && strcmp(argv[i] + length - 4, ".hex") == 0;
        int ok = data && (is_hex ? run_hex(data, size) : run_input(data, size));
        free(data);
        if (!ok) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
    }
    printf("%d passed, 0 failed\n", inputs);
    return inputs == 0;
}
