// SPDX-License-Identifier: MIT
#include "png/image.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

enum { LEGEND_COLUMNS = 3, LEGEND_SCALE = 2, LEGEND_ROWS = 24, SWATCH = 16, MARGIN = 12 };

// libpng calls these; an error leaves through longjmp, to the setjmp of whoever called libpng.
static void on_error(png_structp png, png_const_charp message)
{
    struct as_image *image = png_get_error_ptr(png);
    if (image->err && image->err->code == AS_OK)
        as_fail(image->err, AS_INTERNAL, "libpng: %s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_write(png_structp png, png_bytep data, size_t size)
{
    struct as_image *image = png_get_io_ptr(png);
    if (!as_output_write(image->file, data, size, image->written, image->err))
        png_error(png, "write failed");
    image->written += size;
}

static void on_flush(png_structp png)
{
    (void)png;
}

// Bytes of a pixel in the band.
static size_t depth(const struct as_image *image)
{
    return image->means ? 3 : 1;
}

static bool begin_rows(struct as_image *image, uint32_t height)
{
    image->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, image, on_error, on_warning);
    image->info = image->png ? png_create_info_struct(image->png) : NULL;
    if (!image->info)
        return as_fail(image->err, AS_NO_MEMORY, "no memory to write a PNG");
    png_structp png = image->png;
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_color colours[AS_COLOUR_COUNT];
    for (int i = 0; i < AS_COLOUR_COUNT; i++) {
        const uint8_t *rgb = as_colours[i].rgb[image->palette];
        colours[i] = (png_color){rgb[0], rgb[1], rgb[2]};
    }
    png_set_write_fn(png, image, on_write, on_flush);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_compression_buffer_size(png, 64 * 1024);
    png_set_IHDR(png, image->info, image->width, height, image->means ? 8 : 4,
                 image->means ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE); // cells of one colour: deflate alone does better
    if (image->means)
        png_set_compression_level(png, 3); // cells of one colour need no long search
    if (!image->means)
        png_set_PLTE(png, image->info, colours, AS_COLOUR_COUNT);
    png_write_info(png, image->info);
    if (!image->means)
        png_set_packing(png); // we hand over a byte per pixel
    return true;
}

static bool end(struct as_image *image)
{
    png_structp png = image->png;
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_write_end(png, NULL);
    return true;
}

bool as_image_write(struct as_output *file, int directory, const char *name, uint32_t width, enum as_palette palette,
                    bool means, bool (*draw)(struct as_image *image, void *context), void *context,
                    struct as_error *err)
{
    struct as_error own = {0}; // on_error checks whether a reason is there already
    struct as_image image = {
        .width = width, .measuring = true, .means = means, .palette = palette, .file = file, .err = &own};
    if (!draw(&image, context)) {
        as_fail(err, own.code, "%s", own.text);
        return false;
    }
    uint32_t height = (uint32_t)image.height;
    image.height = 0;
    image.measuring = false;
    image.band = malloc(width * depth(&image) * AS_BAND_ROWS);
    bool ok = image.band ? as_output_begin_at(file, directory, name, &own)
                         : as_fail(&own, AS_NO_MEMORY, "no memory to draw a picture");
    ok = ok && begin_rows(&image, height) && draw(&image, context) && end(&image) && as_output_finish(file, &own);
    if (image.png)
        png_destroy_write_struct((png_structpp)&image.png, (png_infopp)&image.info);
    free(image.band);
    as_output_close(file);
    return ok || as_fail(err, own.code, "%s", own.text);
}

uint8_t *as_image_band(struct as_image *image)
{
    if (image->measuring)
        return NULL;
    as_image_fill(image, 0, 0, image->width, AS_BAND_ROWS, AS_COLOUR_BACKGROUND);
    return image->band;
}

bool as_image_emit(struct as_image *image, uint32_t rows)
{
    image->height += rows;
    if (image->measuring)
        return true;
    png_structp png = image->png;
    if (setjmp(png_jmpbuf(png)))
        return false;
    for (uint32_t y = 0; y < rows; y++)
        png_write_row(png, image->band + y * image->width * depth(image));
    return true;
}

void as_image_fill(struct as_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                   enum as_colour colour)
{
    if (image->means) {
        as_image_fill_mean(image, x, y, width, height, as_colours[colour].rgb[image->palette]);
        return;
    }
    if (image->measuring || x >= image->width)
        return;
    if (width > image->width - x)
        width = image->width - x;
    for (uint32_t row = y; row < y + height && row < AS_BAND_ROWS; row++)
        memset(image->band + (size_t)row * image->width + x, colour, width);
}

void as_image_fill_mean(struct as_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                        const uint8_t rgb[3])
{
    if (image->measuring || x >= image->width)
        return;
    if (width > image->width - x)
        width = image->width - x;
    for (uint32_t row = y; row < y + height && row < AS_BAND_ROWS; row++) {
        uint8_t *pixel = image->band + ((size_t)row * image->width + x) * 3;
        for (uint32_t i = 0; i < width; i++, pixel += 3)
            memcpy(pixel, rgb, 3);
    }
}

void as_image_letters(struct as_image *image, uint32_t x, uint32_t y, uint32_t scale, const char *text)
{
    for (; *text && x < image->width; text++, x += AS_FONT_ADVANCE * scale) {
        const uint8_t *rows = as_font_glyph(*text);
        for (uint32_t row = 0; row < AS_FONT_HEIGHT; row++) {
            for (uint32_t column = 0; column < AS_FONT_WIDTH; column++) {
                if (rows[row] >> (AS_FONT_WIDTH - 1 - column) & 1)
                    as_image_fill(image, x + column * scale, y + row * scale, scale, scale, AS_COLOUR_TEXT);
            }
        }
    }
}

bool as_image_line(struct as_image *image, uint32_t x, uint32_t scale, const char *text)
{
    as_image_band(image);
    as_image_letters(image, x, scale, scale, text);
    return as_image_emit(image, (AS_FONT_HEIGHT + 3) * scale);
}

bool as_image_gap(struct as_image *image, uint32_t rows)
{
    as_image_band(image);
    return as_image_emit(image, rows);
}

bool as_image_legend(struct as_image *image)
{
    uint32_t column = 0;
    uint32_t column_width = (image->width - MARGIN) / LEGEND_COLUMNS;
    for (int i = 0; i < AS_COLOUR_COUNT; i++) {
        const struct as_colour_info *info = &as_colours[i];
        if (!info->label)
            continue;
        if (column == 0)
            as_image_band(image);
        uint32_t x = MARGIN + column * column_width;
        as_image_fill(image, x, 2, SWATCH, SWATCH, (enum as_colour)i);
        as_image_letters(image, x + SWATCH + 8, 3, LEGEND_SCALE, info->label);
        column = (column + 1) % LEGEND_COLUMNS;
        if (column == 0 && !as_image_emit(image, LEGEND_ROWS))
            return false;
    }
    return column == 0 || as_image_emit(image, LEGEND_ROWS);
}
