#!/usr/bin/env python3
"""Runs a validation campaign from a committed list of rows, slice by slice.

usage: tools/campaign.py ROWS --list
       tools/campaign.py ROWS --slice NAME --out FOLDER [--profile NAME]... [--calibrated FOLDER] [--most-gpus N]
                         [--least-rows-gpus N] [--most-rows-gpus N] [--steps N] [--warmup N] [--soak SECONDS] [--program build/foretrain] [--device cuda] [--dry-run]
       tools/campaign.py ROWS --missing FOLDER

A slice is one go on one machine: it calibrates what its rows need, apart and before, then predicts, trains and measures
every row. It leaves in FOLDER/SLICE the profiles, a scenario and the records (compressed) of every row; `foretrain validate
FOLDER` holds them against each other. Rows of one network and number of repeats share one command, so that devices and
communicators stay open. Rows over several nodes run under tools/nodes.sh and need root.

With --profile nothing is calibrated: rows are predicted from those profiles, later ones win. With --calibrated what an
earlier slice left in FOLDER, in the same go on the same machine, is taken over, and only what it lacks is calibrated. With
--most-gpus calibration sees no more GPUs than that, nor more nodes, whatever the rows use. With --most-rows-gpus only rows of
so many GPUs at most are run, what a smaller machine can; with --least-rows-gpus those that are left.

ROWS.yaml needs no YAML library here: `key: value` lines under `calibration:` and `rows:`, each entry one flow map a line,
    - { slice: a, group: nvlink, model: resnet50, precision: bf16, batch: 48, gpus: 2, nodes: 1, ... }
`lengths: 16:30 64:10` and `batching` make a row's samples unequal (lengths and how many of each), `cuda_graph: true` captures its
step, `processes: per_gpu` gives each GPU a process. A calibration with `sequences: 16 64` is of these lengths, for rows of unequal ones alone.
`step` is the expected step in milliseconds, of earlier measurements; it serves the estimate of device time and nothing else.
A list that ends in .txt is a table: group, model, precision, batch, workers, nodes, network (Gbit/s, or -), strategy; its
slices are the groups.
"""

import argparse
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
KEYS = {
    "calibration": {"model": str, "precision": str, "batches": str, "sequences": str, "seconds": float},
    "rows": {"slice": str, "group": str, "model": str, "precision": str, "batch": int, "gpus": int, "nodes": int,
             "rate": str, "strategy": str, "lengths": str, "batching": str, "cuda_graph": str, "processes": str, "sequence": int, "repeats": int,
             "warmup": int, "steps": int, "step": float},
}
DEFAULTS = {"nodes": 1, "rate": "", "strategy": "ddp", "repeats": 1, "warmup": 10, "seconds": 0.0, "sequences": "",
            "lengths": "", "batching": "", "cuda_graph": "", "processes": "", "sequence": 0, "steps": 0}
LONGEST_SECONDS, FEWEST_STEPS, MOST_STEPS = 20.0, 12, 100  # of the steps that count
# Wall clock beside the steps (seconds, of the first campaign on H100): a process until its first step, a scenario's plan
# search and allocations, collectives within a node, collectives between nodes, what a model and those cost each other.
PROCESS, SCENARIO, LOCAL_COLLECTIVES, NETWORK_COLLECTIVES, NETWORK_INTERFERENCE = 8, 4, 15, 40, 12
LONGEST_SLICE = 540


class Mistake(Exception):
    pass


def read_table(path):
    rows = []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 8:
            raise Mistake(f"{path}:{number}: {len(words)} columns, not 8")
        group, model, precision, batch, workers, nodes, network, strategy = words
        rate = "" if network == "-" else f"{network} Gbit/s"
        rows.append({**DEFAULTS, "slice": group, "group": group, "model": model, "precision": precision, "batch": int(batch),
                     "gpus": int(workers), "nodes": int(nodes), "rate": rate, "strategy": strategy, "step": 0.0})
    return [], rows


def read_rows(path):
    if str(path).endswith(".txt"):
        return read_table(path)
    part, found = None, {"calibration": [], "rows": []}
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        line = line.split("#", 1)[0].rstrip()
        if not line:
            continue
        heading = re.fullmatch(r"(\w+):", line)
        entry = re.fullmatch(r"\s*- \{\s*(.*?)\s*\}", line)
        if heading and heading[1] in found:
            part = heading[1]
        elif entry and part:
            found[part].append(read_entry(f"{path}:{number}", entry[1], KEYS[part]))
        else:
            raise Mistake(f"{path}:{number}: neither 'calibration:', 'rows:' nor '- {{ key: value, ... }}'")
    for row in found["rows"]:
        if row["lengths"] and row["sequence"]:
            raise Mistake(f"{path}: a row has lengths or one sequence: {row}")
        if bool(row["lengths"]) != bool(row["batching"]) or row["cuda_graph"] not in ("", "true"):
            raise Mistake(f"{path}: lengths and batching go together, and cuda_graph is true or not there: {row}")
        if row["nodes"] > 1 and not row["rate"]:
            raise Mistake(f"{path}: a row of {row['nodes']} nodes needs a rate: {row}")
        if row["gpus"] % row["nodes"]:
            raise Mistake(f"{path}: {row['gpus']} GPUs do not fill {row['nodes']} nodes evenly: {row}")
    names = [(row["slice"], name_of(row)) for row in found["rows"]]
    for name in names:
        if names.count(name) > 1:
            raise Mistake(f"{path}: two rows are called {name[1]} in slice {name[0]}")
    return found["calibration"], found["rows"]


def read_entry(where, text, keys):
    entry = {}
    for pair in text.split(","):
        key, _, value = (word.strip() for word in pair.partition(":"))
        if key not in keys or key in entry:
            raise Mistake(f"{where}: '{key}' is unknown or there twice; allowed are {', '.join(keys)}")
        try:
            entry[key] = keys[key](value)
        except ValueError:
            raise Mistake(f"{where}: {key}: '{value}' is no {keys[key].__name__}") from None
    missing = [key for key in keys if key not in entry and key not in DEFAULTS]
    if missing:
        raise Mistake(f"{where}: {', '.join(missing)} missing")
    return {**{key: value for key, value in DEFAULTS.items() if key in keys}, **entry}


def name_of(row):
    """Of the scenario: resnet50-bf16-48-ddp-2x1-10gbit."""
    gpus = f"{row['nodes']}x{row['gpus'] // row['nodes']}"
    rate = "-" + re.sub(r"[ /]|bit/s", "", row["rate"]) if row["rate"] else ""
    words = (row["batching"], "captured" if row["cuda_graph"] else "", row["processes"])
    how = "".join("-" + word.replace("_", "-") for word in words if word)
    length = f"x{row['sequence']}" if row["sequence"] else ""
    return f"{row['model']}-{row['precision']}-{row['batch']}{length}{how}-{row['strategy'].replace('_', '-')}-{gpus}{rate.lower()}"


def network_name(rate):
    return f"ethernet {with_unit(rate)} tcp"


def rate_for_nodes(rate):
    """"10 Gbit/s" as tc writes it."""
    return re.sub(r"\s+|/s", "", rate).lower()


def scenario_text(row, profiles, device="cuda"):
    if row["nodes"] > 1:
        # A virtual interface reports 10 Gbit/s whatever holds it back.
        latency = "30 us" if device == "cpu" else "15 us"
        cluster = (f"{{ topology: ethernet-nodes, nodes: {row['nodes']}, gpus_per_node: {row['gpus'] // row['nodes']}, "
                   f"network: {{ bandwidth: {with_unit(row['rate'])}, latency: {latency}, transport: tcp, reported: 10 Gbit/s }} }}")
    elif device == "cpu":
        cluster = f"{{ topology: one-node, workers: {row['gpus']} }}"
    else:
        cluster = f"{{ topology: nvlink-node, gpus_per_node: {row['gpus']} }}"
    return (f"# A row of the campaign, group {row['group']}\nmodel: {row['model']}\nprofile: [{', '.join(profiles)}]\n"
            f"precision: {row['precision']}\nbatch: {{ per_worker: {row['batch']} }}\ncluster: {cluster}\n"
            f"strategy: {{ kind: {row['strategy']} }}\n{sequence_text(row)}"
            + ("execution: { cuda_graph: true }\n" if row["cuda_graph"] else "")
            + (f"host: {{ processes: {row['processes']} }}\n" if row["processes"] else "")
            + host_text(row, device))


def host_text(row, device):
    """Nodes that are made of one machine share its memory and caches, as workers of one node do."""
    if device != "cpu":
        return ""
    return "host: { threads: 1, shared: true }\n" if row["nodes"] > 1 else "host: { threads: 1 }\n"


def with_unit(rate):
    """"100mbit" as a scenario writes it: "100 Mbit/s"."""
    found = re.fullmatch(r"(\d+)([kmg])bit", rate)
    return f"{found[1]} {found[2].upper().replace('K', 'k')}bit/s" if found else rate


def sequence_text(row):
    if row["sequence"]:
        return f"sequence: {row['sequence']}\n"
    if not row["lengths"]:
        return ""
    counts = ", ".join(pair.replace(":", ": ") for pair in row["lengths"].split())
    return f"sequence: {{ lengths: {{ {counts} }}, batching: {row['batching']} }}\n"


def slices_of(rows):
    return list(dict.fromkeys(row["slice"] for row in rows))


def needed_calibrations(calibration, rows):
    wanted = {(row["model"], row["precision"], bool(row["lengths"] or row["sequence"])) for row in rows}
    of = {id(entry): (entry["model"], entry["precision"], bool(entry["sequences"])) for entry in calibration}
    have = [entry for entry in calibration if of[id(entry)] in wanted]
    lacking = wanted - {of[id(entry)] for entry in have}
    if lacking:
        raise Mistake(f"no calibration for {', '.join(' '.join(each[:2]) for each in sorted(lacking))}")
    return have


def batches(rows):
    """Rows that one command can run: of one group, number of nodes, rate, repeats, warm-up and steps."""
    together = {}
    for row in rows:
        key = (row["group"], row["nodes"], row["gpus"], row["rate"], row["repeats"], row["warmup"], row["steps"], row["processes"])
        together.setdefault(key, []).append(row)
    return list(together.values())


def estimate(calibration, rows):
    """Seconds on the device machine: calibration, runs."""
    calibrating = sum(len(entry["sequences"].split() or [""]) * (PROCESS + (entry["seconds"] or 7 * len(entry["batches"].split())))
                      for entry in needed_calibrations(calibration, rows))
    if any(row["gpus"] > row["nodes"] for row in rows):
        calibrating += PROCESS + LOCAL_COLLECTIVES
    calibrating += len({row["rate"] for row in rows if row["rate"]}) * (
        PROCESS + NETWORK_COLLECTIVES + len(needed_calibrations(calibration, rows)) * (PROCESS + NETWORK_INTERFERENCE))
    running = 0.0
    for batch in batches(rows):
        running += PROCESS
        for row in batch:
            step = max(row["step"], 1e-3) / 1e3
            counted = row["steps"] or min(MOST_STEPS, max(FEWEST_STEPS, LONGEST_SECONDS / step))
            running += SCENARIO + row["repeats"] * (1 + row["warmup"] + counted) * step
    return calibrating, running


def calibrated_in(folder):
    """Of an earlier slice: its profiles by name, the models and precisions in profile.json.gz, and whether collectives are."""
    if not folder:
        return {}, set(), False
    profiles = {path.name: path for path in pathlib.Path(folder).glob("profile*.json.gz")}
    if "profile.json.gz" not in profiles:
        raise Mistake(f"{folder} holds no profile.json.gz")
    with gzip.open(profiles["profile.json.gz"], "rt") as file:
        profile = json.load(file)
    timed = {(entry["context"], entry["precision"]) for entry in profile["operators"] if "context" in entry}
    return profiles, timed, bool(profile.get("collectives"))


def calibrating(calibration, rows, folder, arguments):
    profile = folder / "profile.json.gz"
    base = [arguments.program, "calibrate", "--device", arguments.device]
    most = arguments.most_gpus
    local = base + (["--gpus", str(most)] if most else [])
    have, timed, collectives = calibrated_in(arguments.calibrated)
    planned = []
    for entry in needed_calibrations(calibration, rows):
        if (entry["model"], entry["precision"]) in timed:
            continue
        for sequence in entry["sequences"].split() or [""]:
            of_length = f"-{sequence}" if sequence else ""
            command = local + ["--out", str(profile), "--append", "--model", entry["model"], "--batch",
                              ",".join(entry["batches"].split()), "--precision", entry["precision"], "--validate-parts",
                              str(folder / f"parts-{entry['model']}-{entry['precision']}{of_length}.json")]
            command += ["--sequence", sequence] if sequence else []
            planned.append(command + (["--seconds", f"{entry['seconds']:g}"] if entry["seconds"] else []))
    # The very messages of every job of the campaign, so that its slices can share a profile.
    buckets = ["--buckets-of", ",".join(dict.fromkeys(entry["model"] for entry in calibration))] if calibration else []
    if any(row["gpus"] > row["nodes"] for row in rows) and not collectives:
        planned.append(local + ["--out", str(profile), "--append", "--collectives"] + buckets)
    for rate in dict.fromkeys(row["rate"] for row in rows if row["rate"]):
        if network_profile(rate) in have:
            continue
        nodes = max(row["nodes"] for row in rows if row["rate"] == rate)
        per_node = max(row["gpus"] // row["nodes"] for row in rows if row["rate"] == rate)
        if most:
            nodes = min(nodes, most)
            per_node = min(per_node, max(1, most // nodes))
        planned.append(on_nodes(nodes, rate, 0 if arguments.device == "cpu" else per_node) + base +
                       ["--out", str(folder / network_profile(rate)), "--collectives", "--network", network_name(rate),
                        "--seconds", str(NETWORK_COLLECTIVES)] + buckets)
        # What passes of a model and its exchange over this network cost each other.
        for entry in needed_calibrations(calibration, rows):
            length = (entry["sequences"].split() or [""])[0]
            planned.append(on_nodes(nodes, rate, 0 if arguments.device == "cpu" else per_node) + base +
                           ["--out", str(folder / network_profile(rate)), "--append", "--network", network_name(rate),
                            "--model", entry["model"], "--batch", middle(entry["batches"].split()), "--precision", entry["precision"]] +
                           (["--sequence", length] if length else []))
    return planned


def middle(batches):
    return sorted(batches, key=int)[len(batches) // 2]


def runs(rows, folder, arguments):
    planned = []
    for batch in batches(rows):
        first = batch[0]
        run = [arguments.program, "run", *(str(folder / f"{name_of(row)}.yaml") for row in batch), "--device",
               arguments.device, "--out", str(folder), "--group", first["group"], "--repeats", str(first["repeats"]),
               "--warmup", str(arguments.warmup or first["warmup"])]
        if arguments.steps or first["steps"]:
            run += ["--steps", str(arguments.steps or first["steps"])]
        if arguments.soak:
            run += ["--soak", f"{arguments.soak:g}"]
        gpus = 0 if arguments.device == "cpu" else first["gpus"] // first["nodes"]
        under = on_nodes(first["nodes"], first["rate"], gpus) if first["nodes"] > 1 else []
        planned.append(under + run)
    return planned


def on_nodes(nodes, rate, per_node):
    return [str(HERE / "nodes.sh"), str(nodes), rate_for_nodes(rate), str(per_node)]


def network_profile(rate):
    return f"profile-{rate_for_nodes(rate)}.json.gz"


def write_scenarios(rows, folder, given, device):
    for row in rows:
        profiles = given or ["profile.json.gz"] + ([network_profile(row["rate"])] if row["rate"] else [])
        (folder / f"{name_of(row)}.yaml").write_text(scenario_text(row, profiles, device))


def compress_records(folder):
    """Records as they are, byte for byte, under gzip."""
    for path in sorted(folder.glob("*.json")):
        if '"foretrain/run/1"' in path.read_text(errors="replace")[:256]:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            path.unlink()


def run_slice(calibration, rows, folder, arguments):
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"profile.json.gz"} | {network_profile(row["rate"]) for row in rows if row["rate"]}
    for name, path in calibrated_in(arguments.calibrated)[0].items():
        if name in wanted and not arguments.dry_run:
            shutil.copyfile(path, folder / name)
    environment = {**os.environ, "NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0"), "NODES_LOG": str(folder / "nodes")}
    worst, began = 0, time.monotonic()
    planned = [] if arguments.profile else calibrating(calibration, rows, folder, arguments)
    for command in planned + [None] + runs(rows, folder, arguments):
        if command is None:  # everything is calibrated that the predictions rest on
            write_scenarios(rows, folder, arguments.profile, arguments.device)
            continue
        print(f"[{time.monotonic() - began:5.0f} s] {shlex.join(command)}", flush=True)
        if arguments.dry_run:
            continue
        status = subprocess.run(command, env=environment).returncode
        if status != 0:
            # The rows that remain are worth having; what failed shows in --missing.
            print(f"campaign.py: exit status {status}", file=sys.stderr, flush=True)
            worst = max(worst, abs(status))
    if not arguments.dry_run:
        compress_records(folder)
    print(f"[{time.monotonic() - began:5.0f} s] done", flush=True)
    return worst


def list_slices(calibration, rows):
    total = 0.0
    print(f"{'slice':<20}{'rows':>6}{'runs':>6}{'calibrate':>11}{'run':>7}{'all':>7}")
    for name in slices_of(rows):
        own = [row for row in rows if row["slice"] == name]
        calibrating, running = estimate(calibration, own)
        total += calibrating + running
        long = "  longer than nine minutes" if calibrating + running > LONGEST_SLICE else ""
        print(f"{name:<20}{len(own):>6}{sum(row['repeats'] for row in own):>6}{calibrating:>9.0f} s{running:>5.0f} s"
              f"{calibrating + running:>5.0f} s{long}")
    print(f"{len(rows)} rows, {sum(row['repeats'] for row in rows)} runs, {total / 60:.0f} minutes of a machine of "
          f"{max(row['gpus'] for row in rows)} GPUs")


def missing(rows, folder):
    lacking = 0
    for row in rows:
        stem = pathlib.Path(folder) / row["slice"] / name_of(row)
        for repeat in range(row["repeats"]):
            base = f"{stem}.{repeat + 1}" if row["repeats"] > 1 else str(stem)
            if not any(os.path.exists(base + ending) for ending in (".json", ".json.gz")):
                print(f"{row['slice']}/{os.path.basename(base)}")
                lacking += 1
    print(f"{lacking} of {sum(row['repeats'] for row in rows)} runs are missing")
    return 1 if lacking else 0


def main():
    parser = argparse.ArgumentParser(description="Runs a validation campaign from a committed list of rows.")
    parser.add_argument("rows", help="the list of rows")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="slices with their estimated device time")
    what.add_argument("--slice", help="calibrate for this slice and run its rows")
    what.add_argument("--missing", metavar="FOLDER", help="rows that have no record below FOLDER/SLICE")
    parser.add_argument("--out", default="validation/live-gpu", help="records go to OUT/SLICE (default: %(default)s)")
    parser.add_argument("--profile", action="append", default=[], help="predict from it in place of calibrating")
    parser.add_argument("--calibrated", metavar="FOLDER", help="take over the profiles of an earlier slice of this machine")
    parser.add_argument("--most-gpus", type=int, default=0, metavar="N", help="GPUs that calibration may see (default: all)")
    parser.add_argument("--least-rows-gpus", type=int, default=0, metavar="N", help="leave out rows of fewer GPUs (default: none)")
    parser.add_argument("--most-rows-gpus", type=int, default=0, metavar="N", help="leave out rows of more GPUs (default: none)")
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="counted steps of each run (default: the list's)")
    parser.add_argument("--warmup", type=int, default=0, metavar="N", help="steps before those (default: the list's)")
    parser.add_argument("--soak", type=float, default=0, help="seconds of steps before the warm-up of each run")
    parser.add_argument("--program", default=str(HERE.parent / "build" / "foretrain"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dry-run", action="store_true", help="write the scenarios and show the commands only")
    arguments = parser.parse_args()
    try:
        calibration, rows = read_rows(arguments.rows)
        if arguments.list:
            return list_slices(calibration, rows)
        if arguments.missing:
            return missing(rows, arguments.missing)
        own = [row for row in rows if row["slice"] == arguments.slice]
        if not own:
            raise Mistake(f"there is no slice '{arguments.slice}'; there are {', '.join(slices_of(rows))}")
        least, most = arguments.least_rows_gpus, arguments.most_rows_gpus or max(row["gpus"] for row in own)
        own = [row for row in own if least <= row["gpus"] <= most]
        if not own:
            asked = f"{least} or more" if least > most else f"{least or 1} to {most}"
            raise Mistake(f"slice '{arguments.slice}' has no row of {asked} GPUs")
        return run_slice(calibration, own, pathlib.Path(arguments.out) / arguments.slice, arguments)
    except (Mistake, OSError) as error:
        print(f"campaign.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
