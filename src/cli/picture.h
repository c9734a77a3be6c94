// Draws placements of buffers: time runs from left to right, addresses upwards.
#ifndef DV_CLI_PICTURE_H
#define DV_CLI_PICTURE_H
#include "base/text.h"
#include "divvy/place.h"

void cli_draw_svg(dv_text *out, const dv_placement *p, const dv_buffer *b,
                  int64_t capacity);
// Returns the letter that stands for buffer i in the drawing of cli_draw_text.
char cli_letter(int32_t i);
void cli_draw_text(dv_text *out, const dv_placement *p, const dv_buffer *b,
                   int64_t capacity);
#endif
