#!/usr/bin/python3
"""Steps of our cpu backend against PyTorch's on the same cores: wrn-16-4 at 32 and 128, resnet50 at 16, in fp32.

    bench/cpu_against_torch.py build/bench/cpu_step [--threads 1] [--repeats 5] [--seconds 4] [--case wrn-16-4:32 ...]

Both take turns, each in a process of its own, bound to the same cores. PyTorch runs with its own layout of images and with
channels last; its better one counts. Of each the shortest step of all repeats is compared, and the processor time a step, which
other work on the machine changes little. Needs Debian's python3-torch, whose oneDNN is the one that we use.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CASES = ["wrn-16-4:32", "wrn-16-4:128", "resnet50:16"]


def torch_step(name, batch, threads, seconds, channels_last):
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(1)

    def conv(inputs, out, kernel, stride=1, padding=0):
        return nn.Conv2d(inputs, out, kernel, stride, padding, bias=False)

    class WideBlock(nn.Module):
        def __init__(self, inputs, out, stride, project):
            super().__init__()
            self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(out)
            self.conv1, self.conv2 = conv(inputs, out, 3, stride, 1), conv(out, out, 3, 1, 1)
            self.shortcut = conv(inputs, out, 1, stride) if project else None

        def forward(self, x):
            active = torch.relu_(self.norm1(x))
            y = self.conv2(torch.relu_(self.norm2(self.conv1(active))))
            return y + (self.shortcut(active) if self.shortcut else x)

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride, project):
            super().__init__()
            self.body = nn.Sequential(
                conv(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(True),
                conv(width, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU(True),
                conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width))
            self.shortcut = nn.Sequential(conv(inputs, 4 * width, 1, stride), nn.BatchNorm2d(4 * width)) if project else None

        def forward(self, x):
            return torch.relu_(self.body(x) + (self.shortcut(x) if self.shortcut else x))

    layers = []
    if name == "wrn-16-4":
        side, classes, rate, decay = 32, 10, 0.1, 5e-4
        layers.append(conv(3, 16, 3, 1, 1))
        inputs = 16
        for width, stride in ((64, 1), (128, 2), (256, 2)):
            for block in range(2):
                layers.append(WideBlock(inputs, width, stride if block == 0 else 1, block == 0))
                inputs = width
        layers += [nn.BatchNorm2d(inputs), nn.ReLU(True)]
    elif name == "resnet50":
        side, classes, rate, decay = 224, 1000, 0.1, 1e-4
        layers += [conv(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for width, stride, count in ((64, 1, 3), (128, 2, 4), (256, 2, 6), (512, 2, 3)):
            for block in range(count):
                layers.append(Bottleneck(inputs, width, stride if block == 0 else 1, block == 0))
                inputs = 4 * width
    else:
        raise SystemExit(f"no model {name}")
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    images, labels = torch.randn(batch, 3, side, side), torch.randint(classes, (batch,))
    if channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=decay)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(images), labels).backward()
        optimizer.step()

    for _ in range(2):
        step()
    times, start, work = [], time.perf_counter(), time.process_time()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return {"step_s": min(times), "median_s": statistics.median(times),
            "processor_s": (time.process_time() - work) / len(times), "steps": len(times),
            "parameters": sum(p.numel() for p in model.parameters())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--case", nargs="+", default=CASES, metavar="MODEL:BATCH")
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch:
        name, batch, layout = arguments.torch.split(":")
        print(json.dumps(torch_step(name, int(batch), arguments.threads, arguments.seconds, layout == "last")))
        return
    if not arguments.program:
        parser.error("the program bench/cpu_step is wanted")
    cores = sorted(os.sched_getaffinity(0))[: arguments.threads]
    if len(cores) < arguments.threads:
        raise SystemExit(f"{arguments.threads} threads want as many cores")
    os.sched_setaffinity(0, cores)
    print(f"{'case':16}{'threads':>8}{'ours':>12}{'PyTorch':>12}{'ratio':>8}{'processor, ours':>17}{'PyTorch':>12}{'ratio':>8}")
    for case in arguments.case:
        name, batch = case.split(":")
        commands = {"ours": [arguments.program, name, batch, str(arguments.threads), str(arguments.seconds)]}
        for layout in ("own", "last"):
            commands[layout] = [sys.executable, __file__, "--torch", f"{case}:{layout}", "--threads", str(arguments.threads),
                                "--seconds", str(arguments.seconds)]
        found = {who: [] for who in commands}
        for _ in range(arguments.repeats):
            for who, command in commands.items():
                found[who].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        best = {who: {key: min(row[key] for row in rows) for key in ("step_s", "processor_s")} for who, rows in found.items()}
        theirs = {key: min(best["own"][key], best["last"][key]) for key in best["ours"]}
        ours = best["ours"]
        print(f"{case:16}{arguments.threads:8}{1e3 * ours['step_s']:9.1f} ms{1e3 * theirs['step_s']:9.1f} ms"
              f"{ours['step_s'] / theirs['step_s']:8.2f}{1e3 * ours['processor_s']:14.1f} ms"
              f"{1e3 * theirs['processor_s']:9.1f} ms{ours['processor_s'] / theirs['processor_s']:8.2f}", flush=True)


if __name__ == "__main__":
    main()
