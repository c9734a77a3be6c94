#!/bin/sh
# divvy lint: valid plans pass, and known defects of other tools' files are
# named.
. "$(dirname "$0")/../common.inc"

# lint CODE PATTERN [OPTION…]: the result of linting plan.json.
lint() {
    code=$1
    pattern=$2
    shift 2
    "$divvy" lint plan.json "$@" >.out 2>.err
    found=$?
    [ $found = "$code" ] || complain "exit $found, not $code: $(head -c 300 .out)"
    grep -q -- "$pattern" .out || complain "nothing like '$pattern': $(head -c 300 .out)"
}
file() {
    cat >plan.json
}

# -- Files that divvy wrote
for p in static rect streamk streamk1 streamk2 'splitk(4)' 'ticket(3)' steal auto; do
    "$divvy" grid --tiles 5x13 --k 8 --target wormhole --policy "$p" --order hilbert --json >plan.json
    lint 0 'no defects'
done
"$divvy" grid --tiles 8x8 --target wormhole --shards 2x4 --shard-tiles 4x2 --json >plan.json
lint 0 'no defects'
sed 's/"args": \[0, 8, 8, 1, 8, 4, 2, 2, 4, 1, 2\]/"args": [0, 8, 8, 1, 8, 4, 2, 2, 4, 0, 2]/' plan.json >x && mv x plan.json
lint 4 'lost: tile (4,4) is on no core'
"$divvy" grid --tiles 5x13 --k 8 --target wormhole --json >whole.json
# A missing tile, a tile twice, swapped arguments of two cores, a buffer that is
# one byte too small.
sed 's/"args": \[64, 1, 5, 8, 13\]/"args": [64, 0, 5, 8, 13]/' whole.json >plan.json
lint 4 'lost: tiles 64..65 are on no core'
sed 's/"args": \[63, 1, 5, 8, 13\]/"args": [63, 2, 5, 8, 13]/' whole.json >plan.json
lint 4 'duplicate: tiles 64..65 are on core'
sed 's/"args": \[63, 1,/"args": [@, 1,/; s/"args": \[64, 1,/"args": [63, 1,/; s/"args": \[@, 1,/"args": [64, 1,/' whole.json >plan.json
lint 4 'arguments: the arguments of core 7,7 are not the work listed for it'
sed 's/"bytes": 4096}/"bytes": 4095}/' whole.json >plan.json
lint 4 'memory: buffer a has 4095 bytes for 2 tiles of 2048'
sed 's/"memory_limit": [0-9]*/"memory_limit": 12287/' whole.json >plan.json
lint 4 'memory: buffers of 12288 bytes, a core has 12287'
sed 's/"core_xy": \[7, 7\]/"core_xy": [8, 7]/' whole.json >plan.json
lint 4 'off-grid: core 8,7 on a grid of 8x8'
sed 's/"Kt": 8/"Kt": 9/' whole.json >plan.json
lint 4 'has Kt 8, the plan has 9'
# Ranges and groups that lack cores, also all of them.
sed 's/"core_ranges": .*/"core_ranges": [],/' whole.json >plan.json
lint 4 'ranges: core 0,0 has work and is in no range'
sed 's/"all_cores": .*/"all_cores": [[0, 0, 7, 6]],/' whole.json >plan.json
lint 4 'ranges: core 7,7 has work and is in no range of all_cores'
sed 's/"group_1": .*/"group_1": [],/' whole.json >plan.json
lint 4 'ranges: core 0,0 is in no group'
sed 's/"group_1": .*/"group_1": [[0, 0, 0, 1]],/' whole.json >plan.json
lint 4 'ranges: core 0,1 is in both groups'
# Absent cores, roles, chunks, owners.
"$divvy" grid --tiles 4x4 --cores 4x3 --holes 1,1 --holes 3,0-3,2 --json >plan.json
grep -q '"holes": \[\[3, 0, 3, 0\], \[1, 1, 1, 1\], \[3, 1, 3, 1\], \[3, 2, 3, 2\]\]' plan.json || complain 'no holes in the plan'
lint 0 'no defects'
sed 's/"core_xy": \[0, 1\]/"core_xy": [1, 1]/' plan.json >x && mv x plan.json
lint 4 'off-grid: core 1,1 is one of the holes'
"$divvy" grid --tiles 4x4 --cores 2x2 --policy rect --json >plan.json
sed 's/"args": \[0, 4, 4, 1, 4, 0, 2, 0, 2, 1, 1\]/"args": [0, 4, 4, 1, 4, 0, 2, 0, 2, 0, 1]/' plan.json >x && mv x plan.json
lint 4 'arguments: core 0,0 has sends_a 0, its rectangle asks for 1'
"$divvy" grid --tiles 4x4 --cores 2x2 --policy 'ticket(3)' --json >plan.json
sed 's/"args": \[4, 4, 4, 1, 4, 3\]/"args": [4, 4, 4, 1, 4, 2]/' plan.json >x && mv x plan.json
lint 4 'has chunk 2, the plan has 3'
# Rectangles that panels do not reach; rows of a table in any order.
"$divvy" grid --tiles 4x4 --cores 2x2 --policy rect --json >plan.json
sed 's/"core_xy": \[0, 0\]/"core_xy": @/; s/"core_xy": \[1, 1\]/"core_xy": [0, 0]/; s/@/[1, 1]/' plan.json >x && mv x plan.json
lint 4 'arguments: core 1,0 and core 0,0 are in one row and have other rows of tiles'
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ny[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n' >p.dv
for p in rect streamk 'splitk(3)'; do
    "$divvy" plan p.dv -t wormhole --scratch off --policy "$p" >p.plan
    awk '/^        core /{row[n++] = $0; next} n{while (n) print row[--n]} {print}' p.plan >q.plan
    cmp -s p.plan q.plan && complain "$p: the rows are as they were"
    for how in json csv; do
        expect 0 '' "$divvy" emit q.plan --as $how -o turned
        cp turned/group_0.$how plan.json
        lint 0 'no defects'
    done
done
# An empty plan has no defect; large buffers are read as they are.
"$divvy" grid --tiles 0x4x4 --cores 2x2 --policy rect --json >plan.json
lint 0 'no defects'
"$divvy" grid --tiles 100000x1000 --cores 2x2 --policy rect --json >plan.json
lint 0 'no defects'
sed 's/"core_bytes": [0-9]*/&,\n  "memory_limit": 3221225472/' plan.json >x && mv x plan.json
lint 4 'a core has 3221225472'

# -- The same with a missing or wrong part of a row, list or number
# spoil FROM TO PATTERN: lint finds PATTERN after FROM, which must occur, was
# replaced by TO.
spoil() {
    sed "s/$1/$2/" sound.json >plan.json
    cmp -s sound.json plan.json && complain "nothing like '$1' to spoil"
    lint 4 "$3"
}
# rows POLICY: changes the row of core 0,0 in sound.json.
rows() {
    row='\("core_xy": \[0, 0\], \)'
    args='"args": [^]]*\]'
    spoil "$row$args, " '\1' 'arguments: core 0,0 has 0 arguments for [0-9]* names'
    spoil "$row$args" '\1"args": []' 'arguments: core 0,0 has 0 arguments for [0-9]* names'
    spoil '"runtime_args": .*' '"runtime_args": [],' 'arguments: core 0,0 has [0-9]* arguments for 0 names'
    case $1 in rect) return ;; esac
    spoil "$row\($args\), \"segments\": \[\(\[[^]]*\],* *\)*\]" '\1\2, "segments": []' \
        'arguments: the arguments of core 0,0 are not the work listed for it'
    spoil "$row\($args\), \"segments\": \[\(\[[^]]*\],* *\)*\]" '\1\2, "segments": 7' \
        'format: segments of core 0,0 is no list'
}
for p in static rect streamk streamk1 'splitk(2)' dynamic; do
    "$divvy" grid --tiles 6x14 --k 3 --cores 8x8 --policy "$p" --json >sound.json
    rows "$p"
    "$divvy" plan p.dv -t wormhole --scratch off --policy "$p" >p.plan
    expect 0 '' "$divvy" emit p.plan --as json -o emitted
    cp emitted/group_0.json sound.json
    rows "$p"
done
# Units: tiles, steps of streams, parts of tiles.
while read -r policy tiles is says; do
    "$divvy" grid --tiles "$tiles" --k 7 --cores 5x4 --policy "$policy" --json >sound.json
    cp sound.json plan.json
    lint 0 'no defects'
    spoil "\"units_group_1\": $is," '"units_group_1": 77,' "$says"
    spoil "\"units_group_1\": $is," '"units_group_1": -1,' 'format: units_group_1 is no count'
    grep -v '"units_group_[12]"' sound.json >plan.json
    lint 0 'no defects'
    grep -v '"units_group_[12]"\|"group_[12]"' sound.json >plan.json
    lint 0 'no defects'
done <<'F'
static 6x14 5 ranges: core 0,0 has 5 tiles, its group has 77 each
streamk 6x14 30 ranges: core 0,0 has 30 steps, its group has 77 each
splitk(3) 6x14 13 ranges: core 0,0 has 13 parts, its group has 77 each
rect 8x15 6 ranges: core 0,0 has 6 tiles, its group has 77 each
F
"$divvy" grid --tiles 4x4 --cores 2x2 --json >sound.json
spoil '"units_group_2": 0' '"units_group_2": 3' 'ranges: units_group_2 is 3, no core is in group_2'
# Invalid holes, holes outside the grid; overlapping buffers.
"$divvy" grid --tiles 4x4 --cores 8x8 --holes 7,7 --json >sound.json
spoil '"holes": .*' '"holes": "x",' 'format: holes is no list of rectangles'
spoil '"holes": .*' '"holes": [[9, 9, 9, 9]],' 'off-grid: hole (9,9)-(9,9) on a grid of 8x8 cores'
spoil '"holes": .*' '"holes": [[7, 7, 6, 7]],' 'off-grid: hole (7,7)-(6,7) on a grid of 8x8 cores'
spoil '"index": 1,' '"index": 0,' 'memory: buffers a and b both have index 0'
grep -q '^1 defect in plan.json' .out || complain 'not one defect in words'
# The list of single tiles.
"$divvy" grid --tiles 2x2 --k 8 --cores 3x1 --policy streamk --json >sound.json
spoil '\[1, 0, 3\]\]' '[1, 0, 2]]' 'arguments: work_tile_k0_k1 of core 0,0 is not the work of its segments'
spoil '"work_tile_k0_k1": \[.*\]\], "first"' '"work_tile_k0_k1": [], "first"' 'work_tile_k0_k1 of core 0,0 is not'
sed 's/"segments": \[.*\]\], "iter_range"/"iter_range"/' sound.json >plan.json
lint 0 'no defects'

# -- TileLang's partition, which loses half of shards that are not square
file <<'F'
{"tt.partition_mode": "local_shard", "tt.core_grid": [2, 4], "tt.grid_tiles": [8, 8],
 "tt.shard_grid": [2, 4], "tt.local_shape_tiles": [4, 2],
 "tt.work_partition": {"core_0_0": [[0,0],[0,1],[1,0],[1,1],[2,0],[2,1],[3,0],[3,1]],
  "core_0_1": [[0,0],[0,1],[1,0],[1,1],[2,0],[2,1],[3,0],[3,1]],
  "core_1_0": [[0,0],[0,1],[1,0],[1,1],[2,0],[2,1],[3,0],[3,1]],
  "core_1_1": [[0,0],[0,1],[1,0],[1,1],[2,0],[2,1],[3,0],[3,1]],
  "core_2_0": [], "core_2_1": [], "core_3_0": [], "core_3_1": []},
 "tt.core_ranges": [[0,0,0,0],[1,0,1,0],[0,1,0,1],[1,1,1,1],[0,2,0,2],[1,2,1,2],[0,3,0,3],[1,3,1,3]],
 "tt.runtime_args": ["start_id", "count", "Mt", "Kt", "Nt", "Sm", "Sn", "Gy", "Gx", "sy", "sx"]}
F
lint 4 'lost: tile (0,4) is on no core'
grep -q '^32 defects' .out || complain 'not the 32 tiles that are lost'

# -- TileLang's attributes: with the tiles of cores, in every order of names,
# with idle cores and addresses, and without tiles
file <<'F'
{"tt.partition_mode": "global", "tt.core_grid": [2, 2], "tt.grid_tiles": [1, 3],
 "tt.work_partition": {"core_0_0": [[0,0]], "core_0_1": [[0,1]], "core_1_0": [[0,2]], "core_1_1": []},
 "tt.core_ranges": [[0,0,0,0],[1,0,1,0],[0,1,0,1],[1,1,1,1]],
 "tt.runtime_args": ["a_addr", "c_addr", "start_id", "count", "Mt", "Nt", "Kt"]}
F
lint 0 'no defects'
cp plan.json sound.json
spoil '\[1, 3\]' '[1, 2]' 'outside: tile (0,2) of core 0,1'
spoil '\[1, 3\]' '[2, 3]' 'lost: tile (1,0) is on no core'
spoil '"tt.grid_tiles": \[1, 3\]' '"tt.grid_tiles": 3' 'format: grid_tiles is not 2 whole numbers'
spoil '"global"' '"globl"' "format: partition_mode is 'globl', not global or local_shard"
spoil '"global"' '"local_shard"' 'format: partition_mode is local_shard, shard_grid is missing'
spoil '"global"' '"local_shard"' 'arguments: runtime_args has no sy'
spoil '"Mt", ' '' 'arguments: runtime_args has no Mt'
spoil '"Mt", ' '"sx", ' 'arguments: runtime_args has sx, which only partition_mode local_shard has'
spoil '"c_addr", ' '"count", ' 'arguments: runtime_args has count twice'
spoil '"c_addr", ' '7, ' 'format: tt.runtime_args is no list'
spoil '\[1,1,1,1\]' '[2,1,2,1]' 'ranges: core 1,1 has work and is in no range'
spoil '"core_1_1": \[\]' '"core_1_1": [[0,2]]' 'duplicate: tile (0,2) is on core 0,1 and core 1,1'
spoil ', "core_1_1": \[\]' '' 'ranges: ranges name 4 cores, 3 have tiles or an empty list'
file <<'F'
{"tt_partition_mode": "local_shard", "tt_core_grid": [4, 2], "tt_grid_tiles": [8, 8], "tt_shard_grid": [2, 4],
 "tt_local_shape_tiles": [4, 2], "tt_core_ranges": [[0, 0, 3, 1]],
 "tt_runtime_args": ["tt_start_tile", "tt_tile_count", "Mt", "Kt", "Nt", "Sm", "Sn", "Gy", "Gx", "tt_shard_coord_y", "tt_shard_coord_x"]}
F
lint 0 'note: the file does not say which core computes which tiles'
grep -q 'no defects' .out || complain 'defects of sound attributes'
cp plan.json sound.json
spoil '"tt_core_grid": \[4, 2\]' '"tt_core_grid": [2, 4]' 'lost: 2 rows and 4 columns of shards, there are 4 rows and 2 columns of cores'
spoil '\[8, 8\]' '[8, 16]' 'lost: 2x4 shards of 4x2 tiles, there are 8x16 tiles'
spoil '\[8, 8\]' '[4, 8]' 'outside: 2x4 shards of 4x2 tiles, there are 4x8 tiles'
spoil '"tt_grid_tiles": \[8, 8\], ' '' 'format: the file does not say how many tiles there are'
spoil '"local_shard"' '"global"' 'format: partition_mode is global, shard_grid is not of it'
spoil '"tt_shard_coord_y"' '"shard_y"' 'arguments: runtime_args has no sy'
spoil '\[0, 0, 3, 1\]' '[0, 0, 4, 1]' 'off-grid: range (0,0)-(4,1) on a grid of 4x2 cores'
spoil '\[\[0, 0, 3, 1\]\]' '[[0, 0, 3, 1], [3, 1, 3, 1]]' 'ranges: range 0 and 1 overlap'

# -- Its records of buffers, which decide the mode
file <<'F'
{"tt.partition_mode": "local_shard", "tt.core_grid": [8, 8], "tt.grid_tiles": [8, 8], "tt.shard_grid": [2, 4],
 "tt.local_shape_tiles": [4, 2], "tt.core_ranges": [[0, 0, 3, 1]],
 "tt.buffer.A": {"memory": "DRAM", "layout": "interleaved"},
 "tt.buffer.C": {"memory": "L1", "layout": "sharded", "nd_shard": {"axes": ["M", "N"], "grid": [2, 4], "projected_grid": [2, 4]}},
 "tt.runtime_args": ["start_id", "count", "Mt", "Kt", "Nt", "Sm", "Sn", "Gy", "Gx", "sy", "sx"]}
F
lint 0 'no defects'
cp plan.json sound.json
spoil '"L1"' '"DRAM"' 'mode: partition_mode is local_shard; no buffer lies in shards in L1'
spoil '"local_shard"' '"global"' 'mode: partition_mode is global; C lies in shards in L1'
spoil '"projected_grid": \[2, 4\]' '"projected_grid": [4, 4]' 'mode: shard_grid is 2x4; C has 16 shards'

# -- Its published plan: 8 of the 16 tiles of 128x128, no version
file <<'F'
{"core_grid": [2, 2], "core_ranges": [{"start": [0, 0], "extent": [2, 2]}],
 "work_partition": {"(0,0)": [{"io": 0, "jo": 0, "len_k": 128}, {"io": 0, "jo": 1, "len_k": 128}],
  "(0,1)": [{"io": 0, "jo": 2, "len_k": 128}, {"io": 0, "jo": 3, "len_k": 128}],
  "(1,0)": [{"io": 1, "jo": 0, "len_k": 128}, {"io": 1, "jo": 1, "len_k": 128}],
  "(1,1)": [{"io": 1, "jo": 2, "len_k": 128}, {"io": 1, "jo": 3, "len_k": 128}]},
 "layouts": {"A": {"shard": "DRAM"}}}
F
lint 4 'format: schema_version is missing'
lint 4 'lost: tile (2,0) is on no core' --tiles 4x4
grep -q '^9 defects' .out || complain 'not 8 tiles and the version'
file <<'F'
{"schema_version": 1, "core_grid": [2, 3], "core_ranges": [{"start": [0, 0], "extent": [2, 4]}],
 "work_partition": {}, "layouts": {}}
F
lint 4 'off-grid: range (0,0)-(1,3) on a grid of 2x3 cores'

# -- Files that are no plan at all
printf '# A title\n\nSome text, with commas.\n' >plan.json
expect 1 'error\[format\].*neither a plan nor JSON nor a table' "$divvy" lint plan.json
expect 1 'error\[format\].*the file is empty' "$divvy" lint /dev/null

# -- Tables of two older generations
row() { awk -v n="$1" -v t="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s[%d, 1]", i ? ", " : "", i % t }'; }
echo "{\"tt_grid_x\": 4, \"tt_grid_y\": 4, \"tt_num_cores\": 64, \"tt_tiles_per_core\": [$(row 64 16)]}" >plan.json
lint 4 'duplicate: tiles 0..1 are on core 0,0 and on core'
grep -q '^48 defects' .out || complain 'not 48 tiles too many'
echo "{\"tt_grid_x\": 16, \"tt_grid_y\": 16, \"tt_num_cores\": 64, \"tt_tiles_per_core\": [$(row 64 256)]}" >plan.json
lint 4 'lost: tiles 64..256 are on no core'
echo "{\"tt_grid_x\": 8, \"tt_grid_y\": 8, \"tt_num_cores\": 64, \"tt_tiles_per_core\": [$(row 64 64)]}" >plan.json
lint 0 'no defects'
echo '{"grid": {"x": 4, "y": 4, "total_tiles": 64}, "cores": {"num_cores": 64, "assignments": []}}' >plan.json
lint 4 'lost: tiles 0..16 are on no core'
grep -q 'the number of tiles is stated as 64, it is 16' .out || complain 'a wrong total passed'
# Counts are not negative, and a result has tiles. A core may have none.
echo '{"tt_grid_x": 2, "tt_grid_y": 2, "tt_num_cores": 3, "tt_tiles_per_core": [[0,2],[2,2],[4,0]]}' >plan.json
lint 0 'no defects'
sed 's/\[4,0\]/[4,-1]/' plan.json >q.json && mv q.json plan.json
lint 4 'format: core 0,1 has -1 tiles'
echo '{"tt_grid_x": 2, "tt_grid_y": -2, "tt_num_cores": -3, "tt_tiles_per_core": [[0,2],[2,2]]}' >plan.json
lint 4 'format: grid_y is no whole number of 1 or more'
grep -q 'format: num_cores is no whole number of 0 or more' .out || complain 'a negative number of cores passed'
echo '{"grid": {"x": 2, "y": 2, "total_tiles": -4}, "cores": {"num_cores": 1, "assignments": [{"start_tile": 0, "count": 4}]}}' >plan.json
lint 4 'format: total_tiles is no whole number of 0 or more'
echo '{"grid_tiles": [2, 2], "Kt": 0, "rows": [{"core_xy": [0, 0], "rect": [0, 2, 0, 2]}, {"core_xy": [1, 0], "rect": [0, 0, 0, -2]}]}' >plan.json
lint 4 'format: Kt is no whole number of 1 or more'
grep -q 'format: rect of core 1,0 has 0x-2 tiles' .out || complain 'a negative rectangle passed'
echo '{"grid_tiles": [0, 2], "rows": []}' >plan.json
lint 4 'format: a result of 0x2 tiles'
echo '{"grid_tiles": [-1, 2], "rows": []}' >plan.json
lint 4 'format: grid_tiles has -1, the least is 0'
echo '{"partition_mode": "local_shard", "grid_tiles": [2, 2], "shard_grid": [-1, 1], "local_shape_tiles": [0, 2], "rows": [{"core_xy": [0, 0], "segments": [[0, 4, 0, 1]]}]}' >plan.json
lint 4 'format: shard_grid has -1, the least is 1'
grep -q 'format: local_shape_tiles has 0, the least is 1' .out || complain 'an empty shard passed'
echo '{"tt_core_ranges": [[0, 0]]}' >plan.json
lint 4 'is not 6 whole numbers'
echo '{"runtime_args": ["tt_start_tile", "tt_tile_count", "Mt", "Kt", "Nt"], "rows": [[0, 64, 8, 1, 8]]}' >plan.json
lint 0 'no defects'
printf 'core_x,core_y,start_id,count,Mt,Kt,Nt\n0,0,0,3,2,4,3\n1,0,3,3,2,4,3\n' >plan.json
lint 0 'no defects'
printf 'core_x,core_y,start_id,count,Mt,Kt,Nt\n0,0,0,3,2,4,3\n1,0,4,2,2,4,3\n' >plan.json
lint 4 'lost: tiles 3..4'

# -- Plans of divvy as text
"$divvy" plan "$source/examples/matmul.dv" --target wormhole --pin c:m=8 --pin c:n=8 >plan.json
lint 0 'no defects'
sed 's/core 1: 8\.\.9/core 1: 9..10/' plan.json >x && mv x plan.json
lint 4 'check: '
printf '{"grid_tiles": [1, 2' >plan.json
expect 1 "plan.json:1:21: error\[syntax\]" "$divvy" lint plan.json
expect 1 'error\[file\]' "$divvy" lint nothing.json

finish
