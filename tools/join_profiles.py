#!/usr/bin/env python3
"""Joins profiles of one GPU type that were measured one by one: all entries as they are, runs and all.

usage: tools/join_profiles.py OUT.json.gz NAME FROM.json.gz...

    tools/join_profiles.py profiles/h200-lengths.json.gz h200-lengths validation/live-gpu/sequences/one-gpu/{gpt2-medium,unequal-gpt2-small,unequal-transformer-base,unequal-lstm-seq2seq}/profile.json.gz

`runs` of OUT names every machine. Refused where GPU types differ, or where two hold the same model at the same precision, batch and
length.
"""
import argparse
import sys

from append_measured import gpu_types, read, write


def places(profile):
    return {(e["model"], e["precision"], e["batch"], e.get("sequence", 0)) for e in profile["steps"]}


def main():
    parser = argparse.ArgumentParser(description="Joins profiles of one GPU type.")
    parser.add_argument("out")
    parser.add_argument("name")
    parser.add_argument("sources", nargs="+")
    arguments = parser.parse_args()
    profiles = [read(path) for path in arguments.sources]
    joined, known = dict(profiles[0], name=arguments.name), places(profiles[0])
    for path, profile in zip(arguments.sources[1:], profiles[1:]):
        if gpu_types(profile) != gpu_types(joined):
            sys.exit(f"join_profiles.py: {path}: {gpu_types(profile)} is not {gpu_types(joined)}")
        if same := known & places(profile):
            sys.exit(f"join_profiles.py: {path}: {sorted(same)[0]} is there already")
        known |= places(profile)
        for key, value in profile.items():
            if isinstance(value, list):
                joined[key] = joined.get(key, []) + value
    write(arguments.out, joined)
    print(f"{len(joined['steps'])} steps of {len(profiles)} profiles")


if __name__ == "__main__":
    main()
