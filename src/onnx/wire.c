// Reads the wire format of Protocol Buffers.
#include "onnx/wire.h"

int dv_wire_varint(dv_wire *w, uint64_t *out)
{
    uint64_t value = 0;
    if (w->failed || w->at == w->end)
        return 0;
    for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        uint8_t byte = *w->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return 1;
        }
    }
    w->failed = 1;
    return 0;
}

// Reads a little-endian number of n bytes.
static int fixed(dv_wire *w, int n, uint64_t *out)
{
    if (w->end - w->at < n) {
        w->failed = 1;
        return 0;
    }
    *out = 0;
    for (int i = 0; i < n; i++)
        *out |= (uint64_t)*w->at++ << (8 * i);
    return 1;
}

static int bytes(dv_wire *w, dv_wire_field *f)
{
    uint64_t len;
    if (!dv_wire_varint(w, &len) || len > (uint64_t)(w->end - w->at)) {
        w->failed = 1;
        return 0;
    }
    f->at = w->at;
    f->len = (size_t)len;
    w->at += len;
    return 1;
}

int dv_wire_next(dv_wire *w, dv_wire_field *f)
{
    uint64_t key;
    *f = (dv_wire_field){0};
    if (!dv_wire_varint(w, &key))
        return 0;
    f->number = (uint32_t)(key >> 3);
    f->kind = (int)(key & 7);
    int ok = 0;
    if (key >> 3 && key >> 3 <= 0x1fffffff) {
        if (f->kind == DV_WIRE_VARINT)
            ok = dv_wire_varint(w, &f->value);
        else if (f->kind == DV_WIRE_FIXED64)
            ok = fixed(w, 8, &f->value);
        else if (f->kind == DV_WIRE_BYTES)
            ok = bytes(w, f);
        else if (f->kind == DV_WIRE_FIXED32)
            ok = fixed(w, 4, &f->value);
    }
    w->failed |= !ok;
    return ok;
}

dv_wire dv_wire_open(const dv_wire_field *f)
{
    return (dv_wire){f->at, f->at + f->len, 0};
}
