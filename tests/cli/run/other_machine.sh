#!/bin/sh
# A plan for kernels that this machine cannot run is refused with the command
# that plans the program again for this machine.
. "$(dirname "$0")/../common.inc"
program=$source/examples/softmax.dv
case $(uname -m) in
aarch64 | arm64) foreign=avx2 ;;
*) foreign=neon ;;
esac
sed "s/\"avx2\"/\"$foreign\"/" "$source/tests/choices/avx2.dv" >other.dv
expect 0 '' "$divvy" plan "$program" -t other.dv -o other.plan
for file in other.plan "$program -t other.dv"; do
    # shellcheck disable=SC2086 # the second one is several words
    expect 3 "kernels for $foreign, which this machine cannot run: it has" "$divvy" run $file
    command=$(sed -n 's/.*; divvy \(plan PROGRAM .*\) plans the program again.*/\1/p' .err)
    # shellcheck disable=SC2086 # the command is several words
    set -- $command
    expect 0 '' "$divvy" "$1" "$program" "$3" "$4" -o here.plan
    expect 0 '' "$divvy" run here.plan --verify
    has 'verify: ok'
done
expect 3 'plans the program again for this machine' "$divvy" bench other.plan
finish
