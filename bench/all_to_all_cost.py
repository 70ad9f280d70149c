#!/usr/bin/env python3
"""Processor time and memory of `foretrain collective all_to_all`, from 512 GPUs (pair by pair) to 65,536 (by counts).

    bench/all_to_all_cost.py build/foretrain [--most 65536] [--limit 60] [--routes hash]

The whole command: the cluster built, routed, and the collective timed at one size. Past the limit of processor seconds a row says so.
"""
import argparse
import os
import resource
import subprocess

FABRICS = {
    "one switch": ("ethernet-nodes", {"gpus_per_node": 8, "nics": 8, "network.transport": "rdma"}),
    "fat tree": ("fat-tree", {"gpus_per_node": 8, "nics": 8}),
    "rail-optimized": ("rail-optimized", {"gpus_per_node": 8, "nics": 8}),
    "DGX H100 (rails, 32 nodes a leaf)": ("dgx-h100", {}),
    "dragonfly": ("dragonfly", {"gpus_per_node": 8, "nics": 8}),
    "3D torus": ("torus", {"gpus_per_node": 8, "nics": 8}),
}


def sides(nodes):
    """Three whole numbers as near to each other as powers of two are, which multiply to `nodes`."""
    power = nodes.bit_length() - 1
    return [2 ** ((power + place) // 3) for place in range(3)]


def cost(command, limit):
    """Processor seconds and MiB of one run, or None past the limit."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)))
    _, status, usage = os.wait4(child.pid, 0)
    if os.WIFSIGNALED(status):
        return None
    if status != 0:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--most", type=int, default=65536)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--routes", default="hash")
    parser.add_argument("--kind", default="all_to_all")
    options = parser.parse_args()
    sizes = [gpus for gpus in (512, 1024, 4096, 8192, 16384, 65536) if gpus <= options.most]
    print("| GPUs | " + " | ".join(f"{gpus:,}" for gpus in sizes) + " |")
    print("|---" * (1 + len(sizes)) + "|")
    for name, (topology, keys) in FABRICS.items():
        cells = []
        for gpus in sizes:
            nodes = gpus // 8
            grid = {"nodes": nodes} | (dict(zip("xyz", sides(nodes))) if topology == "torus" else {})
            command = [options.program, "collective", options.kind, "--topology", topology, "--bytes", "256MiB"]
            for key, value in (keys | grid | {"network.routes": options.routes}).items():
                command += ["--set", f"{key}={value}"]
            found = cost(command, options.limit)
            cells.append(f"over {options.limit} s" if found is None else "{:.2f} s, {:.0f} MiB".format(*found))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
