// Draws placements of buffers: time runs from left to right, addresses upwards.
#ifndef DV_CLI_PICTURE_H
#define DV_CLI_PICTURE_H
#include "base/text.h"
#include "divvy/place.h"

void cli_draw_svg(dv_text *out, const dv_placement *p, const dv_buffer *b,
                  int64_t capacity);
// Draws a placement of buffers in memory over time, with one letter per buffer,
// and lists below what the letters mean.
void cli_draw_text(dv_text *out, const dv_placement *p, const dv_buffer *b,
                   int64_t capacity);
#endif
