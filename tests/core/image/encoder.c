/* Writes a JPEG of any sampling from raw pixels on standard input: what Pillow's encoder cannot.
 * encoder WIDTH HEIGHT COMPONENTS rgb|ycc|grey|cmyk|ycck H1xV1,H2xV2,... baseline|progressive|arithmetic RESTART QUALITY */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static J_COLOR_SPACE stored_as(const char *name) {
    if (!strcmp(name, "rgb")) return JCS_RGB;
    if (!strcmp(name, "ycc")) return JCS_YCbCr;
    if (!strcmp(name, "cmyk")) return JCS_CMYK;
    if (!strcmp(name, "ycck")) return JCS_YCCK;
    return JCS_GRAYSCALE;
}

int main(int count, char **words) {
    if (count != 9) return 2;
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    codec.err = jpeg_std_error(&errors);
    jpeg_create_compress(&codec);
    jpeg_stdio_dest(&codec, stdout);
    codec.image_width = (JDIMENSION)atoi(words[1]);
    codec.image_height = (JDIMENSION)atoi(words[2]);
    codec.input_components = atoi(words[3]);
    codec.in_color_space = codec.input_components == 1   ? JCS_GRAYSCALE
                           : codec.input_components == 3 ? JCS_RGB
                                                         : JCS_CMYK;
    jpeg_set_defaults(&codec);
    jpeg_set_colorspace(&codec, stored_as(words[4]));
    jpeg_set_quality(&codec, atoi(words[8]), TRUE);
    char *at = words[5];
    for (int component = 0; component < codec.num_components; component++) {
        codec.comp_info[component].h_samp_factor = (int)strtol(at, &at, 10);
        codec.comp_info[component].v_samp_factor = (int)strtol(at + 1, &at, 10);
        if (*at == ',') at++;
    }
    if (!strcmp(words[6], "progressive")) jpeg_simple_progression(&codec);
    codec.arith_code = !strcmp(words[6], "arithmetic");
    codec.restart_interval = (unsigned)atoi(words[7]);
    jpeg_start_compress(&codec, TRUE);
    size_t row_bytes = (size_t)codec.image_width * (size_t)codec.input_components;
    JSAMPROW row = malloc(row_bytes);
    while (codec.next_scanline < codec.image_height) {
        if (fread(row, 1, row_bytes, stdin) != row_bytes) return 3;
        jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
    free(row);
    jpeg_destroy_compress(&codec);
    return 0;
}
