#!/bin/bash
#SBATCH --job-name=ens
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=08:00:00
#SBATCH --requeue
#
# Train on several nodes; a job that is requeued goes on from its last checkpoint.
#
#     sbatch jobs/slurm.sh helmholtz --recipe paper --scale paper
#
# Runs and data are on a disk that all nodes see: the folder the job was submitted from.
set -euo pipefail
export OMP_NUM_THREADS=1
export ENS_DATA="${ENS_DATA:-$SLURM_SUBMIT_DIR/data}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun torchrun --nnodes="$SLURM_NNODES" --nproc-per-node="${SLURM_GPUS_ON_NODE:-4}" \
    --rdzv-backend=c10d --rdzv-endpoint="$first:29500" --rdzv-id="$SLURM_JOB_ID" \
    -m neuralsolver.cli train "$@" --runs "$SLURM_SUBMIT_DIR/runs"
