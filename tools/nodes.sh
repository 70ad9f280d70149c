#!/bin/bash
# Several nodes out of one machine: every node is a network namespace of its own on a virtual switch, each link
# held to a rate in both directions, and NCCL is told that they are different hosts. See docs/nodes.md.
#
# usage: tools/nodes.sh NODES RATE|none GPUS_PER_NODE COMMAND...
#   tools/nodes.sh 2 10gbit 1 build/foretrain run scenario.yaml --out run.json.gz
#
# COMMAND runs once a node, on all nodes at the same time. Node 0 writes to this terminal, node k to
# ${NODES_LOG:-nodes}.k.log. The exit status is the worst of all nodes; once a node has failed, the others have
# ${NODES_GRACE:-60} seconds. GPUS_PER_NODE 0 leaves CUDA_VISIBLE_DEVICES alone. NODES_CORES gives each node so
# many cores of its own, for workers that compute on them. NODES_BURST is what passes at the host's own speed after a
# pause: a real link lets nothing pass so, but a bucket too small for the kernel's timers does not reach its rate. Left out, it
# is 0.8 ms of the rate, 32kb at least and 1mb at most.
set -u

readonly subnet=10.77.0 mtu=1500 queue=50ms
burst=${NODES_BURST:-}
readonly prefix="foretrain-$$"
port=${NODES_PORT:-29511}
log=${NODES_LOG:-nodes}
grace=${NODES_GRACE:-60}
cores=${NODES_CORES:-0}

fail() { # status message
  echo "nodes.sh: $2" >&2
  exit "$1"
}

whole_number() { [[ $1 =~ ^[0-9]+$ ]]; }

usage="usage: tools/nodes.sh NODES RATE|none GPUS_PER_NODE COMMAND..."
[ $# -ge 4 ] || fail 2 "$usage"
nodes=$1 rate=$2 per_node=$3
shift 3
{ whole_number "$nodes" && [ "$nodes" -ge 1 ] && [ "$nodes" -le 200 ]; } || fail 2 "NODES is 1 to 200, not '$nodes'; $usage"
whole_number "$per_node" || fail 2 "GPUS_PER_NODE is a whole number, not '$per_node'; $usage"
whole_number "$port" || fail 2 "NODES_PORT is a whole number, not '$port'"
whole_number "$cores" || fail 2 "NODES_CORES is a whole number, not '$cores'"
[[ -z $burst || $burst =~ ^[0-9]+[kmg]?b$ ]] || fail 2 "NODES_BURST is a size, as in 256kb, not '$burst'"
whole_number "$grace" || fail 2 "NODES_GRACE is a number of seconds, not '$grace'"
rate=$(tr -d ' ' <<< "${rate%/s}" | tr '[:upper:]' '[:lower:]')
[[ $rate == none || $rate =~ ^[0-9]+(\.[0-9]+)?[kmg]bit$ ]] ||
  fail 2 "RATE is none or a rate with its unit, as in 10gbit or 500mbit, not '$rate'; $usage"
if [ -z "$burst" ]; then
  burst=1mb
  unit=${rate##*[0-9]} number=${rate%%[kmg]bit}
  case $unit in kbit) per=0.0001 ;; mbit) per=0.1 ;; *) per=100 ;; esac # kB in 0.8 ms of one
  [ "$rate" = none ] || burst=$(awk -v rate="$number" -v per=$per 'BEGIN {
    kb = int(rate * per); print (kb < 32 ? 32 : kb > 1000 ? 1000 : kb) "kb" }')
fi
command -v "$1" > /dev/null || fail 2 "there is no command '$1'"

[ "$(id -u)" = 0 ] || fail 4 "network namespaces need root: run it with sudo, or in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN"
for tool in ip tc; do
  command -v $tool > /dev/null || fail 4 "'$tool' is missing: install the package iproute2"
done

# The devices to share out: those the caller may see, else all.
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  IFS=, read -ra devices <<< "$CUDA_VISIBLE_DEVICES"
elif command -v nvidia-smi > /dev/null && count=$(nvidia-smi --list-gpus 2> /dev/null | grep -c '^GPU'); then
  mapfile -t devices < <(seq 0 $((count - 1)))
else
  mapfile -t devices < <(seq 0 $((nodes * per_node - 1)))
fi
[ $((nodes * per_node)) -le ${#devices[@]} ] ||
  fail 4 "$nodes nodes of $per_node GPUs need $((nodes * per_node)) GPUs; there are ${#devices[@]}"

# Those that this process may use, one a line, shared out in their order.
if [ "$cores" -gt 0 ]; then
  mapfile -t usable < <(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
    while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
  [ $((nodes * cores)) -le ${#usable[@]} ] ||
    fail 4 "$nodes nodes of $cores cores need $((nodes * cores)) cores; there are ${#usable[@]}"
fi

pids=()
# shellcheck disable=SC2317 # called by the trap
clean() {
  local node pid
  trap '' INT TERM HUP # a second Ctrl-C must not leave the network behind
  set +m
  for pid in "${pids[@]}"; do kill -TERM -- "-$pid" 2> /dev/null; done
  for pid in "${pids[@]}"; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      kill -0 -- "-$pid" 2> /dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2> /dev/null
    wait "$pid" 2> /dev/null
  done
  for ((node = 0; node < nodes; ++node)); do ip netns del "$prefix-$node" 2> /dev/null; done
  ip netns del "$prefix-switch" 2> /dev/null
  return 0
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

try() { # what command...
  local what=$1 said
  shift
  said=$("$@" 2>&1) || fail 4 "cannot $what: ${said:-$* failed}"
}

try "make a network namespace" ip netns add "$prefix-switch"
try "make a bridge" ip -n "$prefix-switch" link add bridge0 type bridge
try "start the bridge" ip -n "$prefix-switch" link set bridge0 up
for ((node = 0; node < nodes; ++node)); do
  name=$prefix-$node
  try "make a network namespace" ip netns add "$name"
  try "make a link" ip link add "eth$node" mtu $mtu netns "$name" type veth peer name "port$node" mtu $mtu netns "$prefix-switch"
  try "join the bridge" ip -n "$prefix-switch" link set "port$node" master bridge0 up
  try "start the link" ip -n "$name" link set "eth$node" up
  try "start the loopback" ip -n "$name" link set lo up
  try "set an address" ip -n "$name" addr add "$subnet.$((node + 1))/24" dev "eth$node"
  [ "$rate" = none ] && continue
  # A node's sending is held back at its own end, its receiving at the switch's.
  try "hold the rate (is the kernel's sch_tbf there?)" tc -n "$name" qdisc add dev "eth$node" root tbf rate "$rate" burst $burst latency $queue
  try "hold the rate" tc -n "$prefix-switch" qdisc add dev "port$node" root tbf rate "$rate" burst $burst latency $queue
done

start() { # node command...
  local node=$1 visible=() on=()
  shift
  if [ "$cores" -gt 0 ]; then
    local own_cores=("${usable[@]:node*cores:cores}")
    on=(taskset -c "$(IFS=,; echo "${own_cores[*]}")")
  fi
  if [ "$per_node" -gt 0 ]; then
    local own=("${devices[@]:node*per_node:per_node}")
    visible=("CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${own[*]}")")
  fi
  # `ip` may have lost the library path, as programs with capabilities do.
  [ -n "${LD_LIBRARY_PATH:-}" ] && visible+=("LD_LIBRARY_PATH=$LD_LIBRARY_PATH")
  # Nothing but the virtual network may join the nodes: InfiniBand and shared memory would pass it by.
  exec "${on[@]}" ip netns exec "$prefix-$node" env NODE_RANK="$node" NNODES="$nodes" MASTER_ADDR=$subnet.1 MASTER_PORT="$port" \
    NCCL_HOSTID="$prefix-$node" NCCL_SOCKET_IFNAME="eth$node" NCCL_COMM_ID="$subnet.1:$port" \
    NCCL_IB_DISABLE="${NCCL_IB_DISABLE:-1}" "${visible[@]}" "$@"
}

set -m # every node is a process group, so that all of it can be ended
for ((node = 1; node < nodes; ++node)); do
  (start "$node" "$@") > "$log.$node.log" 2>&1 < /dev/null &
  pids+=($!)
done
(start 0 "$@") &
pids+=($!)

worst=0 running=${#pids[@]} deadline=0
while [ "$running" -gt 0 ]; do
  if [ "$deadline" -gt 0 ] && [ "$SECONDS" -ge "$deadline" ]; then
    echo "nodes.sh: a node has failed and $running still run after $grace s: they are ended" >&2
    break
  fi
  still=0
  for i in "${!pids[@]}"; do
    [ -n "${pids[i]}" ] || continue
    if kill -0 "${pids[i]}" 2> /dev/null; then
      still=$((still + 1))
      continue
    fi
    wait "${pids[i]}"
    status=$?
    unset "pids[i]"
    [ $status -gt $worst ] && worst=$status
    [ $status -ne 0 ] && [ "$deadline" -eq 0 ] && deadline=$((SECONDS + grace + 1))
  done
  running=$still
  [ "$running" -gt 0 ] && sleep 0.1
done
exit $worst
