#!/bin/sh
# What a broker runs at its start, with rc1, and at its end, with rc3: on rank 0 what Flux runs, on
# the others the same without Python, which takes them a fifth of a second each time.
if [ "$(flux getattr rank)" = 0 ]; then
    exec flux modprobe "$1"
fi
case $1 in
rc1)
    for module in heartbeat content kvs kvs-watch resource job-info job-ingest; do
        flux module load $module
    done
    ;;
rc3)
    for module in job-ingest job-info resource kvs-watch kvs content heartbeat; do
        flux module remove $module
    done
    ;;
esac
