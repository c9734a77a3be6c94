// Where the elements of a tensor of a model are that the file has as raw data:
// in the file if they are aligned for their type, otherwise in a copy.
#include "harness/test.h"
#include "base/dtype.h"
#include "onnx/model.h"
#include <string.h>

static const float values[2] = {1.5f, -2};

// Reads a TensorProto of two floats whose raw data begin `shift` bytes after an
// aligned address. Returns whether its elements are in the bytes that were
// read.
static int is_in_place(int shift)
{
    enum { HEAD = 6, AT = 16 };
    static const unsigned char head[HEAD] = {0x08, 2,              // dims: 2
                                             0x10, DV_ONNX_FLOAT,  // data_type
                                             0x4a, sizeof values}; // raw_data
    _Alignas(16) unsigned char bytes[AT + 3 + sizeof values];
    unsigned char *raw = bytes + AT + shift;
    memcpy(raw - HEAD, head, HEAD);
    memcpy(raw, values, sizeof values);
    dv_arena arena = {0};
    dv_source src = {"tensor.pb", "", 0};
    dv_onnx_tensor t;
    const void *data = NULL;
    assert_int_equal(dv_onnx_read_tensor(&t, raw - HEAD, HEAD + sizeof values,
                                         &src, &arena, NULL),
                     DV_OK);
    assert_int_equal(dv_onnx_elements(&data, &t, &src, &arena, NULL), DV_OK);
    assert_int_equal((uintptr_t)data % sizeof(float), 0);
    assert_memory_equal(data, values, sizeof values);
    dv_arena_free(&arena);
    return data == raw;
}

TEST(aligned_elements_are_not_copied)
{
    for (int shift = 0; shift < 4; shift++)
        assert_int_equal(is_in_place(shift), shift == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_elements_are_not_copied),
    };
    return run_group(tests, NULL, NULL);
}
