"""As much of PyTorch as tools/foretrain_record.py touches, with a device whose steps take known times."""
from types import SimpleNamespace

__version__ = "2.0.fake"
float32 = "torch.float32"

STEP_MS = [2.0] * 10 + [1.0, 3.0] * 200  # ten of warm-up, then these in turn
_clock = [0.0, 0]


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = _clock[0]
        _clock[0] += STEP_MS[_clock[1]]
        _clock[1] += 1

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return later.at - self.at


class Parameter:
    def __init__(self, *shape, dtype=float32):
        self.shape, self.dtype = shape, dtype


class Tensor:
    def __init__(self, value):
        self.value = value

    def detach(self):
        return self

    def __float__(self):
        return self.value


def is_autocast_enabled():
    return False


cuda = SimpleNamespace(
    is_available=lambda: True, Event=Event, get_device_name=lambda: "Fake GPU", max_memory_reserved=lambda: 5 << 30,
    current_device=lambda: 0, device_count=lambda: 2, nccl=SimpleNamespace(version=lambda: (2, 28, 3)),
    get_device_properties=lambda device: SimpleNamespace(name="Fake GPU", major=9, minor=0, multi_processor_count=132,
                                                         total_memory=80 << 30))
version = SimpleNamespace(cuda="12.9")
backends = SimpleNamespace(
    cudnn=SimpleNamespace(allow_tf32=True, is_available=lambda: True, version=lambda: 91400),
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)))


class World:
    """torch.distributed of rank 0 of two: the other rank is as slow again."""

    initialized = False

    def is_available(self):
        return True

    def is_initialized(self):
        return self.initialized

    def get_world_size(self):
        return 2

    def get_rank(self):
        return 0

    def get_backend(self):
        return "nccl"

    def all_gather_object(self, everyone, own):
        everyone[0] = own
        if isinstance(own, dict):
            other = {**own, "rank": 1, "host": "other", "step_s": [2 * step for step in own["step_s"]]}
            everyone[1] = other
        else:
            everyone[1] = 2 * own


distributed = World()
