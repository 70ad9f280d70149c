#!/usr/bin/env bash
# The whole loop on this machine's own cores: calibrates a small CNN, predicts one and two workers, trains them for
# real and prints predicted against measured. Two workers share a node, and where root can make network namespaces
# (tools/nodes.sh) they are two nodes at 100 Mbit/s and 1 Gbit/s too. Takes about a minute.
#
# usage: tools/live.sh PROGRAM [FOLDER]      FOLDER keeps profile, scenarios and records; default: a temporary one
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
program=$(realpath "$1")
if [ $# -gt 1 ]; then
  folder=$2
  mkdir -p "$folder"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
nodes=$(realpath "$here")/nodes.sh
cd "$folder"

seconds=${LIVE_SECONDS:-18} batch=${LIVE_BATCH:-32} steps=${LIVE_STEPS:-40} repeats=${LIVE_REPEATS:-3} workers=2
if [ "$(nproc)" -lt 2 ]; then workers=1; fi
both=(--gpus "$workers")
if [ $workers -gt 1 ]; then both+=(--collectives); fi
echo "Calibrating small-cnn on $workers of $(nproc) cores for about $seconds s" >&2
"$program" calibrate --device cpu --model small-cnn --batch "$((batch / 2)),$batch" --threads 1 "${both[@]}" \
  --seconds "$seconds" --out live.json >/dev/null

scenario() { # name cluster [more of the host]
  printf 'model: small-cnn\nprofile: live.json\nprecision: fp32\nbatch: { per_worker: %s }\ncluster: %s\nhost: { threads: 1%s }\n' \
    "$batch" "$2" "${3:-}" >"$1.yaml"
}
run() { # name command...
  local name=$1 repeat
  shift
  for ((repeat = 1; repeat <= repeats; ++repeat)); do
    "$@" "$program" run "$name.yaml" --device cpu --steps "$steps" --out "records/$name-$repeat.json.gz" >/dev/null 2>"run.log" || { status=$?; cat run.log >&2; exit $status; }
  done
}
mkdir -p records
scenario one-worker '{ topology: one-node, workers: 1 }'
run one-worker
if [ $workers -gt 1 ]; then
  scenario two-workers '{ topology: one-node, workers: 2 }'
  run two-workers
  if [ "$(id -u)" = 0 ] && "$nodes" 2 100mbit 0 true 2>/dev/null; then
    # A step's gradients must not pass within the burst of what makes the rate: 0.5 ms of it, 32 kB at least.
    for link in 100mbit:32kb:'100 Mbit/s' 1gbit:64kb:'1 Gbit/s'; do
      IFS=: read -r rate burst bandwidth <<<"$link"
      # What a pass and its exchange cost each other there: with the network's threads on the very cores that compute.
      NODES_CORES=1 NODES_BURST=$burst "$nodes" 2 "$rate" 0 "$program" calibrate --device cpu --append --out live.json --model small-cnn \
        --batch "$batch" --network "ethernet $bandwidth tcp" >run.log 2>&1 || { status=$?; cat run.log >&2; exit $status; }
      scenario "two-nodes-$rate" "{ topology: ethernet-nodes, nodes: 2, gpus_per_node: 1, network: { bandwidth: $bandwidth, latency: 30 us } }" ", shared: true"
      NODES_CORES=1 NODES_BURST=$burst run "two-nodes-$rate" "$nodes" 2 "$rate" 0
    done
  else
    echo "No network namespaces here (they need root, ip and tc): no two nodes" >&2
  fi
fi
"$program" validate records --json validation.json >/dev/null 2>&1
python3 - validation.json <<'PYTHON'
import json, sys
print(f"\n{'small-cnn, a step':30} {'predicted':>10} {'measured':>10} {'repeats':>9} {'error':>8}")
for row in sorted(json.load(open(sys.argv[1]))["rows"], key=lambda row: (row["nodes"], row["workers"], row["network"])):
    where = "1 worker" if row["workers"] == 1 else f"{row['workers']} workers" if row["nodes"] == 1 else row["network"]
    spread = "" if row["repeat_spread"] is None else f"+-{50 * row['repeat_spread']:.1f} %"
    print(f"{where:30} {1e3 * row['predicted_s']:7.2f} ms {1e3 * row['measured_s']:7.2f} ms {spread:>9} {100 * row['error']:+6.1f} %")
print("Repeats that differ by more than a few per cent: other work ran on this machine.")
PYTHON
