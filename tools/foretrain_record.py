"""Records the steps of a PyTorch job as a Foretrain run record ("foretrain/run/1"), for `foretrain validate`.

Needs PyTorch only. Three lines in a training loop:

    from foretrain_record import Recorder
    recorder = Recorder(model, batch_per_worker=64, out="run.json.gz")   # the model as it is trained, in DDP or not
    for batch in loader:
        ...
        optimizer.step()
        recorder.step()            # or recorder.step(loss)

The record is written once `warmup` + `steps` steps are done (or as many as fit into 20 s, at least 12), by rank 0, with the
times of all ranks; the job goes on as if nothing had been. A job that ends earlier writes what rank 0 has, marked as not
complete. Between steps nothing is synchronized: two CUDA events a step, read at the end.

With Lightning: Trainer(callbacks=[lightning_callback(batch_per_worker=64, out="run.json.gz")]).
With the Hugging Face Trainer: Trainer(callbacks=[trainer_callback(out="run.json.gz")]).

What cannot be seen from inside is said by arguments: name (of the model), precision where autocast is used ("bf16"),
network and line_rate (bytes per second and direction of a node's network), scenario (a Foretrain scenario of the same job,
which `validate` then predicts), group, repeat.
"""

import atexit
import datetime
import gzip
import hashlib
import json
import os
import platform
import re
import socket
import statistics
import sys
import time

SCHEMA = "foretrain/run/1"
LONGEST_SECONDS, FEWEST_STEPS, MOST_STEPS = 20.0, 12, 100
ELEMENTS = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float64": "fp64"}
RATE = re.compile(r"([0-9.]+)\s*(Gbit|Mbit|GB|MB)/s")
RATE_UNITS = {"Gbit": 1e9 / 8, "Mbit": 1e6 / 8, "GB": 1e9, "MB": 1e6}


class Recorder:
    def __init__(self, model, *, batch_per_worker, out, name=None, precision=None, network=None, line_rate=None,
                 scenario=None, group="", repeat=0, warmup=10, steps=None, sequence=0):
        import torch
        self.torch = torch
        self.model, self.out = model, out
        self.name = name or type(unwrapped(model)).__name__.lower()
        self.batch_per_worker, self.sequence = int(batch_per_worker), int(sequence)
        self.precision = precision or guess_precision(torch, model)
        self.network, self.line_rate = network, line_rate
        self.scenario, self.group, self.repeat = scenario, group, int(repeat)
        self.warmup, self.steps = int(warmup), steps
        if self.warmup < 1 or (steps is not None and steps < 1):
            raise ValueError("warmup and steps are at least 1")
        self.distributed = getattr(torch, "distributed", None)
        self.cuda = torch.cuda.is_available()
        self.marks, self.host_marks, self.losses = [], [], [None, None]
        self.done = False
        atexit.register(self.close)

    def step(self, loss=None):
        """Marks the end of a step (one optimizer update). `loss` may be a tensor: it is read at the end only."""
        if self.done:
            return
        if self.cuda:
            mark = self.torch.cuda.Event(enable_timing=True)
            mark.record()
            self.marks.append(mark)
        self.host_marks.append(time.perf_counter())
        if loss is not None:
            loss = loss.detach() if hasattr(loss, "detach") else loss
            self.losses = [loss if self.losses[0] is None else self.losses[0], loss]
        # The mark after warm-up begins the steps that count.
        if len(self.host_marks) == self.warmup + 1 and self.steps is None:
            self.steps = self.agreed_steps()
        if self.steps is not None and len(self.host_marks) == self.warmup + 1 + self.steps:
            self.write(complete=True)

    def close(self):
        """Writes what there is, if the record is not written yet. Called when the interpreter ends."""
        if not self.done and len(self.host_marks) > self.warmup + 1:
            self.write(complete=False)
        self.done = True

    # What follows is no part of the interface.

    def agreed_steps(self):
        own = statistics.median(differences(self.host_marks))
        slowest = max(self.gather(own))
        return int(min(MOST_STEPS, max(FEWEST_STEPS, LONGEST_SECONDS / max(slowest, 1e-9))))

    def is_distributed(self):
        return self.distributed is not None and self.distributed.is_available() and self.distributed.is_initialized()

    def gather(self, own):
        if not self.is_distributed():
            return [own]
        everyone = [None] * self.distributed.get_world_size()
        self.distributed.all_gather_object(everyone, own)
        return everyone

    def rank(self):
        return self.distributed.get_rank() if self.is_distributed() else 0

    def write(self, complete):
        self.done = True
        own = self.rank_record()
        # At the end of a job others may be gone: only a whole record is gathered.
        ranks = self.gather(own) if complete else [own]
        if self.rank() != 0:
            return
        write_record(self.out, self.record(ranks, complete))

    def rank_record(self):
        if self.cuda:
            self.marks[-1].synchronize()
            device = [a.elapsed_time(b) * 1e-3 for a, b in zip(self.marks, self.marks[1:])]
        else:
            device = []
        host = differences(self.host_marks)
        timed = device or host
        record = {
            "rank": self.rank(),
            "host": os.environ.get("NCCL_HOSTID") or socket.gethostname(),
            "step_s": device[self.warmup:],
            "step_host_s": host[self.warmup:],
            "warmup_s": timed[:self.warmup],
        }
        if self.cuda:
            record["gpu"] = self.torch.cuda.get_device_name()
            record["peak_bytes"] = float(self.torch.cuda.max_memory_reserved())
        for key, loss in zip(("first_loss", "last_loss"), self.losses):
            value = None if loss is None else float(loss)
            if value is not None and value - value == 0:  # finite
                record[key] = value
        return record

    def record(self, ranks, complete):
        number_nodes(ranks)
        workers = self.distributed.get_world_size() if self.is_distributed() else 1
        local = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
        nodes = 1 + max(rank["node"] for rank in ranks)
        if not complete and local > 0:
            nodes = max(1, workers // local)
        network, line_rate = self.named_network(workers, nodes)
        record = {
            "schema": SCHEMA,
            "complete": complete,
            "source": "pytorch",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": " ".join([os.path.basename(sys.executable or "python3")] + sys.argv),
            "scenario_name": os.path.splitext(os.path.basename(self.out))[0].removesuffix(".json"),
            "group": self.group,
            "repeat": self.repeat,
            "model": self.name,
            "precision": self.precision,
            "strategy": strategy_of(self.model, workers),
            "batch_per_worker": self.batch_per_worker,
            "workers": workers,
            "nodes": nodes,
            "network": network,
            "line_rate_Bps": line_rate,
            "warmup_steps": self.warmup,
            "versions": versions(self.torch),
            "parameters": [{"name": name, "shape": list(p.shape), "element": ELEMENTS.get(str(p.dtype), str(p.dtype))}
                           for name, p in unwrapped(self.model).named_parameters()],
            "machine": machine(self.torch, self.cuda),
            "ranks": ranks,
        }
        if self.sequence:
            record["sequence"] = self.sequence
        if self.scenario:
            with open(self.scenario, encoding="utf-8") as file:
                record["scenario_yaml"] = file.read()
            record["scenario_file"] = os.path.abspath(self.scenario)
        return record

    def named_network(self, workers, nodes):
        if workers < 2:
            return "", 0.0
        if nodes < 2:
            return self.network or "local", 0.0
        rate = self.line_rate
        if rate is None and self.network:
            found = RATE.search(self.network)
            rate = float(found[1]) * RATE_UNITS[found[2]] if found else None
        if rate is None:
            rate = interface_rate(os.environ.get("NCCL_SOCKET_IFNAME", ""))
        network = self.network or (f"ethernet {rate * 8 / 1e9:g} Gbit/s tcp" if rate else "unknown")
        return network, float(rate or 0)


def lightning_callback(**arguments):
    """A callback for Lightning's Trainer; the arguments are the Recorder's, without the model."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class ForetrainRecord(Callback):
        recorder, updates = None, -1

        def on_train_start(self, trainer, module):
            self.recorder = Recorder(getattr(trainer.strategy, "model", None) or module,
                                     **{"name": type(module).__name__.lower(), **arguments})
            self.updates = trainer.global_step

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step != self.updates:  # not every micro-batch is an update
                self.updates = trainer.global_step
                self.recorder.step(outputs["loss"] if isinstance(outputs, dict) and "loss" in outputs else None)

        def on_train_end(self, trainer, module):
            self.recorder.close()

    return ForetrainRecord()


def trainer_callback(**arguments):
    """A callback for the Hugging Face Trainer; the arguments are the Recorder's, without the model."""
    from transformers import TrainerCallback

    class ForetrainRecord(TrainerCallback):
        recorder = None

        def on_train_begin(self, args, state, control, model=None, **unused):
            given = {"batch_per_worker": args.per_device_train_batch_size * args.gradient_accumulation_steps, **arguments}
            if "precision" not in given and (args.bf16 or args.fp16):
                given["precision"] = "bf16" if args.bf16 else "fp16"
            self.recorder = Recorder(model, **given)

        def on_step_end(self, args, state, control, **unused):
            self.recorder.step()

        def on_train_end(self, args, state, control, **unused):
            self.recorder.close()

    return ForetrainRecord()


def unwrapped(model):
    while hasattr(model, "module") and hasattr(model.module, "named_parameters"):
        model = model.module
    return getattr(model, "_orig_mod", model)  # torch.compile


def differences(values):
    return [b - a for a, b in zip(values, values[1:])]


def guess_precision(torch, model):
    first = next(iter(unwrapped(model).parameters()), None)
    element = ELEMENTS.get(str(first.dtype)) if first is not None else None
    if element in ("bf16", "fp16"):
        return element
    if torch.is_autocast_enabled():
        return ELEMENTS.get(str(torch.get_autocast_gpu_dtype()), "fp32")
    cudnn, matmul = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    return "tf32" if cudnn and matmul else "fp32"


def strategy_of(model, workers):
    kinds = []
    while model is not None:
        kinds.append(type(model).__name__)
        model = getattr(model, "module", None)
    if "DistributedDataParallel" in kinds:
        return "ddp"
    if any("FullySharded" in kind or kind.startswith("FSDP") for kind in kinds):
        return "fsdp"
    return "independent" if workers == 1 else ""


def number_nodes(ranks):
    """Nodes are numbered in the order in which their hosts first appear among the ranks."""
    ranks.sort(key=lambda rank: rank["rank"])
    hosts = []
    for rank in ranks:
        if rank["host"] not in hosts:
            hosts.append(rank["host"])
        rank["node"] = hosts.index(rank["host"])


def interface_rate(name):
    """Bytes per second that the interface reports; None where it says nothing."""
    name = name.lstrip("=^").split(",")[0]
    try:
        with open(f"/sys/class/net/{name}/speed", encoding="ascii") as file:
            megabits = int(file.read())
        return megabits * 1e6 / 8 if megabits > 0 else None
    except (OSError, ValueError):
        return None


def first_line(path, key=None):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if key is None or line.startswith(key):
                    return line.split(":", 1)[-1].strip() if key else line.strip()
    except OSError:
        pass
    return ""


def dotted(version):
    return ".".join(str(part) for part in version) if isinstance(version, tuple) else str(version)


def versions(torch):
    known = {"torch": str(torch.__version__), "python": platform.python_version()}
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        known["collectives"] = str(distributed.get_backend())  # "nccl", "gloo"
    return known


def machine(torch, cuda):
    boot_id = first_line("/proc/sys/kernel/random/boot_id")
    facts = {
        "processor": first_line("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count() or 0,
        "virtual_machine": " hypervisor" in " " + first_line("/proc/cpuinfo", "flags"),
        "kernel": platform.release(),
        "environment": {key: value for key, value in sorted(os.environ.items())
                        if key.startswith(("NCCL_", "CUDA_", "CUDNN_", "TORCH_NCCL_", "PYTORCH_CUDA_", "OMP_"))},
    }
    if boot_id:
        facts["identity"] = hashlib.sha256(boot_id.encode()).hexdigest()[:16]
    if cuda:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        driver = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", first_line("/proc/driver/nvidia/version"))
        facts.update({
            "gpu": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "gpus": torch.cuda.device_count(),
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": float(properties.total_memory),
            "driver": driver[0] if driver else "",
            "cuda_runtime": str(torch.version.cuda),
        })
        if torch.backends.cudnn.is_available():
            number = torch.backends.cudnn.version()
            facts["cudnn"] = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        nccl = getattr(torch.cuda, "nccl", None)
        if nccl is not None:
            facts["nccl"] = dotted(nccl.version())
    return facts


def write_record(path, record):
    """Aside and renamed: a reader sees the whole file or none."""
    text = json.dumps(record, allow_nan=False).encode()
    if path.endswith(".gz"):
        text = gzip.compress(text, mtime=0)
    aside = f"{path}.{os.getpid()}.part"
    with open(aside, "wb") as file:
        file.write(text)
    os.replace(aside, path)
