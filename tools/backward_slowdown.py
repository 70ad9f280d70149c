#!/usr/bin/env python3
"""How much longer backward passes took beside an exchange between nodes: in real runs, and as predicted.

usage: tools/backward_slowdown.py [--program build/foretrain] [--profile NAME]... FOLDER...

    tools/backward_slowdown.py validation/live-gpu/resnet50-network validation/live-gpu/vgg16-10-gbit

Every scenario of two nodes in FOLDER that has records beside it: `backward_s` of its records over the backward pass of one worker
alone, which the scenario's profile tells; and the same of the prediction, from that profile or those of --profile.
"""
import argparse
import gzip
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile


def backward(program, scenario, text, profiles):
    with tempfile.NamedTemporaryFile("w", dir=scenario.parent, suffix=".yaml") as file:
        file.write(text)
        file.flush()
        options = [word for name in profiles for word in ("--profile", name)]
        done = subprocess.run([program, "simulate", file.name, *options, "--quiet", "--json", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"backward_slowdown.py: {scenario}: {done.stderr.strip()}")
    return json.loads(done.stdout)["step"]["breakdown_s"]["backward"]


def measured(scenario):
    found = []
    for path in sorted(scenario.parent.glob(f"{scenario.stem}.*json.gz")):
        with gzip.open(path, "rt") as file:
            record = json.load(file)
        ranks = [statistics.median(rank["backward_s"]) for rank in record["ranks"] if rank.get("backward_s")]
        if ranks:
            found.append(statistics.median(ranks))
    return statistics.median(found) if found else None


def main():
    parser = argparse.ArgumentParser(description="Backward passes beside an exchange between nodes, over alone.")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--program", default="build/foretrain")
    parser.add_argument("--profile", action="append", default=[])
    arguments = parser.parse_args()
    print(f"{'row':44} {'alone':>9} {'measured':>9} {'predicted':>10}")
    for scenario in sorted(path for folder in arguments.folders for path in pathlib.Path(folder).glob("*-2x*.yaml")):
        took = measured(scenario)
        if took is None:
            continue
        text = scenario.read_text()
        one = re.sub(r"(?m)^(strategy|cluster): .*\n", "", text) + "cluster: { topology: one-node, workers: 1 }\n"
        alone = backward(arguments.program, scenario, one, [])
        beside = backward(arguments.program, scenario, text, arguments.profile)
        if arguments.profile:
            beside *= alone / backward(arguments.program, scenario, one, arguments.profile)
        print(f"{scenario.stem:44} {1e3 * alone:6.2f} ms {took / alone:9.3f} {beside / alone:10.3f}", flush=True)


if __name__ == "__main__":
    main()
