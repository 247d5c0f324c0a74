#!/bin/sh
# Slurm epilog: after a job has ended, logs the GPU-hours that it held, the idle part of them, and those of its GPUs
# that are not free.
# It always succeeds, so it never drains a node. docs/slurm.md explains it.

# Slurm sets no search path for epilogs.
PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin"
export PATH

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
log() { logger -t gua-epilog "job $SLURM_JOB_ID: $1"; }

since=7d
if [ -n "${SLURM_JOB_START_TIME:-}" ]; then
    since=$(date -u -d "@$SLURM_JOB_START_TIME" '+%Y-%m-%dT%H:%M:%SZ')
fi

# Columns are found by their names. A job ID contains neither commas nor quotes.
hours=$(timeout 60 gua report --since "$since" --by job --csv 2>/dev/null | awk -F, -v job="$SLURM_JOB_ID" '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $column["job"] == job { print "held " $column["held_hours"] " GPU-hours, " $column["idle_held_hours"] " of them idle" }
')
log "${hours:-no recorded use of a GPU}"

# A process that outlived its job keeps the GPU from the next one.
reasons=$(mktemp) || exit 0
trap 'rm -f "$reasons"' EXIT
free=$(timeout 30 gua available --limit 0 --free-for 0s 2>"$reasons")
code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then
    log "GPUs not checked: $(head -n 1 "$reasons")"
    exit 0
fi
for gpu in $(printf '%s' "$SLURM_JOB_GPUS" | tr ',' ' '); do
    case ",$free," in
        *",$gpu,"*) ;;
        *)
            reason=$(grep -o "gpu $gpu \(is\|was\) .*" "$reasons" | head -n 1)
            log "after the job, ${reason:-gpu $gpu is not listed as a whole GPU}"
            ;;
    esac
done
exit 0
