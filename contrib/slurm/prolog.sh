#!/bin/sh
# Slurm prolog: before a job starts, logs each of its GPUs that is not free, with the reason. docs/slurm.md explains it.
# Set DRAIN=yes to fail in that case; Slurm then requeues the job and drains the node.
DRAIN=no

# Slurm sets no search path for prologs.
PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin"
export PATH

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
log() { logger -t gua-prolog "job $SLURM_JOB_ID: $1"; }

# Free GPUs go to standard output, and the reasons against the others to standard error. Exit code 3: no GPU is free.
# The time limit keeps a hung driver from delaying the job.
reasons=$(mktemp) || exit 0
trap 'rm -f "$reasons"' EXIT
free=$(timeout 30 gua available --limit 0 --free-for 0s 2>"$reasons")
code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then
    log "GPUs not checked: $(head -n 1 "$reasons")"
    exit 0
fi

found=no
for gpu in $(printf '%s' "$SLURM_JOB_GPUS" | tr ',' ' '); do
    case ",$free," in
        *",$gpu,"*) ;;
        *)
            found=yes
            reason=$(grep -o "gpu $gpu \(is\|was\) .*" "$reasons" | head -n 1)
            log "${reason:-gpu $gpu is not listed as a whole GPU}"
            ;;
    esac
done
[ "$found" = no ] || [ "$DRAIN" = no ]
