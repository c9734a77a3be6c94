#!/bin/sh
# ONNX models as programs: commands take them, `divvy import` writes a program
# that computes the same, and refusals name the node.
. "$(dirname "$0")/../common.inc"
models=$source/tests/fuzz/corpus/onnx
for m in "$models"/*; do cp "$m" "$(basename "$m").onnx"; done

for m in matmul reshape shapes conv lstm if; do
    expect 0 '' "$divvy" run $m.onnx --out y=$m.npy
    expect 0 '' "$divvy" import $m.onnx -o $m
    expect 0 '' "$divvy" run $m/program.dv --out y=again.npy --verify
    cmp -s $m.npy again.npy || complain "$m: the imported program computes something else"
    expect 0 '' "$divvy" check $m.onnx
    expect 0 '' "$divvy" plan $m.onnx
done
expect 0 '' "$divvy" run conv.onnx --verify
expect 0 '' "$divvy" bench conv.onnx --runs 1 --seconds 0
expect 0 '' "$divvy" emit conv.onnx --as c -o out
expect 0 '' "$divvy" run symbolic.onnx --set N=2
expect 2 "dim 0 of input 'x' is open: give it with --set N=" "$divvy" run symbolic.onnx
expect 1 "no open dim .* called 'M'" "$divvy" run symbolic.onnx --set N=2 --set M=3
expect 1 "node 0, Nonsense: operator Nonsense is not supported" "$divvy" check no_op.onnx
expect 1 "node 0, Concat: axis 99 of a tensor of 2 dims" "$divvy" check bad_axis.onnx
expect 1 "not in the folder of the model: '../../etc/passwd'" "$divvy" check external_outside.onnx
expect 1 'none.bin cannot be opened' "$divvy" check external_missing.onnx
# Data in a pipe would wait for a writer for ever.
if command -v timeout >/dev/null; then
    mkfifo none.bin
    expect 1 'none.bin is a folder, a pipe or a device; a file is needed' timeout 60 "$divvy" check external_missing.onnx
    rm none.bin
fi
printf 12345678 >none.bin
expect 1 "the shape of 'w' needs 48 bytes, the model gives it 48 from byte 0 of ./none.bin, which has 8$" \
    "$divvy" check external_missing.onnx
rm none.bin
# A program may come through a pipe, by a name or as the standard input.
printf 'input x: f32[8]\ny[i] = x[i] + 1\noutput y\n' >p.dv
mkfifo pipe.dv
cat p.dv >pipe.dv &
expect 0 '' "$divvy" check pipe.dv
cat p.dv | "$divvy" check /dev/stdin >.out 2>.err || complain 'a program through a pipe'
expect 1 'cut off or damaged' "$divvy" check cut.onnx
expect 1 'cannot be opened' "$divvy" check missing.onnx
expect 2 'a model and a folder' "$divvy" import conv.onnx
# Sizes that overflow, and inputs that would have elements outside of memory.
expect 1 'node 0, Expand: a result does not fit 64 bits' "$divvy" check expand_negative.onnx
expect 1 'node 0, Expand: a result does not fit 64 bits' "$divvy" check expand_concat.onnx
expect 1 'Expand: a result has too many dims' "$divvy" check expand_atoms.onnx
expect 1 'node 0, DepthToSpace: .*blocksize is 1 to 2^31 - 1' "$divvy" check blocksize_huge.onnx
expect 1 'node 0, Pad: mode wrap: dim 0 is empty' "$divvy" check pad_empty_wrap.onnx
expect 1 'node 0, Pad: mode reflect: dim 0 is empty' "$divvy" check pad_empty_reflect.onnx
expect 1 'attribute output_shape has 1 entry' "$divvy" check output_shape_short.onnx
expect 1 'attribute pads has 2 entries, not 4' "$divvy" check pads_short.onnx
expect 1 'attribute value is not one number' "$divvy" check constant_empty.onnx
expect 1 "node 0, QuantizeLinear: 'z' has a dim of size 0" "$divvy" check scale_empty.onnx
expect 1 'MaxPool: error.overflow.: the number is below' "$divvy" check pool_i64.onnx
# The upper half of uint64 would be negative numbers.
expect 1 'node 0, Max: uint64 is not supported here' "$divvy" check max_u64.onnx
expect 1 'node 0, BitShift: uint64 is not supported here' "$divvy" check shift_right_u64.onnx
expect 1 'node 0, Cast: uint64 is not supported here' "$divvy" check cast_u64.onnx
expect 1 'node 0, Cast: uint64 is not supported here' "$divvy" check cast_to_u64.onnx
expect 1 'node 0, ScatterElements: uint64 is not supported here' "$divvy" check scatter_max_u64.onnx
expect 0 '' "$divvy" check shift_left_u64.onnx
# Constants that would fill memory at import become statements.
expect 0 '' "$divvy" check expand_bomb.onnx
expect 0 '' "$divvy" check concat_bomb.onnx
expect 1 'dim 2 gets 9e+08 elements' "$divvy" check resize_bomb.onnx
# The name of an output ends a line, so that a statement would follow.
expect 0 '' "$divvy" import name_lines.onnx -o name_lines
grep -q '^const' name_lines/program.dv && complain 'a name became a statement'
# What ONNX's checker refuses.
cp "$source"/tests/onnx/contrib/refused/* .
for m in types attribute inputs opset split_equal split_number split_sum zero_point batch past; do mv $m $m.onnx; done
expect 1 'node 0, Add: inputs 0 and 1 have types f32 and f64, which must be the same' "$divvy" check types.onnx
expect 1 "node 0, Relu: attribute 'slope' is unknown" "$divvy" check attribute.onnx
expect 1 'node 0, Relu: it has 2 inputs, at most 1 are expected' "$divvy" check inputs.onnx
expect 1 "node 0, Gelu: it is an operator of opset 20, the model's is 19" "$divvy" check opset.onnx
expect 1 'node 0, Split: 7 elements cannot be split into 2 equal parts' "$divvy" check split_equal.onnx
expect 1 'node 0, Split: it has 3 parts and 2 outputs' "$divvy" check split_number.onnx
expect 1 'node 0, Split: its parts have 6 elements, the dim 7' "$divvy" check split_sum.onnx
expect 1 'node 0, MatMulIntegerToFloat: a zero point has more than 1 dim' "$divvy" check zero_point.onnx
expect 1 'the number of heads, 2, does not fit its inputs' "$divvy" check batch.onnx
expect 1 'dim 1 of past keys or values has 1 element, not 2' "$divvy" check past.onnx --set t=4
# A chain of 1,000 nodes, x0000 to x1000, each the only reader of the one before:
# inlined into one expression, it would be nested too deep. No node reads the
# input z0000, which can be given all the same.
node=0
{
    printf '\010\010\072\307\244\001' # a graph of 1003 * 21 bytes
    while [ $node -lt 1000 ]; do
        printf '\012\023\012\005x%04d\022\005x%04d\042\003Neg' $node $((node + 1))
        node=$((node + 1))
    done
    value='\022\012\012\010\010\001\022\004\012\002\010\004' # f32[4]
    printf "\132\023\012\005x0000$value\132\023\012\005z0000$value\142\023\012\005x1000$value"
    printf '\102\002\020\021' # opset 17
} >chain.onnx
expect 0 '' "$divvy" run chain.onnx --verify --out x1000=y.npy
expect 0 'the inputs: warning.dead.: z0000 is never used' "$divvy" run chain.onnx --in z0000=y.npy
# A file of 2 GB with nothing in it.
truncate -s 2147483648 large.onnx
expect 1 'no ONNX model' "$divvy" check large.onnx
finish
