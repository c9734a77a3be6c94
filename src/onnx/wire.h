// The wire format of Protocol Buffers, read in place: a message is a list of
// fields, each a number, a kind and a value. Every length is compared with the
// bytes that are left before it is used.
#ifndef DV_WIRE_H
#define DV_WIRE_H
#include <stddef.h>
#include <stdint.h>

// The wire types of protobuf fields. The deprecated groups are not supported.
enum {
    DV_WIRE_VARINT = 0,
    DV_WIRE_FIXED64 = 1,
    DV_WIRE_BYTES = 2, // a string, a message or a packed list
    DV_WIRE_FIXED32 = 5,
};

typedef struct dv_wire {
    const uint8_t *at, *end; // borrowed
    int failed;              // 1 after a field that is not well formed
} dv_wire;

typedef struct dv_wire_field {
    uint32_t number;
    int kind;
    uint64_t value;    // of a number; for BYTES unset
    const uint8_t *at; // contents of BYTES, inside the message
    size_t len;
} dv_wire_field;

// Reads the next protobuf field. Returns 0 at the end and after a failure.
int dv_wire_next(dv_wire *w, dv_wire_field *f);
// Reads the next number of a packed list of varints. Returns 0 at the end and
// after a failure.
int dv_wire_varint(dv_wire *w, uint64_t *out);
// Returns a reader of the contents of a field (a nested message); if the field
// is a number, the reader is empty.
dv_wire dv_wire_open(const dv_wire_field *f);
#endif
