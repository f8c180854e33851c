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

#endif
