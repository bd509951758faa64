"""Bytes of tensors and of Python's and NumPy's memory that are alive at once."""

import tracemalloc

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Alive(TorchDispatchMode):
    """most: bytes of all tensors made inside, and what tracemalloc traces; most_floats: of tensors
    of floats."""

    def __init__(self):
        super().__init__()
        self.most = self.most_floats = 0
        self.alive = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for x in made if isinstance(made, tuple | list) else [made]:
            if type(x) is torch.Tensor and not x.is_meta:
                storage = x.untyped_storage()
                size = storage.nbytes(), x.is_floating_point() and x.dtype.itemsize > 1
                self.alive.setdefault(storage._cdata, (storage._weak_ref(), *size))
        self.count()
        return made

    def count(self):
        """Take the most of what is traced since the last count, with the tensors that are alive."""
        for key, (reference, *_) in list(self.alive.items()):
            if torch.UntypedStorage._expired(reference):
                torch.UntypedStorage._free_weak_ref(reference)
                del self.alive[key]
        sizes = [size for _, *size in self.alive.values()]
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        self.most = max(self.most, traced + sum(size for size, _ in sizes))
        self.most_floats = max(self.most_floats, sum(size for size, floats in sizes if floats))
