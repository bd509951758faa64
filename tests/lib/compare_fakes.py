"""Stand-ins for synthesis and evaluation, importable by worker processes."""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxdot.compare.studies.tasks import Instruments
from mxdot.model import DotConfig
from mxdot.synth.clock import fastest_ps, registers
from mxdot.synth.errors import TargetMissedError


@dataclass(frozen=True)
class Record:
    """Anything with a `to_dict`."""

    values: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.values[name]


def generate(config: Any, top: str) -> str:
    return f"// {top} {config}"


def measure(verilog: str, top: str, flow: Any, *, cache_dir: Path, **reading: Any) -> Record:
    """An area that grows with F; refuses units of 4 lanes."""
    if " x4 " in verilog:
        raise RuntimeError("synthesis failed\nand says more")
    digits = re.search(r"(?:aligned|fused|hopper):?(\d*)", verilog)
    bits = int(digits[1] or 13) if digits else 16 if "int8" in verilog else 40
    base = {"e4m3": 8000, "e5m2": 7000}.get(verilog.split()[2] if " " in verilog else "", 6000)
    sections = {
        "multiply": base * 0.4,
        "align": 150.0 * bits,
        "sum": 90.0 * bits,
        "accumulate": 900.0,
    }
    return Record(
        {
            "area": sum(sections.values()) + 400,
            "unit": "NAND2",
            "nand2": sum(sections.values()) + 400,
            "flipflops": 300 + 4 * bits,
            "depth": 30 + bits,
            "delay_ps": None,
            "fmax_mhz": None,
            "stages": sections | {"": 400.0},
            "extra": {},
            "tool": "fake 1.0",
            "seconds": 0.0,
        }
    )


def measure_at_clock(
    verilog: str, top: str, flow: Any, *, cache_dir: Path, **reading: Any
) -> Record:
    """Areas of the predictions; delays that follow the aim."""
    formats, rule, lanes, _, stages, *rest = verilog.split()[2:]
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    more = {
        "interleave": int(options.get("interleave", 1)),
        "delays": options.get("delays", "asap7"),
    }
    unit = DotConfig(formats, int(lanes[1:]), rule, int(stages), **more)
    least = fastest_ps(unit)
    delay = min(1.5 * least, least + 0.8 * max(0, flow.aim_ps - 0.55 * least))
    area = 1500.0 + 0.3 * registers(unit) - 0.1 * delay
    return Record(
        {"area": area, "unit": "um2", "nand2": area / 0.09, "flipflops": registers(unit),
         "depth": 10, "delay_ps": delay, "fmax_mhz": 1e6 / delay, "stages": {}, "extra": {},
         "tool": "fake 1.0", "seconds": 0.0}
    )  # fmt: skip


def evaluate(
    rule: Any, pair: Any, data: str, lengths: Sequence[int], *, lanes: int, seed: int, count: int
) -> list[Record]:
    """6 dB for each bit of F, less for long dot products; 24 bits are exact."""
    text = str(rule)
    digits = re.search(r"\d+", text)
    bits = int(digits[0]) if digits else 24
    own = None if text in ("exact", "int32") else 6.0 * bits + 10
    return [
        Record(
            {
                "data": data,
                "length": length,
                "sqnr_accumulator_db": None if own is None else own - length / 1024,
                "sqnr_total_db": 26.9 - 60 * 2.0**-bits,
                "sqnr_format_db": 26.9,
                "max_relative": 2.0**-bits,
                "mean_relative": 2.0 ** -(bits + 3),
                "ulp_max": 3.0,
                "ulp_mean": 0.5,
                "bias": -(2.0 ** -(bits + 2)),
                "exact_fraction": 0.25,
                "overflow": 0,
                "saturated": 0,
                "observed": 2.0 ** -(bits + 2),
                "bound": 2.0**-bits,
                "bound_ratio": 0.25,
                "bound_ok": data != "cancellation",
            }
        )
        for length in lengths
    ]


def too_slow(verilog: str, top: str, flow: Any, **options: Any) -> Any:
    raise TargetMissedError("target_ps", flow.target_ps, top, 1834.4)


def broken(*arguments: Any, **options: Any) -> Any:
    raise ArithmeticError("no number")


def full_disk(*arguments: Any, **options: Any) -> Any:
    raise OSError("no space left")


def energy(config: Any, flow: Any, *, cache_dir: Path, verilog: str, **options: Any) -> Record:
    return Record({"per_product": len(verilog) / 2, "unit": "NAND2"})


def encode(rule: Any, pair: Any, *, lanes: int, sentences: Sequence[str]) -> Record:
    """A similarity that grows with F."""
    digits = re.search(r"\d+", str(rule))
    own = 0.99 - 2.0 ** -(int(digits[0]) if digits else 24)
    return Record(
        {
            "sentences": len(sentences),
            "cosine_mean": own,
            "cosine_min": own - 0.01,
            "format_mean": 0.99,
            "lanes": lanes,
        }
    )


def nothing_missing() -> None:
    """Every package of the encoder is there."""


def missing() -> None:
    raise ImportError("the encoder needs the packages of mxdot[real] (torch is missing)")


@dataclass(frozen=True)
class Fakes(Instruments):
    """The functions above as instruments; `dataclasses.replace` takes others."""

    generate: Callable[..., Any] = generate
    measure: Callable[..., Any] = measure
    evaluate: Callable[..., Any] = evaluate
    energy: Callable[..., Any] = energy
    encode: Callable[..., Any] = encode
    check_encoder: Callable[..., None] = nothing_missing


FAKES = Fakes()


@dataclass(frozen=True)
class Job:
    """A task of the runner that writes a line to `log` whenever it is run."""

    name: str
    log: Path
    seconds: float = 0.0
    fault: str = ""
    weight: float = 1.0

    @property
    def key(self) -> str:
        return f"job-{self.name}"

    @property
    def label(self) -> str:
        return self.name

    def run(self) -> dict[str, Any]:
        with self.log.open("a") as file:
            file.write(f"{self.name} {os.getpid()}\n")
        time.sleep(self.seconds)
        if self.fault == "raise":
            raise ValueError("this point\x1b[2J\nfails")
        if self.fault == "die":
            os._exit(9)
        return {"name": self.name}
