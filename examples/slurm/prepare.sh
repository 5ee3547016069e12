#!/bin/bash
# A corpus made by twenty nodes: sbatch examples/slurm/prepare.sh books tokenizer.json corpus --unwrap
#
# Each task of the array does one part; who is last puts the corpus together. Tasks that were killed, or lost with their
# node, are done again by the same command (sbatch --array=7,12 for some of them). How far they are, from any node:
# gpt1 prepare --status corpus
#SBATCH --job-name=gpt1-prepare
#SBATCH --array=1-20
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=prepare-%A-%a.log
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: sbatch $0 TEXTS TOKENIZER OUT [option of gpt1 prepare ...]" >&2
    exit 2
fi
texts=$1 tokenizer=$2 out=$3
shift 3

# Of how many parts this is one: all tasks must be told the same number, those that are started again too.
parts=${PARTS:-20}
export OMP_NUM_THREADS=1 # the workers are processes

exec gpt1 prepare "$texts" --tokenizer "$tokenizer" --out "$out" \
    --part "$SLURM_ARRAY_TASK_ID/$parts" --workers "${SLURM_CPUS_PER_TASK:-1}" "$@"
