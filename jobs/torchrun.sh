#!/bin/bash
# Train on all GPUs of one machine; the same command goes on after an interruption.
#
#     jobs/torchrun.sh helmholtz --recipe paper --scale paper
#
# PROCESSES sets their number. The batch size must be a multiple of it.
set -euo pipefail
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
processes="${PROCESSES:-$(python -c 'import torch; print(max(1, torch.cuda.device_count()))')}"
exec torchrun --standalone --nproc-per-node="$processes" -m neuralsolver.cli train "$@"
