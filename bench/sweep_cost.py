#!/usr/bin/env python3
"""Processor time of `foretrain sweep` over 1,000 rows of a shipped scenario: ResNet-50 on eight GPUs, 100 batches by 10 bucket sizes.

    bench/sweep_cost.py build/foretrain [--repeat 5] [--threads 2] [--against OTHER/foretrain]

Prints the least and the median of the repeats, in processor and in wall time; with --against both programs take turns, and whether
their rows are the same bytes. On a machine that others use compare processor times of programs that took turns.
"""
import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time

BUCKETS = ",".join(f"{size} MiB" for size in (2, 5, 10, 15, 20, 25, 30, 40, 50, 100))


def sweep(program, scenario, threads, out):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    subprocess.run([program, "sweep", scenario, "--threads", str(threads), "--vary", "batch.per_worker=16..115+1", "--vary",
                    f"strategy.bucket={BUCKETS}", "--csv", out, "-q"], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--against")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scenario", default=os.path.join(os.path.dirname(__file__), "../scenarios/resnet50-08-gpus.yaml"))
    options = parser.parse_args()
    programs = [options.program] + ([options.against] if options.against else [])
    times = {program: [] for program in programs}
    with tempfile.TemporaryDirectory() as folder:
        rows = {}
        for _ in range(options.repeat):
            for n, program in enumerate(programs):
                out = os.path.join(folder, f"{n}.csv")
                times[program].append(sweep(program, options.scenario, options.threads, out))
                with open(out, "rb") as file:
                    rows[program] = file.read()
        for program in programs:
            processor, wall = zip(*times[program])
            print(f"{program}: {rows[program].count(bytes([10])) - 1} rows, processor {min(processor):.2f} s least, "
                  f"{statistics.median(processor):.2f} s median; wall {min(wall):.2f} s least, {statistics.median(wall):.2f} s median")
        if options.against:
            print("the same bytes" if len(set(rows.values())) == 1 else "the rows differ")


if __name__ == "__main__":
    main()
