#!/usr/bin/env python3
"""Predictions of validation/kineto beside what was measured: prints table.csv.

tools/kineto_table.py build/foretrain > validation/kineto/table.csv
"""
import csv, json, pathlib, subprocess, sys, tempfile

here = pathlib.Path(__file__).resolve().parent.parent / "validation" / "kineto"
nvlink = "{{ topology: nvlink-node, gpus_per_node: {gpus} }}"
ethernet = ("{{ topology: ethernet-nodes, nodes: {nodes}, gpus_per_node: {gpus}, "
            "network: {{ bandwidth: 10 Gbit/s, latency: 15 us, transport: tcp }} }}")

writer = csv.writer(sys.stdout, lineterminator="\n")
writer.writerow("model,workers,nodes,step_given,measured_ms,measured_min_ms,measured_max_ms,predicted_ms,low_ms,high_ms,"
                "error,hit,traced_gpus".split(","))
for row in csv.DictReader((here / "measured.csv").open()):
    nodes, gpus = int(row["nodes"]), int(row["workers"]) // int(row["nodes"])
    cluster = (nvlink if nodes == 1 else ethernet).format(nodes=nodes, gpus=gpus)
    traced = [(1, True), (1, False)]
    if row["model"] == "gpt2-small":  # of which there is a trace of one of four ranks, too
        traced += [(4, True), (4, False)]
    for gpus_traced, given in traced:
        workload = here / (row["model"] + ("" if gpus_traced == 1 else "-of-four") + ("" if given else "-without-step") + ".json.gz")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as scenario:
            scenario.write(f"workload: {workload}\nprofile: h200\ncluster: {cluster}\n")
            scenario.flush()
            run = subprocess.run([sys.argv[1], "simulate", scenario.name, "--json", "-"], check=True, capture_output=True, text=True)
        step = json.loads(run.stdout)["step"]
        measured = float(row["median_ms"])
        predicted, low, high = (1e3 * step[key] for key in ("time_s", "low_s", "high_s"))
        writer.writerow([row["model"], row["workers"], nodes, "yes" if given else "no", row["median_ms"], row["min_ms"], row["max_ms"],
                         f"{predicted:.2f}", f"{low:.2f}", f"{high:.2f}", f"{predicted / measured - 1:+.4f}",
                         "yes" if low <= measured <= high else "no", gpus_traced])
