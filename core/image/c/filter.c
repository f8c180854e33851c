/* The triangle filter's weights: double precision with basic operations only, then 14 bits. */
#include <math.h>

#include "kernel.h"

enum { ONE = 1 << WEIGHT_BITS };

static int clamped(double value, int low, int high) {
    if (value < low) return low;
    return value > high ? high : (int)value;
}

/* How an axis is sampled: centres lie `scale` apart, each reaches `support` to either side. */
typedef struct {
    double scale, support;
} sampling;

static sampling sampling_of(const span *axis) {
    double scale = axis->extent / axis->size;
    return (sampling){scale, scale > 1 ? scale : 1};
}

static double centre_of(const span *axis, sampling way, int place) {
    return axis->start + (place + 0.5) * way.scale;
}

/* Cutting off the fraction is rounding down here: what is negative is raised to the limit anyway. */
static void find_taps(filter *made, const span *axis, sampling way) {
    made->longest = 0;
    for (int place = 0; place < axis->size; place++) {
        double centre = centre_of(axis, way, place);
        int first = clamped(centre - way.support + 0.5, axis->low, axis->high - 1);
        int stop = clamped(centre + way.support + 0.5, first + 1, axis->high);
        made->first[place] = first;
        made->count[place] = stop - first;
        if (stop - first > made->longest) made->longest = stop - first;
    }
}

/* Running sums of the weights of one place's taps; gives the last one. */
static double add_up(double *sums, int first, int count, double centre, double support) {
    double inverse = 1.0 / support, sum = 0;
    for (int tap = 0; tap < count; tap++) {
        double weight = 1.0 - fabs(first + tap + 0.5 - centre) * inverse;
        sum += weight > 0 ? weight : 0;
        sums[tap] = sum;
    }
    return sum;
}

/* Rounds the running sum, so that the errors of many small weights cancel. */
static void weigh(filter *made, int place, double centre, double support) {
    int16_t *weights = made->weights + (size_t)place * (size_t)made->longest;
    int count = made->count[place], before = 0;
    double total = add_up(made->sums, made->first[place], count, centre, support);
    double unit = total > 0 ? ONE / total : 0;
    for (int tap = 0; tap < made->longest; tap++) {
        int rounded = ONE; /* beyond its own taps, or nothing in reach: the first has all */
        if (tap < count - 1 && total > 0) rounded = (int)(made->sums[tap] * unit + 0.5);
        weights[tap] = (int16_t)(rounded - before);
        before = rounded;
    }
}

static status reserve(filter *made, size_t places, double support) {
    size_t longest = 2 * (size_t)(support + 1) + 2;
    if (buffer_reserve(&made->kept, longest * sizeof(double) + places * (2 * sizeof(int) + longest * sizeof(int16_t))))
        return STATUS_NO_MEMORY;
    made->sums = made->kept.bytes;
    made->first = (int *)(made->sums + longest);
    made->count = made->first + places;
    made->weights = (int16_t *)(made->count + places);
    return STATUS_OK;
}

status filter_make(filter *made, const span *axis) {
    sampling way = sampling_of(axis);
    if (reserve(made, (size_t)axis->size, way.support)) return STATUS_NO_MEMORY;
    made->size = axis->size;
    find_taps(made, axis, way);
    for (int place = 0; place < axis->size; place++)
        weigh(made, place, centre_of(axis, way, place), way.support);
    return STATUS_OK;
}

void filter_free(filter *made) { buffer_free(&made->kept); }

int filter_end(const filter *made) {
    int end = 0;
    for (int place = 0; place < made->size; place++) {
        int stop = made->first[place] + made->count[place];
        if (stop > end) end = stop;
    }
    return end;
}
