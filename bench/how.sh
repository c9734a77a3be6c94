#!/bin/sh
# What was built to measure with, and how it is run. how.sh BUILD_DIR
build=$1
# show DRIVER WHAT COMMAND [WHY_NOT]
show() {
    if [ -x "$build/bench_$1" ]; then
        printf '  %-44s %s\n' "$2" "$3"
    else
        printf '  %-44s not built: %s\n' "$2" "${4:-see above}"
    fi
}
echo "Each prints a table from one run; drivers (bench_*) take -h. Figures of ours: bench/RESULTS.md"
show gemm 'products beside BLAS libraries, peak' "sh bench/gemm.sh $build [THREADS]"
show nest 'blocked products with and without ReLU' "$build/bench_nest"
show tccg 'contractions beside the best of others' "$build/bench_tccg bench/tccg.csv"
show vec 'functions, softmax and layernorm, copy' "$build/bench_vec"
show dnnl 'statements beside oneDNN' "$build/bench_dnnl" 'oneDNN is not there'
show jit 'how long kernels take to make' "$build/bench_jit -f bench/tccg.csv"
show place 'buffers in one memory beside MiniMalloc' "sh bench/place.sh $build"
show keep 'choosing what to keep' "$build/bench_keep 1000 10000 100000"
show stencil 'a stencil over MPI beside one by hand' "mpirun -n 2 $build/bench_stencil" 'MPI is not there'
show gen 'time and memory of divvy check' "sh bench/check.sh $build"
echo "  programs as people write them                sh bench/programs.sh $build [THREADS]"
echo "  ONNX models beside ONNX Runtime              ORT=FOLDER sh bench/onnx.sh $build MODELS [THREADS]"
echo "  choose and fuse on contest inputs            CONTEST=FOLDER sh bench/contests.sh $build"
echo "  the page of a plan of 10,000 ops             python3 bench/report.py $build/divvy"
echo "  any program of yours                         $build/divvy bench FILE.dv"
echo "  beside MKL through PyTorch                   python3 bench/mkl.py"
echo "  einsums in Python beside numpy and others    PYTHONPATH=build/dev/python python3 bench/python.py (after make python)"
