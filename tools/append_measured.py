#!/usr/bin/env python3
"""Takes what another machine of the same GPU type measured into a profile.

usage: tools/append_measured.py PROFILE FROM --collectives RANKS...
       tools/append_measured.py PROFILE FROM --interference MODEL...

    tools/append_measured.py profiles/h200.json.gz validation/live-gpu/four/collectives/profile-4.json.gz --collectives 3 4

Entries of FROM are added as they are, with the runs that measured them, so that `runs` of PROFILE names both machines:
collectives within one node, of RANKS ranks; or what passes of MODEL and collectives between nodes cost each other. Refused
where GPU types differ or PROFILE has such entries.
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


def write(path, profile):
    text = "{\n" + ",\n".join(f"{json.dumps(key)}: {lines_of(value)}" for key, value in profile.items()) + "\n}\n"
    with open(path, "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))


def gpu_types(profile):
    return {run["machine"]["gpu"] for run in profile["runs"]}


class Refused(Exception):
    pass


def collectives_of(profile, ranks):
    return [entry for entry in profile["collectives"] if entry["ranks"] in ranks and entry.get("nodes", 1) == 1]


def interference_of(profile, models):
    return [entry for entry in profile.get("interference", []) if entry["model"] in models and entry.get("nodes", 1) > 1]


def runs_of_collectives(source, ranks):
    return [run for run in source["runs"] if "--collectives" in run["command"] and f"--gpus {max(ranks)}" in run["command"]]


def runs_of_interference(source, models):
    def asks(run):
        words = run["command"].split()
        return "--network" in words and "--model" in words and words[words.index("--model") + 1] in models

    return [run for run in source["runs"] if asks(run)]


def append(profile, source, key, entries_of, runs_of, wanted):
    if gpu_types(profile) != gpu_types(source):
        raise Refused(f"{gpu_types(profile)} is not {gpu_types(source)}")
    added, runs = entries_of(source, wanted), runs_of(source, wanted)
    if not added or not runs:
        raise Refused(f"the source holds no such {key}, or no run that measured them")
    place = ("model", "precision", "batch", "network") if key == "interference" else ("ranks",)
    known = {tuple(entry.get(each) for each in place) for entry in entries_of(profile, wanted)}
    if any(tuple(entry.get(each) for each in place) in known for entry in added):
        raise Refused(f"the profile has such {key}")
    profile[key] = profile.get(key, []) + added
    profile["runs"] += runs
    return added, runs


def main():
    parser = argparse.ArgumentParser(description="Takes what another machine of the same GPU type measured into a profile.")
    parser.add_argument("profile")
    parser.add_argument("source")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--collectives", type=int, nargs="+", metavar="RANKS")
    what.add_argument("--interference", nargs="+", metavar="MODEL")
    arguments = parser.parse_args()
    profile, source = read(arguments.profile), read(arguments.source)
    try:
        if arguments.collectives:
            added, runs = append(profile, source, "collectives", collectives_of, runs_of_collectives, arguments.collectives)
        else:
            added, runs = append(profile, source, "interference", interference_of, runs_of_interference, arguments.interference)
    except Refused as error:
        sys.exit(f"append_measured.py: {arguments.source}: {error}")
    write(arguments.profile, profile)
    print(f"{len(added)} entries of {len(runs)} runs")


if __name__ == "__main__":
    main()
