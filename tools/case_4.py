#!/usr/bin/env python3
"""Case 4: each column of the document on 1 to 8 GPUs, simulated from its one-GPU row: the tables of docs/cases.md.

usage: tools/case_4.py [PROGRAM]      (default: build/foretrain)

A cell is theirs (ours). Words count padding: 200 a pair in the ideal columns, 201 elsewhere. Launches of one process that drives
all GPUs are those of one GPU times their number. The last table adds to the ideal columns what waiting for the slowest of n
replicas costs, where a replica's time is normal with a deviation that the row of two GPUs gives.
"""
import csv
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPUS, BATCHES, PAIRS = range(1, 9), 20, 384
# Expected largest of n standard normal draws (Harter 1961).
LARGEST = (0, 0, 0.5642, 0.8463, 1.0294, 1.1630, 1.2672, 1.3522, 1.4236)


def measured():
    columns = {}
    with open(ROOT / "validation/published/data/sequence_to_sequence.csv", newline="") as file:
        for row in csv.DictReader(file):
            columns.setdefault(row["column"], {})[int(row["gpus"])] = row
    return columns


def predicted(program, column):
    """Seconds of the batches by number of GPUs."""
    command = [program, "sweep", str(ROOT / f"scenarios/case-4-{column.replace(' ', '-')}.yaml"), "--vary",
               "cluster.gpus_per_node=1..8+1", "--json", "-", "-q"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["workers"]: BATCHES * row["step"]["time_s"] for row in result["rows"]}


def words_per_second(column, gpus, seconds):
    words = 200 if column.startswith("ideal") else 201
    return BATCHES * PAIRS * words * gpus / seconds


def heading(columns):
    print("| GPUs | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")


def table(columns, ours, theirs_text, ours_text):
    heading(columns)
    for gpus in GPUS:
        cells = []
        for name, rows in columns.items():
            own = f"({ours_text(name, gpus, ours[name][gpus])})"
            cells.append(f"{theirs_text(name, gpus, rows[gpus])} {own}" if gpus in rows else f"- {own}")
        print(f"| {gpus} | " + " | ".join(cells) + " |")


def errors(columns, ours):
    cells = []
    for name, rows in columns.items():
        known = [ours[name][gpus] / float(rows[gpus]["seconds_20_batches"]) - 1 for gpus in rows if gpus > 1]
        cells.append(f"{statistics.mean(map(abs, known)):.1%}" if known else "-")
    print("| mean error | " + " | ".join(cells) + " |\n")


def seconds_of(row):
    return float(row["seconds_20_batches"])


def main(arguments):
    program = arguments[0] if arguments else str(ROOT / "build/foretrain")
    columns = measured()
    columns["all-reduce fused"] = {}  # not run by them
    ours = {name: predicted(program, name) for name in columns}
    print("Seconds for 20 batches, theirs (ours):\n")
    table(columns, ours, lambda name, gpus, row: f"{seconds_of(row):.2f}", lambda name, gpus, own: f"{own:.2f}")
    errors(columns, ours)
    print("Thousand words a second; in brackets ours, and the speedup over one GPU of theirs and ours:\n")

    def speed(name, gpus, seconds, one):
        return f"{words_per_second(name, gpus, seconds) / 1e3:.0f}, {gpus * one / seconds:.2f} x"

    table(columns, ours, lambda name, gpus, row: speed(name, gpus, seconds_of(row), seconds_of(columns[name][1])),
          lambda name, gpus, own: speed(name, gpus, own, ours[name][1]))
    print("\nLaunches a step of the process, theirs (one GPU's times the GPUs):\n")
    ideal = {name: rows for name, rows in columns.items() if name.startswith("ideal")}
    one = {name: int(rows[1]["launches_a_step"]) for name, rows in ideal.items()}
    table(ideal, ours, lambda name, gpus, row: f"{int(row['launches_a_step']):,}" if row["launches_a_step"] else "-",
          lambda name, gpus, own: f"{gpus * one[name]:,}")
    print("\nSeconds of the ideal columns, theirs (ours with the slowest of n replicas, its deviation from the row of two GPUs):\n")
    slowest = {}
    for name, rows in ideal.items():
        deviation = (seconds_of(rows[2]) - ours[name][2]) / LARGEST[2]
        slowest[name] = {gpus: ours[name][gpus] + deviation * LARGEST[gpus] for gpus in GPUS}
    table(ideal, slowest, lambda name, gpus, row: f"{seconds_of(row):.2f}", lambda name, gpus, own: f"{own:.2f}")
    cells = []
    for name, rows in ideal.items():
        known = [slowest[name][gpus] / seconds_of(rows[gpus]) - 1 for gpus in rows if gpus > 2]
        cells.append(f"{statistics.mean(map(abs, known)):.1%}")
    print("| mean error from 3 GPUs on | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
