# Run in an instance: a line of JSON about its R and about a job in it, then the same one level down.
# levels.sh DEPTH: how many more levels.
set -e
about() {
    flux kvs get resource.R | jq -c --arg level "$(flux getattr instance-level)" \
        --argjson job "$1" '{level: $level | tonumber, R: ., job: $job}'
}
# Something takes the first domain, so that the ids further down are not those of the top.
sim="--setattr=system.exec.test.run_duration=3600s"
first=$(flux submit $sim -n1 -c1 -g1 true)
flux job wait-event -q -t 10 "$first" alloc
if [ "$1" -gt 0 ]; then
    job=$(flux submit -n"$(($1 + 1))" -c4 -g1 -o per-resource.type=node \
        -o cpu-affinity=off -o gpu-affinity=off \
        flux broker --conf=resource.noverify=true sh "$0" "$(($1 - 1))")
else
    job=$(flux submit $sim -n1 -c2 -g1 true)
fi
flux job wait-event -q -t 10 "$job" alloc
about "$(flux job info "$job" R)"
test "$1" -eq 0 || flux job attach "$job"
