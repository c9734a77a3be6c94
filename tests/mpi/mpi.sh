#!/bin/sh
# The command under mpirun: results are right and the same for any team, and all
# ranks end when something fails.
# mpi.sh DIVVY SOURCE MPIRUN TEAM
divvy=$1
src=$2
mpirun=$3
team=$4
. "$(dirname "$0")/common.inc"
# shellcheck disable=SC2086
run() {
    n=$1
    shift
    timeout 120 "$mpirun" $more -n "$n" "$@" >"$tmp/out" 2>"$tmp/err"
}
fail() {
    echo "FAILED: $*"
    cat "$tmp/out" "$tmp/err"
    bad=1
}

# -- the library in a program that calls MPI_Init itself: many cases in one mpirun,
# random programs and examples among them
for n in 1 2 3 4; do
    run $n "$team" "$tmp/team" "$src/examples" || fail "team of $n"
done

run 2 "$team" single || fail "MPI for one thread"

# -- warnings: printed once, by rank 0
printf 'input x: f32[64]\nz[i] = x[i] * 2\ny[i] = x[i] + 1\noutput y\n' >"$tmp/dead.dv"
for command in run 'bench --runs 1 --seconds 0'; do
    # shellcheck disable=SC2086
    run 2 "$divvy" $command "$tmp/dead.dv" || fail "$command with a warning"
    [ "$(grep -c 'warning\[dead\]: z reaches no output' "$tmp/err")" = 1 ] || fail "$command: not one warning"
done

# -- programs: verified, reported by rank 0 alone, with the same bits. Other
# numbers of ranks have been tried above.
# Scalars are sums over all ranks, which are added in another order.
state() { sed -n '/\[\] /d; s/.*hash //p' "$1"; }
for args in "heat.dv --set N=65 --set T=9" "prk_stencil.dv --set N=41" \
    "blackscholes.dv --set N=1000 --random 1..2" "matmul.dv --set M=40 --set N=36 --set K=30" \
    "softmax.dv --set M=17 --set N=40" "basin.dv --set N=20 --set T=6"; do
    # shellcheck disable=SC2086
    run 1 "$divvy" run "$src/examples/"$args --verify || fail "1: $args"
    grep -q 'verify: ok' "$tmp/out" || fail "1: not verified: $args"
    one=$(state "$tmp/out")
    # shellcheck disable=SC2086
    run 3 "$divvy" run "$src/examples/"$args --verify --checked --timeout 60 || fail "3: $args"
    [ "$(grep -c 'verify: ok' "$tmp/out")" = 1 ] || fail "3: not one voice: $args"
    [ "$(state "$tmp/out")" = "$one" ] || fail "3: other bits: $args"
    # shellcheck disable=SC2086
    run 2 "$divvy" run "$src/examples/"$args --threads 2 --no-overlap || fail "2 threads each: $args"
    [ "$(state "$tmp/out")" = "$one" ] || fail "2 threads each: other bits: $args"
done
"$divvy" run "$src/examples/heat.dv" --set N=65 --set T=9 >"$tmp/out" || fail "alone, without mpirun"

# -- files: the same for any team, in both orders
cat >"$tmp/p.dv" <<END
param N = 60
param T = 50
input u: f64[N, N+3]
s[i] = 0.5 * u[i,1]
repeat T {
    u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1]) + 0.001 * s[i]  for i in 1..N-1, j in 1..N+2
}
output u
END
p=$tmp/p.dv
"$divvy" run "$p" --out "u=$tmp/0.npy" >"$tmp/out" || fail "0.npy"
"$divvy" run "$p" --in "u=$tmp/0.npy" --out "u=$tmp/00.npy" >"$tmp/out" || fail "00.npy"
for n in 2 4; do
    run $n "$divvy" run "$p" --out "u=$tmp/n.npy" || fail "$n: --out"
    cmp "$tmp/0.npy" "$tmp/n.npy" || fail "$n: another file"
    run $n "$divvy" run "$p" --in "u=$tmp/0.npy" --out "u=$tmp/n.npy" || fail "$n: --in"
    cmp "$tmp/00.npy" "$tmp/n.npy" || fail "$n: another file from a file"
done
if python3 -c '' 2>/dev/null; then
    # The same elements in Fortran order; the header keeps its length.
    python3 - "$tmp/0.npy" "$tmp/f.npy" 60 63 <<'END' || fail "no file in Fortran's order"
import sys
whole, rows, cols = open(sys.argv[1], "rb").read(), int(sys.argv[3]), int(sys.argv[4])
head, data = whole[:-8 * rows * cols], whole[-8 * rows * cols:]
assert b"'fortran_order': False" in head
head = head.replace(b": False", b": True")[:-1] + b" \n"
at = lambda i, j: data[8 * (i * cols + j):][:8]
open(sys.argv[2], "wb").write(head + b"".join(at(i, j) for j in range(cols) for i in range(rows)))
END
    run 3 "$divvy" run "$p" --in "u=$tmp/f.npy" --out "u=$tmp/n.npy" || fail "Fortran's order"
    cmp "$tmp/00.npy" "$tmp/n.npy" || fail "Fortran's order: another file"
fi

# -- wrong calls: all ranks fail, and rank 0 says why
# Open MPI's launcher waits seconds for ranks that have ended.
ends() { # code, words, call
    code=$1
    words=$2
    shift 2
    OMPI_MCA_odls_base_sigkill_timeout=0 run "$@"
    [ $? = "$code" ] || fail "not $code: $*"
    [ "$(grep -c "$words" "$tmp/err")" = 1 ] || fail "not said once, '$words': $*"
}
ends 2 'there are 3 processes' 3 "$divvy" run "$p" --team 2
ends 2 'no such tensor' 3 "$divvy" run "$p" --in x=y
ends 1 'cannot open' 3 "$divvy" run "$p" --in "u=$tmp/none.npy"
ends 1 'cannot open' 2 "$divvy" run "$tmp/none.dv"
ends 3 'cannot write' 2 "$divvy" run "$p" --out "u=$tmp/none/u.npy"
head -c 200 "$tmp/0.npy" >"$tmp/cut.npy"
ends 1 'truncated' 3 "$divvy" run "$p" --in "u=$tmp/cut.npy"

# -- ranks that were started differently: all stop, and the difference is named
differ() { # words, words of rank 0, of rank 1
    ends 2 "$1" 1 "$divvy" $2 : -n 1 "$divvy" $3
}
differ 'rank 1 was started without --out, rank 0 with --out u=' "run $p --out u=$tmp/n.npy" "run $p"
differ 'rank 1 was started with --checkpoint .*, rank 0 without' "run $p" "run $p --checkpoint $tmp/state"
differ 'rank 1 was started with --seed 7, rank 0 with --seed 1' "run $p --seed 1" "run --seed=7 $p"
differ 'rank 1 was started with --set T=6, rank 0 with --set T=5' "run $p --set T=5" "run $p --set T=6"
differ 'rank 1 was started with divvy bench, rank 0 with divvy run' "run $p" "bench $p"
differ 'rank 1 was started with divvy --help or --version' "run $p" --version
differ 'rank 1: there is no option --frob' "run $p" "run $p --frob"
differ 'divvy run: error.usage.: there is no option --frob' "run $p --frob" "run $p"
differ 'rank 1: there is no command frob' "run $p" frob
mkdir "$tmp/here" "$tmp/there" && cp "$p" "$tmp/here/q.dv" && sed 's/0.001/0.002/' "$p" >"$tmp/there/q.dv"
ends 2 'rank 1 was started with a program with hash' \
    1 -wdir "$tmp/here" "$divvy" run q.dv : -n 1 -wdir "$tmp/there" "$divvy" run q.dv
rm "$tmp/there/q.dv"
ends 1 'rank 1: .*cannot open' \
    1 -wdir "$tmp/here" "$divvy" run q.dv : -n 1 -wdir "$tmp/there" "$divvy" run q.dv
# Files that differ between ranks: each rank has a folder of its own.
cp "$p" "$tmp/there/q.dv"
cp "$tmp/0.npy" "$tmp/here/u.npy"
apart() { # code, words, options
    ends "$1" "$2" 1 -wdir "$tmp/here" "$divvy" run q.dv $3 : -n 1 -wdir "$tmp/there" "$divvy" run q.dv $3
}
apart 1 'rank 1: u.npy: cannot open' "--in u=u.npy"
"$divvy" run "$p" --set N=61 --out "u=$tmp/there/u.npy" >"$tmp/out" || fail "another shape"
apart 1 'rank 1: u.npy: the file holds f64.61, 64.' "--in u=u.npy"
if [ -f "$tmp/f.npy" ]; then
    cp "$tmp/f.npy" "$tmp/there/u.npy"
    apart 1 'the file of rank 1 is not the file of rank 0' "--in u=u.npy"
fi
# The same header with other numbers.
"$divvy" run "$p" --seed 5 --out "u=$tmp/there/u.npy" >"$tmp/out" || fail "other numbers"
apart 1 'the file of rank 1 is not the file of rank 0' "--in u=u.npy"
cp "$tmp/here/u.npy" "$tmp/there/u.npy"
run 1 -wdir "$tmp/here" "$divvy" run q.dv --in u=u.npy : -n 1 -wdir "$tmp/there" "$divvy" run q.dv --in u=u.npy ||
    fail "two copies of one file"
apart 3 'rank 1: .*cannot open' "--out u=o.npy"
[ ! -e "$tmp/here/o.npy" ] || fail "a file of one rank alone"
apart 3 'rank 1: .*cannot open' "--checkpoint state --every 10"
# These may differ: the number of threads of a rank, and the order of arguments.
run 1 "$divvy" run "$p" --seed 0 --threads 1 : -n 1 "$divvy" run --threads=2 "$p" || fail "threads differ"

# -- bench times the divided run, and rank 0 reports it once
for n in 1 3; do
    run $n "$divvy" run "$p" || fail "$n: run"
    moved=$(sed -n "s/.*a team of $n: //p" "$tmp/out")
    run $n "$divvy" bench "$p" --runs 2 --seconds 0 || fail "$n: bench"
    [ "$(grep -c "executor mpi, $n rank" "$tmp/out")" = 1 ] || fail "$n: bench is not one report"
    grep -q "^  exchange .* s on rank .*; $moved\$" "$tmp/out" || fail "$n: bench has not sent $moved"
    run $n "$divvy" bench "$p" --runs 2 --seconds 0 --json || fail "$n: bench --json"
    [ "$(grep -c '"exchange_s": .* "threads": ' "$tmp/out")" = $n ] || fail "$n: bench --json lacks ranks"
done
ends 2 'times one process' 2 "$divvy" bench "$p" --ops
ends 1 'cannot open' 2 "$divvy" bench "$tmp/none.dv"

# -- commands that are not divided are done by rank 0 alone, which says so
run 3 "$divvy" check "$p" || fail "check"
[ "$(grep -c ': ok, ' "$tmp/out")" = 1 ] && grep -q 'rank 0 of 3 does this alone' "$tmp/err" || fail "check: not once"
run 3 "$divvy" plan "$p" && cp "$tmp/out" "$tmp/plan" || fail "plan"
"$divvy" plan "$p" --team 3 >"$tmp/out" && cmp "$tmp/plan" "$tmp/out" || fail "plan: not the team's"

# -- checkpoints: another team resumes; damaged ones are refused
run 3 "$divvy" run "$p" --checkpoint "$tmp/state" --every 20 || fail "--checkpoint"
grep -q "checkpoint $tmp/state, last written after [0-9]* iterations" "$tmp/out" || fail "--checkpoint: nothing says when it was written"
for n in 1 2 4; do
    run $n "$divvy" run "$p" --resume "$tmp/state" --verify --out "u=$tmp/n.npy" || fail "$n: --resume"
    cmp "$tmp/0.npy" "$tmp/n.npy" || fail "$n: resumed, another file"
    grep -q "resumed from $tmp/state, where [0-9]* iterations of the repeat were done" "$tmp/out" || fail "$n: --resume: nothing says from where"
done
# Ranks that need a distant element read overlapping parts of a checkpoint.
printf 'input x: f64[10]\nrepeat 4 { x[i] <- x[i]*0.5 + x[3] }\noutput x\n' >"$tmp/far.dv"
run 2 "$divvy" run "$tmp/far.dv" --checkpoint "$tmp/far" || fail "far: --checkpoint"
for n in 3 5; do
    run $n "$divvy" run "$tmp/far.dv" --resume "$tmp/far" --verify || fail "far, $n: --resume"
done
head -c 5000 "$tmp/state" >"$tmp/cut"
ends 1 'truncated' 2 "$divvy" run "$p" --resume "$tmp/cut"
head -c 20 "$tmp/state" >"$tmp/cut"
ends 1 'truncated' 2 "$divvy" run "$p" --resume "$tmp/cut"
cp "$tmp/state" "$tmp/wrong" && printf 'xyz' | dd of="$tmp/wrong" bs=1 seek=7000 conv=notrunc 2>/dev/null
ends 1 'checksum' 2 "$divvy" run "$p" --resume "$tmp/wrong"
cp "$tmp/state" "$tmp/wrong" && printf 'x' | dd of="$tmp/wrong" bs=1 seek=33 conv=notrunc 2>/dev/null
ends 1 'checksum' 2 "$divvy" run "$p" --resume "$tmp/wrong"
# Resuming with other inputs continues with those of the file, and says so once.
ends 4 'differs from the oracle' 2 "$divvy" run "$p" --seed 3 --resume "$tmp/state" --verify
grep -q 'are they those of the run that wrote the checkpoint' "$tmp/err" || fail "--resume: the inputs of the oracle"
grep -q 'made up u (--seed 3' "$tmp/out" || fail "--resume: nothing names the inputs of the oracle"
ends 2 'the ranks of a team run on threads' 2 "$divvy" run "$p" --executor seq
ends 2 'they are not simulated' 2 "$divvy" run "$p" --executor sim
ends 2 'the ranks of a team on spyre are simulated' 2 "$divvy" run "$p" --target spyre --executor threads
run 2 "$divvy" run "$p" --target spyre --executor sim --verify || fail "simulated ranks"
ends 2 'checkpoint: runs on spyre are simulated' 2 "$divvy" run "$p" --target spyre --checkpoint "$tmp/state"
ends 2 'resume: runs on spyre are simulated' 2 "$divvy" run "$p" --target spyre --resume "$tmp/state"
ends 1 'of other params: it has N = 60, T = 50; this run has N = 50, T = 50' 2 "$divvy" run "$p" --set N=50 --resume "$tmp/state"

# -- a full disk, if this user may make one
if [ "$(id -u)" = 0 ] && mkdir "$tmp/small" && mount -t tmpfs -o size=16k none "$tmp/small" 2>/dev/null; then
    run 2 "$divvy" run "$p" --checkpoint "$tmp/small/state" --every 20
    [ $? = 3 ] || fail "a full disk"
    grep -q 'cannot write' "$tmp/err" || fail "a full disk is not named"
    [ -z "$(ls -A "$tmp/small")" ] || fail "a full disk: something is left"
    umount "$tmp/small"
fi

# -- signals, during a run that takes a while because of its checkpoints. Time
# limits are long, because other tests may run at the same time.
soon() { # COMMAND: it succeeds within a minute
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 120 ] || return 1
        sleep 0.5
    done
}
begin() { # ranks
    rm -f "$tmp/state"
    # shellcheck disable=SC2086
    timeout 200 "$mpirun" $more -n "$1" "$divvy" run "$p" --set T=40000 \
        --timeout 90 --checkpoint "$tmp/state" --every 50 >"$tmp/out" 2>"$tmp/err" &
    job=$!
    soon test -s "$tmp/state" || fail "no checkpoint comes"
}
ours() { pgrep -f "^$divvy run $p --set T=40000" || true; }
none() { [ -z "$(ours)" ]; }
gone() {
    soon none && return 0
    fail "processes are left after $1"
    for pid in $(ours); do kill -9 "$pid"; done
}

clean() {
    # While Open MPI opens a file, it tests whether it can lock another one beside
    # it, which stays if the process is stopped just then.
    rm -f "$tmp"/state.*.locktest.*
    [ -z "$(find "$tmp" -name 'state.*')" ] || fail "$1 leaves $(ls "$tmp")"
    rm -f "$tmp"/state.*
}

begin 3
victim=$(ours | tail -1)
kill -9 "$victim"
wait $job && fail "a killed rank is no failure"
gone "kill -9 of a rank"
[ -s "$tmp/err" ] || [ -s "$tmp/out" ] || fail "a killed rank is not reported"
# The last checkpoint is complete, and another team finishes the run.
"$divvy" run "$p" --set T=40000 --out "u=$tmp/0.npy" >"$tmp/out" || fail "the long one alone"
# With a time-out, waiting ranks let others run, of which there may be many
# here.
run 2 "$divvy" run "$p" --set T=40000 --resume "$tmp/state" --timeout 90 --out "u=$tmp/n.npy" || fail "resumed after a kill"
cmp "$tmp/0.npy" "$tmp/n.npy" || fail "resumed after a kill, another file"
clean "a kill and a resume" # MPICH's launcher kills all ranks with SIGKILL

# A rank that stops in a loop. On a busy machine the loop begins late, and MPI
# itself has no time-out while it starts and reads files.
for after in 3 10 30; do
    # shellcheck disable=SC2086
    timeout $((after + 40)) "$mpirun" $more -n 3 "$divvy" run "$p" --set T=40000 --set N=1500 \
        --timeout 2 >"$tmp/out" 2>"$tmp/err" &
    job=$!
    sleep $after
    victim=$(ours | tail -1)
    kill -STOP "$victim"
    wait $job && fail "a stopped rank is no failure"
    kill -9 "$victim" 2>/dev/null
    grep -q 'has waited 2 s for' "$tmp/err" && break
done
grep -q 'has waited 2 s for' "$tmp/err" || fail "the watchdog is silent"
gone "a time-out"

begin 3
kill -INT $(pgrep -f "^$mpirun.*$p" | head -1) 2>/dev/null || kill -INT $job
wait $job
gone "Ctrl-C"
clean "Ctrl-C"
exit $bad
