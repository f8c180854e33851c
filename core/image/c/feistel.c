/* The epoch order's bijection: core/feistel.py, a place at a time. */
#include "kernel.h"

typedef struct {
    const uint64_t *keys;
    unsigned low_bits;
    uint64_t high_mask, low_mask;
} network;

/* The finaliser of splitmix64. */
static uint64_t scramble(uint64_t value) {
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

static uint64_t once(const network *net, uint64_t value) {
    uint64_t high = value >> net->low_bits, low = value & net->low_mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round += 2) {
        high ^= scramble(low ^ net->keys[round]) & net->high_mask;
        low ^= scramble(high ^ net->keys[round + 1]) & net->low_mask;
    }
    return high << net->low_bits | low;
}

void feistel_permute(uint64_t *places, size_t count, const uint64_t keys[FEISTEL_ROUNDS],
                     unsigned bits, uint64_t below) {
    unsigned low_bits = bits / 2;
    network net = {keys, low_bits, ((uint64_t)1 << (bits - low_bits)) - 1,
                   ((uint64_t)1 << low_bits) - 1};
    for (size_t at = 0; at < count; at++)
        do
            places[at] = once(&net, places[at]);
        while (places[at] >= below);
}
