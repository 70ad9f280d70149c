"""A small PyTorch job, one process or several over gloo, recorded by tools/foretrain_record.py.

usage: torch_job.py TOOLS OUT [--accumulate N]      RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them
"""

import os
import sys

import torch
from torch import nn

sys.path.insert(0, sys.argv[1])
from foretrain_record import Recorder  # noqa: E402

torch.manual_seed(1)
torch.set_num_threads(1)
workers = int(os.environ.get("WORLD_SIZE", "1"))
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                      nn.Flatten(), nn.Linear(8, 10))
trained = model
if workers > 1:
    torch.distributed.init_process_group("gloo")
    trained = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(trained.parameters(), lr=0.05, momentum=0.9)
recorder = Recorder(trained, batch_per_worker=16, out=sys.argv[2], name="small-cnn", warmup=3, steps=20)
generator = torch.Generator().manual_seed(int(os.environ.get("RANK", "0")))
for step in range(40):
    images, labels = torch.randn(16, 3, 16, 16, generator=generator), torch.randint(10, (16,), generator=generator)
    loss = nn.functional.cross_entropy(trained(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recorder.step(loss)
if workers > 1:
    torch.distributed.destroy_process_group()
