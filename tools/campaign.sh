#!/usr/bin/env bash
# Runs rows of a campaign for real: each is predicted, the prediction is stored with its digest, then it is trained and
# every step is measured. One process a row; rows over several nodes run in network namespaces (tools/nodes.sh; root).
#
#   tools/campaign.sh ROWS OUT GROUP... -- PROFILE...
#
# ROWS is a list like validation/live-gpu/rows.txt. Records go to OUT/GROUP-MODEL-PRECISION-BATCH-STRATEGY-NETWORK.json.gz.
# FORETRAIN names the program (default build/foretrain); DEADLINE: seconds after which no further row is begun.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export program=${FORETRAIN:-$here/../build/foretrain}
rows=${1:?rows} out=${2:?output folder}
shift 2
groups=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do groups+=("$1") && shift; done
[ $# -gt 0 ] && shift
profiles=()
for profile in "$@"; do profiles+=(--profile "$profile"); done
mkdir -p "$out"
scenario=$(mktemp --suffix .yaml)
trap 'rm -f "$scenario"' EXIT

while read -r group model precision batch workers nodes network strategy; do
  [[ -z $group || $group == \#* ]] && continue
  [[ " ${groups[*]} " == *" $group "* ]] || continue
  if [ "$SECONDS" -ge "${DEADLINE:-1000000}" ]; then echo "not begun: $group $model $batch $strategy" && continue; fi
  if [ "$network" = - ]; then
    cluster="{ topology: nvlink-node, gpus_per_node: $workers }"
  else
    # A veth pair reports 10 Gbit/s whatever it is shaped to.
    cluster="{ topology: ethernet-nodes, nodes: $nodes, gpus_per_node: $((workers / nodes)), network: { bandwidth: $network Gbit/s, latency: 15 us, transport: tcp, reported: 10 Gbit/s } }"
  fi
  printf '# %s of the campaign\nmodel: %s\nprofile: none\nprecision: %s\nbatch: { per_worker: %s }\ncluster: %s\nstrategy: { kind: %s }\n' \
    "$group" "$model" "$precision" "$batch" "$cluster" "$strategy" >"$scenario"
  command=("$program" run "$scenario" "${profiles[@]}" --group "$group" --out
    "$out/$group-$model-$precision-$batch-$strategy-$network.json.gz" -q)
  if [ "$network" = - ]; then
    "${command[@]}"
  else
    LIBRARIES=${LD_LIBRARY_PATH:-} "$here/nodes.sh" "$nodes" "${network}gbit" "$((workers / nodes))" \
      bash -c 'LD_LIBRARY_PATH=$LIBRARIES exec "$@"' _ "${command[@]}"
  fi || echo "failed with $?: $group $model $precision $batch $strategy $network"
done <"$rows"
