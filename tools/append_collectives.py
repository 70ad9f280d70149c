#!/usr/bin/env python3
"""Takes collectives that another machine of the same GPU type measured into a profile.

usage: tools/append_collectives.py PROFILE FROM RANKS...

    tools/append_collectives.py profiles/h200.json.gz validation/live-gpu/four/collectives/profile-4.json.gz 3 4

Entries of FROM within one node and of RANKS ranks are added as they are, with the run that measured them, so that `runs` of
PROFILE names both machines. Refused where GPU types differ or PROFILE has such entries.
"""
import argparse
import gzip
import json
import sys


def read(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def lines_of(value):
    """As calibrate writes it: an entry a line."""
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    if not isinstance(value, list) or not value:
        return json.dumps(value, **compact)
    return "[\n  " + ",\n  ".join(json.dumps(each, **compact) for each in value) + "\n]"


def gpu_types(profile):
    return {run["machine"]["gpu"] for run in profile["runs"]}


def main():
    parser = argparse.ArgumentParser(description="Takes collectives of another machine into a profile.")
    parser.add_argument("profile")
    parser.add_argument("source")
    parser.add_argument("ranks", type=int, nargs="+")
    arguments = parser.parse_args()
    profile, source = read(arguments.profile), read(arguments.source)
    if gpu_types(profile) != gpu_types(source):
        sys.exit(f"append_collectives.py: {gpu_types(profile)} is not {gpu_types(source)}")
    if any(entry["ranks"] in arguments.ranks and entry.get("nodes", 1) == 1 for entry in profile["collectives"]):
        sys.exit("append_collectives.py: the profile has collectives of these ranks")
    added = [entry for entry in source["collectives"] if entry["ranks"] in arguments.ranks and entry.get("nodes", 1) == 1]
    runs = [run for run in source["runs"] if "--collectives" in run["command"] and f"--gpus {max(arguments.ranks)}" in run["command"]]
    if not added or not runs:
        sys.exit(f"append_collectives.py: {arguments.source} holds no such collectives, or no run of so many GPUs")
    profile["collectives"] += added
    profile["runs"] += runs
    text = "{\n" + ",\n".join(f"{json.dumps(key)}: {lines_of(value)}" for key, value in profile.items()) + "\n}\n"
    with open(arguments.profile, "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))
    print(f"{len(added)} collectives of {len(runs)} run")


if __name__ == "__main__":
    main()
