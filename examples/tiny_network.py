"""A network that trains in seconds on a CPU, and its task: for examples that compare recipes."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

FEATURES, HIDDEN, CLASSES = 64, 256, 8
HELD_OUT, BATCH = 8192, 256


class Task:
    """Classes of random points, as a random network of another shape has them; always the same.

    x (rows, FEATURES) float32, some features larger than others; labels (rows,) int64. Training
    sees every point once.
    """

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.scales = torch.exp(torch.randn(FEATURES, generator=generator) / 2)
        self.first = torch.randn(FEATURES, 32, generator=generator) / 8
        self.second = torch.randn(32, CLASSES, generator=generator)
        self.held_out = self.points(HELD_OUT, generator)

    def points(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """x and labels."""
        x = torch.randn(rows, FEATURES, generator=generator) * self.scales
        return x, (torch.tanh(x @ self.first) @ self.second).argmax(dim=1)

    def batches(self, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """So many batches; another seed has others."""
        generator = torch.Generator().manual_seed(2 + seed)
        for _ in range(steps):
            yield self.points(BATCH, generator)


def network(seed: int = 0) -> nn.Sequential:
    """Three linear layers."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN),
        nn.GELU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.GELU(),
        nn.Linear(HIDDEN, CLASSES),
    )


def train(
    net: nn.Module,
    task: Task,
    steps: int,
    rate: float = 2e-3,
    seed: int = 0,
    after_step: Callable[[nn.Module], object] = lambda _: None,
) -> None:
    """AdamW with a rate that falls to zero."""
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    for x, labels in task.batches(steps, seed):
        loss = cross_entropy(net(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        after_step(net)


def held_out(net: nn.Module, task: Task) -> tuple[float, float]:
    """Loss in nats and the part of right answers, of rows that training has not seen."""
    net.eval()
    x, labels = task.held_out
    with torch.no_grad():
        y = net(x)
    return cross_entropy(y, labels).item(), (y.argmax(dim=1) == labels).float().mean().item()
