/* Philox4x32-10 (Salmon et al., 2011): the draws of core/randomness.py, a sample at a time. */
#include "kernel.h"

enum { ROUNDS = 10 };

static void philox(uint32_t counter[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = (uint64_t)counter[0] * 0xD2511F53u, second = (uint64_t)counter[2] * 0xCD9E8D57u;
        counter[0] = (uint32_t)(second >> 32) ^ counter[1] ^ key0;
        counter[1] = (uint32_t)second;
        counter[2] = (uint32_t)(first >> 32) ^ counter[3] ^ key1;
        counter[3] = (uint32_t)first;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

static double uniform(uint32_t high, uint32_t low) {
    uint64_t mantissa = (uint64_t)(high >> 5) << 26 | low >> 6;
    return (double)mantissa * 0x1p-53;
}

void philox_uniforms(const uint32_t key[2], uint32_t epoch, const int64_t *samples, size_t count,
                     size_t draws, double *out) {
    for (size_t sample = 0; sample < count; sample++) {
        uint64_t id = (uint64_t)samples[sample];
        for (size_t draw = 0; draw < draws; draw += 2) {
            uint32_t words[4] = {(uint32_t)id, (uint32_t)(id >> 32), epoch, (uint32_t)(draw / 2)};
            philox(words, key[0], key[1]);
            *out++ = uniform(words[0], words[1]);
            if (draw + 1 < draws) *out++ = uniform(words[2], words[3]);
        }
    }
}
