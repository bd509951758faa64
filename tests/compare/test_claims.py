"""examples/claims.py: what it prints where that can be checked by hand, and what it refuses."""

from pathlib import Path

import claims
import claims_int8
import numpy as np
import pytest

from mxdot.model.schemes import quantize


def test_storage(capsys):
    assert claims.main(["storage"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "storage: What schemes save of memory, and of what a product moves."
    found = {line.split(":")[0].strip(): line for line in lines[1:6]}
    assert "4.5 bits, 7.11 times smaller than float32" in found["nvfp4"]
    assert "1.98 times fewer bytes than bfloat16's" in lines[-1]


def test_full_range_is_tilted_and_ours_is_not(capsys):
    claims.main(["int8"])
    lines = [line.split(":", 1) for line in capsys.readouterr().out.splitlines()[1:]]
    for what, came in lines:
        tilted = "-128" in what
        assert ("shifted by -" in came) == tilted
        assert ("mxint8" in what) == (came == " -127..127")


def test_int8_to_minus_128_moves_the_gradients_of_training_down():
    """INT8 by hand equals the contract's INT8, which ends at -127."""
    x = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    assert (claims_int8.quantize(x.astype(float), -127) == quantize(x, "mxint8").dequantize()).all()
    runs = {lowest: claims_int8.train(lowest, 0) for lowest in (-128, -127, None)}
    assert runs[-128].shift < 0 == runs[-127].shift == runs[None].shift
    assert all(0.03 < run.loss < 0.1 for run in runs.values())


def test_every_claim_is_told_of_in_the_docs():
    told = (Path(claims.__file__ or "").parents[1] / "docs" / "claims.md").read_text()
    for name in claims.CLAIMS:
        assert f"python examples/claims.py {name}`" in told, name


def test_unknown(capsys):
    with pytest.raises(SystemExit) as caught:
        claims.main(["nonsense"])
    assert caught.value.code == 2
    assert "claims must be of storage, products, " in capsys.readouterr().err
