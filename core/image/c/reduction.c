/* How far the DCT may reduce a picture, and what a view of it then is. */
#include "kernel.h"

int allowed_reduction(const span *across, const span *down) {
    int reduction = 8;
    while (reduction > 1 && (across->extent < (double)reduction * across->size ||
                             down->extent < (double)reduction * down->size))
        reduction /= 2;
    return reduction;
}

span reduced_span(span axis, int reduction, int length) {
    int shorter = (length + reduction - 1) / reduction, low = axis.low / reduction;
    int high = (axis.high + reduction - 1) / reduction;
    axis.low = low < shorter - 1 ? low : shorter - 1;
    axis.high = high < shorter ? high : shorter;
    axis.start /= reduction;
    axis.extent /= reduction;
    return axis;
}
