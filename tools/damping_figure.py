#!/usr/bin/env python3
"""Draws what bench/damping_experiment wrote, and prints the table of docs/cases.md.

usage: tools/damping_figure.py [RESULTS.csv [FIGURE.svg]]
       (default: validation/damping/results.csv, docs/figures/damping.svg)
"""
import csv
import pathlib
import sys

from log_figure import Panel, log_figure

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = (0.1, 0.01, 0.001)  # of the first excess loss
AXES = (("update", "updates"), ("samples", "gradients of samples"), ("seconds", "seconds on one worker"))
LEAST = 1e-5  # of the loss axis


def read(path):
    rules = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            point = {key: float(row[key]) for key in ("update", "samples", "seconds", "batch", "excess_loss")}
            rules.setdefault(row["rule"], []).append(point)
    return rules


def reached(points, share):
    """The first point from which the loss stays below a share of the first one."""
    bound = share * points[0]["excess_loss"]
    above = max((i for i, point in enumerate(points) if point["excess_loss"] > bound), default=-1)
    return points[above + 1] if above + 1 < len(points) else None


def table(rules):
    lines = ["| rule | " + " | ".join(f"to {share:.1%}: updates, samples, s" for share in TARGETS) + " | last batch |",
             "|---" * (len(TARGETS) + 2) + "|"]
    for name, points in rules.items():
        cells = []
        for share in TARGETS:
            at = reached(points, share)
            cells.append(f"{at['update']:,.0f}, {at['samples']:,.0f}, {at['seconds']:.3f}" if at else "not")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {points[-1]['batch']:,.0f} |")
    return "\n".join(lines)


def figure(rules):
    start = max(run[0]["excess_loss"] for run in rules.values())
    panels = []
    for axis, title in AXES:
        lines = [[(point[axis], point["excess_loss"]) for point in run] for run in rules.values()]
        panels.append(Panel(title, lines))
    return log_figure("Excess loss of a linear network by rule of the batch", list(rules), panels, (LEAST, start))


def main(arguments):
    results = pathlib.Path(arguments[0]) if arguments else ROOT / "validation/damping/results.csv"
    target = pathlib.Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs/figures/damping.svg"
    rules = read(results)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(figure(rules))
    print(table(rules))


if __name__ == "__main__":
    main(sys.argv[1:])
