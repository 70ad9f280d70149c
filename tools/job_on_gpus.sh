#!/usr/bin/env bash
# A whole job for real, part by part against what was predicted before: calibrates, runs a tenth of the job for its
# costs (start-up, changes of workers and batch, rate of checkpoints), predicts the job with them and runs it.
#
# usage: tools/job_on_gpus.sh PROGRAM FOLDER [SCENARIO] [DEVICE]
#
# SCENARIO: scenarios/growing-batch-2-gpus.yaml, which needs two GPUs for about three minutes. DEVICE: cuda (default) or
# reference. PROFILE names a profile in place of calibrating (`scenario`: the scenario's own), REPEATS how often the job is
# run (2), SOAK the seconds under load before each (5), TENTH the data set of the run for costs (6400).
# FOLDER gets profile.json.gz, costs.json.gz, job.1.json.gz and so on; checkpoints are written there, and removed.
set -eu

program=${1:?usage: tools/job_on_gpus.sh PROGRAM FOLDER [SCENARIO] [DEVICE]}
folder=${2:?usage: tools/job_on_gpus.sh PROGRAM FOLDER [SCENARIO] [DEVICE]}
scenario=${3:-$(dirname "$0")/../scenarios/growing-batch-2-gpus.yaml}
device=${4:-cuda}
mkdir -p "$folder"
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}

profile=${PROFILE:-$folder/profile.json.gz}
if [ -z "${PROFILE:-}" ]; then
  calibrate=("$program" calibrate --device "$device" --out "$profile" --append)
  "${calibrate[@]}" --model resnet50 --batch 32,64,128,256 --precision bf16 --seconds 30
  "${calibrate[@]}" --collectives --buckets-of resnet50 --seconds 16
fi
run=("$program" run "$scenario" --device "$device" --group job --soak "${SOAK:-5}" --checkpoint "$folder/checkpoint")
[ "$profile" = scenario ] || run+=(--profile "$profile")

"${run[@]}" --set "dataset.samples=${TENTH:-6400}" --out "$folder/costs.json.gz"
for ((repeat = 1; repeat <= ${REPEATS:-2}; ++repeat)); do
  "${run[@]}" --costs-from "$folder/costs.json.gz" --out "$folder/job.$repeat.json.gz"
done
rm -f "$folder/checkpoint"
"$program" validate "$folder"/job.*.json.gz
