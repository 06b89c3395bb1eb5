/* What the fuzz targets share: taking an input apart, and failing. An input that is used up gives zeros. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *at, *end;
} input;

static inline size_t left(const input *in) { return (size_t)(in->end - in->at); }
static inline uint8_t take(input *in) { return in->at < in->end ? *in->at++ : 0; }
static inline uint32_t below(input *in, uint32_t n) { return take(in) % n; }
/* Up to `most` bytes, which stay where they are. */
static inline size_t take_bytes(input *in, const uint8_t **bytes, size_t most)
{
    size_t n = left(in) < most ? left(in) : most;
    *bytes = in->at;
    in->at += n;
    return n;
}
static inline uint64_t take_u64(input *in)
{
    uint64_t v = 0;
    const uint8_t *bytes;
    size_t n = take_bytes(in, &bytes, 8);
    if (n)
        memcpy(&v, bytes, n);
    return v;
}
static inline double take_double(input *in)
{
    static const double some[] = {0, -0.0, 1, -1, 2, 0.5, 1e300, -1e300, 2147483647, 2147483648.0, -2147483648.0,
                                  9007199254740993.0, 9223372036854775808.0, 18446744073709551616.0, 5e-324, 1.0 / 3};
    uint8_t kind = take(in);
    uint64_t bits;
    double d;
    if (kind < sizeof some / sizeof *some)
        return some[kind];
    if (kind < 128)
        return kind - 64;
    bits = take_u64(in);
    memcpy(&d, &bits, 8);
    return d;
}

/* What must hold. libFuzzer keeps the input by which it did not. */
#define HOLDS(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

#endif
