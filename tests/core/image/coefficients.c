/* Writes the quantised coefficients of the JPEG on standard input, as libjpeg reads them.
 *
 * int32: width, height, components, 1 grey | 2 RGB | 3 YCbCr
 * for each component int32: blocks across and down in an MCU, block columns, block rows (whole MCUs)
 *                    uint16[64]: its quantisation table, natural order
 * for each component int16[block rows][block columns][64], natural order */
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

static void put(int value) {
    int32_t word = value;
    fwrite(&word, sizeof word, 1, stdout);
}

static int filled(JDIMENSION blocks, int factor) {
    return ((int)blocks + factor - 1) / factor * factor;
}

int main(void) {
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors;
    codec.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&codec);
    jpeg_stdio_src(&codec, stdin);
    jpeg_read_header(&codec, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&codec);
    put((int)codec.image_width);
    put((int)codec.image_height);
    put(codec.num_components);
    put((int)codec.jpeg_color_space);
    for (int k = 0; k < codec.num_components; k++) {
        jpeg_component_info *component = &codec.comp_info[k];
        /* A single component is not interleaved: its MCU is a block, whatever its factors. */
        if (codec.num_components == 1) component->h_samp_factor = component->v_samp_factor = 1;
        put(component->h_samp_factor);
        put(component->v_samp_factor);
        put(filled(component->width_in_blocks, component->h_samp_factor));
        put(filled(component->height_in_blocks, component->v_samp_factor));
        fwrite(component->quant_table->quantval, sizeof(UINT16), 64, stdout);
    }
    for (int k = 0; k < codec.num_components; k++) {
        jpeg_component_info *component = &codec.comp_info[k];
        int columns = filled(component->width_in_blocks, component->h_samp_factor);
        int rows = filled(component->height_in_blocks, component->v_samp_factor);
        for (int row = 0; row < rows; row++) {
            JBLOCKARRAY blocks = codec.mem->access_virt_barray((j_common_ptr)&codec, arrays[k],
                                                               (JDIMENSION)row, 1, FALSE);
            fwrite(blocks[0], sizeof(JBLOCK), (size_t)columns, stdout);
        }
    }
    jpeg_finish_decompress(&codec);
    jpeg_destroy_decompress(&codec);
    return errors.num_warnings ? 4 : 0;
}
