/* A JPEG file as a source of rows, decoded by libjpeg-turbo. */
#ifndef DDLP_JPEG_ROWS_H
#define DDLP_JPEG_ROWS_H

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs it */

#include <jpeglib.h>

#include "kernel.h"

typedef struct {
    row_source rows;
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    reason *why;
    int cmyk;
} jpeg_decoder;

/* Errors of libjpeg lead back to `escape`, which must be set. */
void jpeg_decoder_make(jpeg_decoder *decoder);
int jpeg_ran_out_of_memory(const jpeg_decoder *decoder);
void jpeg_open(jpeg_decoder *decoder, const uint8_t *data, size_t size);

/* Reads all scans of a file into memory, from where coefficients and then pixels can be taken; 0 where
 * something is amiss in them. */
int jpeg_read_whole(jpeg_decoder *decoder);

#endif
