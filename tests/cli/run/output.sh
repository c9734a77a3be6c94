#!/bin/sh
# W1: if output cannot be written, the command exits with 3 and one message; no
# partial and no temporary file is left, and an existing file stays.
. "$(dirname "$0")/../common.inc"
printf 'input x: f32[2000, 30]\ny[j,i] = x[i,j]\noutput x, y\n' >p.dv

if [ -c /dev/full ]; then
    expect 3 'error\[output\]: .*No space left' "$divvy" run p.dv -t spyre --out y=/dev/full
    expect 3 'error\[output\]: .*No space left' "$divvy" plan p.dv -t spyre -o /dev/full
    for command in 'check p.dv' 'plan p.dv -t spyre' 'run p.dv -t spyre' \
        'run p.dv -t spyre --json' targets 'targets spyre' --help --version \
        'check --help' 'targets --properties'; do
        # shellcheck disable=SC2086
        "$divvy" $command >/dev/full 2>.err
        judge 3 'error\[output\]: .*No space left' $? "$command >/dev/full"
    done
fi
for command in 'check p.dv' 'plan p.dv -t spyre' 'run p.dv -t spyre' --version; do
    # shellcheck disable=SC2086
    "$divvy" $command >&- 2>.err
    judge 3 'error\[output\]' $? "$command, standard output closed"
done
"$divvy" check missing.dv 2>&- >.out
[ $? = 1 ] || complain 'an error, standard error closed: another exit code'
# A reader that closes the pipe causes no crash.
"$divvy" plan p.dv -t spyre 2>.err | head -n1 >.out
grep -q 'runtime error\|Sanitizer' .err && complain 'a closed pipe'

# W1: the file system is full in the middle of a file.
(
    ulimit -f 8 2>/dev/null || exit 0 # blocks of 512 or 1024 bytes
    trap '' XFSZ 2>/dev/null
    echo before >y.npy
    "$divvy" run p.dv -t spyre --out y=y.npy >.out 2>.err
    code=$?
    [ $code = 3 ] || [ $code -gt 128 ] || { echo "FAILED: too large a file: exit $code"; exit 1; }
    [ "$(cat y.npy)" = before ] || { echo 'FAILED: the old file is gone'; exit 1; }
) || failed=1
rm -f y.npy
nothing_but p.dv

expect 3 'no/y.npy: error\[output\]: cannot write the file: No such file' \
    "$divvy" run p.dv -t spyre --out y=no/y.npy
expect 3 'no/a.plan: error\[output\]' "$divvy" plan p.dv -t spyre -o no/a.plan
expect 3 'p.dv/y.npy: error\[output\]' "$divvy" run p.dv -t spyre --out y=p.dv/y.npy
mkdir folder
expect 3 'folder: error\[output\]: .*[Dd]irectory' "$divvy" run p.dv -t spyre --out y=folder
expect 3 'error\[output\]' "$divvy" plan p.dv -t spyre -o folder/
if [ "$(id -u)" != 0 ]; then
    echo before >folder/y.npy
    chmod a-w folder
    expect 3 'error\[output\]: .*Permission denied' "$divvy" run p.dv -t spyre --out y=folder/y.npy
    [ "$(cat folder/y.npy)" = before ] || complain 'a file in a read-only folder changed'
    chmod u+w folder
fi
# W1: the second of two outputs fails: the first is complete, the second does
# not exist.
expect 3 'no/x.npy: error\[output\]' \
    "$divvy" run p.dv -t spyre --out y=y.npy --out x=no/x.npy
[ ! -e y.npy ] || [ "$(wc -c <y.npy)" = 240128 ] || complain 'half of an output'
rm -f y.npy
# W1: a run that fails writes nothing.
printf 'input p: i32[4]\ninput x: f32[3]\nq[i] = p[i] * 0 + 7\ny[i] = x[q[i]]\noutput y\n' >bad.dv
echo before >y.npy
expect 1 'error\[bounds\]' "$divvy" run bad.dv -t spyre --out y=y.npy
[ "$(cat y.npy)" = before ] || complain 'a failed run wrote its output'
rm y.npy bad.dv
nothing_but p.dv folder

# A symbolic link stays one; the file that it points to is written.
mkdir real
echo before >real/y.npy
ln -s real/y.npy link.npy
expect 0 '' "$divvy" run p.dv -t spyre --out y=link.npy
[ -L link.npy ] || complain 'the link became a file'
[ "$(wc -c <real/y.npy)" = 240128 ] || complain 'the file behind the link was not written'
rm -f link.npy real/y.npy
ln -s real/new.npy link.npy
expect 0 '' "$divvy" run p.dv -t spyre --out y=link.npy
[ -e real/new.npy ] || complain 'the file a dangling link names was not made'
rm -rf link.npy real
# An existing file keeps its permissions.
echo before >a.plan
chmod 600 a.plan
expect 0 '' "$divvy" plan p.dv -t spyre -o a.plan
case $(ls -l a.plan) in -rw-------*) ;; *) complain "permissions changed: $(ls -l a.plan)" ;; esac
rm a.plan
# A new file has the permissions of a plain open.
(umask 027 && "$divvy" plan p.dv -t spyre -o a.plan)
case $(ls -l a.plan) in -rw-r-----*) ;; *) complain "permissions of a new file: $(ls -l a.plan)" ;; esac
rm a.plan
# An input may also be an output; '-' is standard output.
expect 0 '' "$divvy" run p.dv -t spyre --out x=x.npy
expect 0 '' "$divvy" run p.dv -t spyre --in x=x.npy --out x=x.npy
expect 0 '' "$divvy" plan p.dv -t spyre -o -
grep -q '^plan 1' .out || complain 'plan -o - printed no plan'
nothing_but p.dv folder x.npy
finish
