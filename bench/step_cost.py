#!/usr/bin/env python3
"""Processor time and memory of `foretrain simulate` of one data-parallel step, from 64 to 65,536 GPUs.

Whole command: reading profile and scenario, building and routing the cluster, replays for the interval, remedies, break-even and
sensitivity. Prints a table and the exponent of a fit over the larger half, after what a single GPU takes is taken off.

    bench/step_cost.py build/foretrain [--most 65536] [--repeat 3] [--distinct]

--distinct: every rank of its own speed (up to 1 % slower), 1 % stragglers (30 % slower), 1 % of the NICs at a quarter of their rate.
"""
import argparse
import math
import os
import random
import subprocess
import tempfile

FABRICS = {
    "one switch, 100 Gbit/s a node": "topology: ethernet-nodes\n  network: { bandwidth: 100 Gbit/s, latency: 15 us }",
    "fat tree, 8 x 400 Gbit/s a node": "topology: fat-tree\n  nics: 8\n"
    "  network: { bandwidth: 400 Gbit/s, latency: 1 us, transport: rdma }",
}


def scenario(fabric, gpus, distinct):
    text = f"""model: resnet50
profile: h100
precision: bf16
batch: {{ per_worker: 64 }}
cluster:
  {fabric}
  nodes: {max(1, gpus // 8)}
  gpus_per_node: {min(8, gpus)}
"""
    if distinct:
        draw = random.Random(1)
        text += "  slow_gpus:\n"
        for rank in range(gpus):
            factor = 1 + 0.01 * draw.random() + (0.3 if draw.random() < 0.01 else 0)
            text += f"    - {{ from: {rank}, factor: {factor:.8f} }}\n"
        slow = [rank for rank in range(gpus) if draw.random() < 0.01] or [0]
        nics = 8 if "nics: 8" in fabric else 1
        names = sorted({f"node{rank // 8}.nic{rank % 8 % nics}" for rank in slow})
        rate = "100" if nics == 8 else "25"
        text += "  links:\n" + "".join(f'    - {{ name: "{n}", bandwidth: {rate} Gbit/s }}\n' for n in names)
    return text


def cost(program, file):
    """Processor seconds, wall seconds and MiB of one run."""
    before = os.times()
    child = subprocess.Popen([program, "simulate", file, "-q"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{program} simulate {file} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, os.times().elapsed - before.elapsed, usage.ru_maxrss / 1024


def exponent(points):
    """Of seconds over GPUs by least squares in logarithms."""
    x = [math.log(gpus) for gpus, _ in points]
    y = [math.log(seconds) for _, seconds in points]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--most", type=int, default=65536)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--distinct", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "step.yaml")

        def least(fabric, gpus):
            with open(file, "w", encoding="utf-8") as out:
                out.write(scenario(fabric, gpus, options.distinct))
            return tuple(map(min, zip(*(cost(options.program, file) for _ in range(options.repeat)))))

        for name, fabric in FABRICS.items():
            print(f"\n{name}\n\n| GPUs | processor | wall | memory |\n|---|---|---|---|")
            base = least(fabric, 16)[0]
            points = []
            gpus = 64
            while gpus <= options.most:
                seconds, wall, memory = least(fabric, gpus)
                print(f"| {gpus:,} | {seconds:.2f} s | {wall:.2f} s | {memory:.0f} MiB |", flush=True)
                if gpus >= 1024 and seconds > base:
                    points.append((gpus, seconds - base))
                gpus *= 4
            if len(points) > 1:
                print(f"\nbeyond the {base:.2f} s of 16 GPUs it grows with the number of GPUs to the power "
                      f"{exponent(points):.2f} from 1,024 on")


if __name__ == "__main__":
    main()
