#!/bin/bash
# Pre-training on several machines under Slurm: CORPUS=/shared/corpus RUN=/shared/runs/paper sbatch examples/slurm/pretrain.sh
# Given again it goes on; a machine that is lost is done without, and a job that is out of time asks for another turn.
#SBATCH --job-name=gpt1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=gpt1-%j.log
set -euo pipefail

: "${CORPUS:?the folder that gpt1 prepare made, on a disk that all machines see}"
: "${RUN:?the folder for the run, on the same disk}"
MOST_TURNS=100

# Without it a machine that comes back is left waiting (torch 2.13).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)

# Single quotes: which machine is the first is for each to find out.
# shellcheck disable=SC2016
srun --no-kill --kill-on-bad-exit=0 bash -c '
    is_host=$([[ $SLURM_NODEID == 0 ]] && echo true || echo false)
    exec torchrun --nnodes="1:$SLURM_JOB_NUM_NODES" --nproc-per-node=gpu --max-restarts=100 \
        --rdzv-backend=c10d --rdzv-endpoint="$1:29400" --rdzv-id="$SLURM_JOB_ID" --rdzv-conf="is_host=$is_host" \
        -m gpt1 pretrain --recipe paper --corpus "$2" --out "$3" --resume
' torchrun "$first" "$CORPUS" "$RUN" && exit 0

if ((${SLURM_RESTART_COUNT:-0} < MOST_TURNS)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit 1
