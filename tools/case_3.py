#!/usr/bin/env python3
"""Case 3: schedules x networks x worker rules, simulated: the table of docs/cases.md and its figure.

usage: tools/case_3.py [PROGRAM [FIGURE.svg]]      (default: build/foretrain, docs/figures/case-3.svg)
"""
import json
import pathlib
import subprocess
import sys

from log_figure import Panel, log_figure

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEDULES = {"decaying rate": "decaying-rate", "hybrid-1": "hybrid-1", "hybrid-2": "hybrid-2",
             "increasing batch": "increasing-batch", "hybrid-2 from 256": "hybrid-2-from-256"}
RULES = {"8 workers": "{ fixed: 8 }", "128 samples each": "{ samples_per_worker: 128 }",
         "128 each, at most 25": "{ samples_per_worker: 128, most: 25 }", "32 samples each": "{ samples_per_worker: 32 }"}
NETWORKS = (1, 10, 25, 100, 400)  # Gbit/s


def jobs(program, schedule, rule):
    """One a network."""
    rates = ",".join(f"{rate} Gbit/s" for rate in NETWORKS)
    command = [program, "sweep", str(ROOT / f"scenarios/case-3-{schedule}.yaml"), "--set", "cluster.hosts=500", "--set",
               f"job.workers={rule}", "--vary", f"cluster.bandwidth={rates}", "--json", "-", "-q"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [row["job"] for row in result["rows"]]


def main(arguments):
    program = arguments[0] if arguments else str(ROOT / "build/foretrain")
    target = pathlib.Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs/figures/case-3.svg"
    print("| workers | schedule | updates | " + " | ".join(f"{rate} Gbit/s" for rate in NETWORKS) + " |")
    print("|---" * (3 + len(NETWORKS)) + "|")
    panels, hours = [], []
    for name, rule in RULES.items():
        lines = []
        for shown, schedule in SCHEDULES.items():
            row = jobs(program, schedule, rule)
            lines.append([(rate, job["time_s"] / 3600) for rate, job in zip(NETWORKS, row)])
            cells = " | ".join(f"{job['time_s'] / 3600:.2f} ({job['cost']:.2f})" for job in row)
            print(f"| {name} | {shown} | {row[0]['updates']:,} | {cells} |")
        hours += [y for line in lines for _, y in line]
        panels.append(Panel(f"{name}: Gbit/s", lines))
    target.parent.mkdir(parents=True, exist_ok=True)
    title = "Hours to train by schedule, network and worker rule"
    target.write_text(log_figure(title, list(SCHEDULES), panels, (min(hours), max(hours)), "hours"))


if __name__ == "__main__":
    main(sys.argv[1:])
