#!/usr/bin/env bash
# Makes the profile of one GPU type as it ships: four models, six batches or more each, bf16 and tf32, and the
# collectives of this machine's GPUs. Needs a release build with the CUDA backend and GPUs that nobody else uses.
#
#   tools/make_profiles.sh h100          writes profiles/h100.json.gz and validation/parts/h100-*.json
#
# FORETRAIN names the program (default build/foretrain), OUT the folder (default: this repository), SECONDS_A_RUN
# caps each process (default 75 s of measuring).
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?name of the profile, such as h100}
program=${FORETRAIN:-build/foretrain}
out=${OUT:-.}
cap=${SECONDS_A_RUN:-75}
profile="$out/profiles/$name.json.gz"
mkdir -p "$out/profiles" "$out/validation/parts"
# In-switch reduction differs between machines of one GPU type: profiles are measured without it, and record that.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}

started=$SECONDS
calibrate() { # WHAT ARGUMENTS...
  local what=$1
  shift
  local begin=$SECONDS
  "$program" calibrate --device cuda --out "$profile" --append "$@"
  echo "$name $what: $((SECONDS - begin)) s, $((SECONDS - started)) s in all" >&2
}
model() { # MODEL BATCHES
  calibrate "$1" --model "$1" --batch "$2" --precision bf16,tf32 --seconds "$cap" \
    --validate-parts "$out/validation/parts/$name-$1.json"
}

rm -f "$profile"
calibrate collectives --collectives --seconds 45
model resnet50 16,32,64,96,128,192,256
model vgg16 8,16,32,64,96,128
model wrn-16-4 32,64,128,256,512,1024
model wrn-28-10 32,64,96,128,256,512
"$program" check "$profile"
