# The first program of the instance of "treepool demo": a day's jobs, a page, and a shell.
# Usage: day.sh FOLDER [COMMAND...]. A day's hour takes a minute. The jobs only seem to run.

page=$1/now.html
# Job shells would look for the cores of R on this machine; "treepool bind" would, too.
cat >"$1/initrc.lua" <<END
shell.options["cpu-affinity"] = "off"
source("$(flux config builtin shell_initrc)")
END
export TREEPOOL_DEMO=1
shift

# The jobs of an hour: nearly as much as the nodes do in one.
hour() {
  [ $(($1 % 2)) = 0 ] ||
    flux submit --quiet --job-name=train -t4m --setattr=exec.test.run_duration=3m \
      -n32 -c24 -g1 --switches=1 train
  flux bulksubmit --quiet --job-name={0} --cc={1} -n{2} -c{3} -g{4} -t{5} \
    --setattr=exec.test.run_duration={6} --queue={7} {0} \
    :::  fold  tune  infer  mesh  post  test \
    :::+ 1     1-3   1-6    1-2   1-6   1-3 \
    :::+ 16    4     1      16    8     1 \
    :::+ 24    12    8      6     1     4 \
    :::+ 1     1     1      0     0     1 \
    :::+ 3m    3m    2m     2m    1m    1m \
    :::+ 100s  120s  90s    60s   30s   20s \
    :::+ batch batch batch  batch batch debug
}

flux queue start --all --quiet
for number in 1 2 3; do hour $number; done
until flux jobs -no '{id}' -f run | grep -q .; do sleep 0.2; done
waits=$(flux jobs -no '{id.f58}' -f pending | head -n 1)
flux treepool show --instance --html "$page" # it is there when its name is printed
flux treepool show --instance --html "$page" --watch 2>/dev/null &
watch=$!
(for number in $(seq 4 24); do sleep 60 && hour $number; done) &
day=$!

cat >&2 <<END

A Flux instance of 32 nodes, n[0-31], each with 96 cores and 4 GPUs, and a day's jobs in fast
motion: an hour takes a minute. What you submit runs, as processes of this machine.

  page   file://$page
  ask    flux treepool explain $waits
         flux submit --test-only -N8 -n32 -c24 -g1 -t2m true
         flux treepool status --jobs
  run    flux run --queue=debug -n2 -c48 flux getattr hostname
  end    exit

END
if [ $# -gt 0 ]; then
  "$@"
  status=$?
else
  "${SHELL:-sh}"
  status=0
fi
kill $day $watch 2>/dev/null
flux cancel --all 2>/dev/null # otherwise Flux does it, and says so
exit $status
