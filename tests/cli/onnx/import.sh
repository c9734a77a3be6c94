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
expect 1 'cut off or damaged' "$divvy" check cut.onnx
expect 1 'cannot be opened' "$divvy" check missing.onnx
expect 2 'a model and a folder' "$divvy" import conv.onnx
# A file of 2 GB with nothing in it.
truncate -s 2147483648 large.onnx
expect 1 'no ONNX model' "$divvy" check large.onnx
finish
