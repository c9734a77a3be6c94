#!/bin/sh
# Every model graph gets a plan that passes its check on spyre with 1, 4 and 32
# cores, divided as Torch-Spyre does and as divvy does; small ones run and agree
# with the oracle. On 32 cores no plan moves more bytes through main memory than
# a search over pins did before cores shared operands (pins.csv).
# graphs.sh DIVVY SOURCE
divvy=$1
cd "$2/tests/programs/graphs" || exit 2
bad=0
small="dup_constants_4 hazard_broadcast_read_input hazard_multi_offset_read
hazard_rmsnorm_1x4096_4cores hazard_two_reductions_nontrailing
relayout_probe_broadcast relayout_probe_gather relayout_probe_neg_relu
softmax_rows_512x1024 fanout_8"
n=0
for f in *.dv; do
    name=${f%.dv}
    for cores in 1 4 32; do
        "$divvy" plan "$f" -t spyre --cores $cores -o /dev/null || {
            echo "$name, $cores cores: no plan"
            bad=1
        }
        n=$((n + 1))
    done
    "$divvy" plan "$f" -t spyre --divide seed -o /dev/null 2>/dev/null ||
        case $name in
        granite_embedding_512 | granite_lm_head_S512_c4 | moe_dense_experts_gemma) ;;
        *) echo "$name: seed refuses it"; bad=1 ;;
        esac
done
for name in $small; do
    for how in seed best; do
        "$divvy" run "$name.dv" -t spyre --cores 8 --divide $how --verify >/dev/null || {
            echo "$name, $how: does not verify"
            bad=1
        }
    done
done
while IFS=, read -r name before pins least; do
    [ "$name" = graph ] && continue
    "$divvy" plan "$name.dv" -t spyre --json |
        awk -v name="$name" -v pins="$pins" '
            /"hbm_bytes"/ { sub(/.*: */, ""); moved = $0 / 1e6 }
            END {
                # The table has two decimals.
                if (!moved || moved > pins + .005) {
                    print name ": moves " moved " MB, pins alone reach " pins
                    exit 1
                }
            }' || bad=1
done <pins.csv
echo "$n plans"
exit $bad
