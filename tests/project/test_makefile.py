"""Variables of the Makefile reach programs as one word each, whatever is in them."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import evidence
import pytest

from odd_names import ODD

ROOT = Path(__file__).parents[2]
ECHO = f"""#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path
environment = {{k: v for k, v in os.environ.items() if k in ("MXDOT_SEED", "PYTHON", "TORCH")}}
with (Path(__file__).parent / "seen").open("a") as file:
    print(json.dumps([sys.argv[1:], environment]), file=file)
if sys.argv[1:3] == ["tools/evidence.py", "step"]:  # which runs the rest
    sys.exit(subprocess.run(sys.argv[4:]).returncode)
"""


@pytest.fixture
def make(tmp_path):
    """Runs make with stand-ins for all that it starts; what they were given."""
    for program in ("mxdot", "python", "bash"):
        (tmp_path / program).write_text(ECHO)
        (tmp_path / program).chmod(0o755)
    places = {name: tmp_path / f"ready-{name}" for name in ("READY", "COMPARE", "GPU", "REAL")}
    for place in places.values():
        place.touch()
    (tmp_path / "bin").symlink_to(tmp_path)

    def make(target, **values):
        overrides = {"BIN": tmp_path, "REAL_VENV": tmp_path, **places, **values}
        words = [f"{name}={value}" for name, value in overrides.items()]
        command = ["make", "--no-print-directory", "-C", str(ROOT), target, *words]
        path = f"{tmp_path}:/usr/bin:/bin"
        subprocess.run(command, env={"PATH": path}, check=True, capture_output=True, timeout=60)
        assert not (ROOT / "pwned").exists()
        lines = (tmp_path / "seen").read_text().splitlines()
        return [json.loads(line) for line in lines]

    return make


VALUES = [value for value in ODD if "\n" not in value]  # which no recipe's line can hold
VALUES += ["$(shell touch pwned)1"]


@pytest.mark.parametrize("value", VALUES)
def test_options_of_verilog(make, value):
    ((words, _),) = make("verilog", FORMAT=value, ACCUMULATOR=value, LANES=value, OUT=value)
    options = ["--format", "--accumulator", "--lanes", "-o"]
    assert words == ["verilog", *(word for option in options for word in (option, value))]


@pytest.mark.parametrize("value", VALUES)
def test_minutes_of_fuzz(make, value):
    ((words, _),) = make("fuzz", MINUTES=value)
    assert words == ["tools/fuzz.py", value, ".venv-gpu/bin/python"]


@pytest.mark.parametrize("value", VALUES)
def test_options_of_soak(make, value):
    ((words, _),) = make("soak", HOURS=value, JOBS=value, FULL="1")
    assert words == ["sim", "soak", "--hours", value, "--jobs", value, "--full"]


@pytest.mark.parametrize("value", VALUES)
def test_options_of_sim_and_compare(make, value):
    make("sim", SEED=value, JOBS=value, SIM=value)
    (sim, _), (compare, _) = make("compare", JOBS=value, ARGS="find --lanes 8")
    assert sim == ["sim", "--seed", value, "--jobs", value, "--simulator", value]
    assert compare == ["compare", "find", "--lanes", "8", "--jobs", value]


@pytest.mark.parametrize("option", ["--dry-run", "--list"])
def test_arguments_of_sim_that_only_list(make, option):
    """They reach the command, and no layer is run."""
    ((words, _),) = make("sim", FULL="1", ARGS=f"{option} --only unit")
    assert words == ["sim", "--full", option, "--only", "unit"]


@pytest.mark.parametrize("value", ["1", "yes", "$(shell touch pwned)1"])
def test_flags_of_sim(make, value):
    sim, layer = make("sim", FULL=value, WAVES=value, FRESH=value, ARGS="--count 9")
    assert sim[0] == ["sim", "--full", "--waves", "--fresh", "--count", "9"]
    assert layer[0] == ["run-layer"]


@pytest.mark.parametrize("value", VALUES)
def test_the_environment_of_tests(make, value):
    ((_, environment),) = make("test", SEED=value)
    assert environment == {"MXDOT_SEED": value}


@pytest.mark.parametrize("value", VALUES)
def test_the_python_and_pytorch_of_environments(make, tmp_path, value):
    new, given = tmp_path / "new", dict.fromkeys(("PYTHON", "TORCH", "TRITON"), value)
    ((words, environment),) = make(new, GPU=new, GPU_VENV="none", **given)
    assert environment["PYTHON"] == value
    assert words == ["tools/venv_gpu.sh", "none", value, value]


def test_steps_of_verify(make, tmp_path):
    ((words, _),) = make("verify", HOURS="3", MINUTES="7")
    assert words[:2] == ["tools/verify_steps.py", "make"]
    soaks = ("soak", "soak-bitsliced", "soak-random")
    hours = [word for soak in soaks for word in (soak, "HOURS=3")]
    assert words[-9:] == [*hours, "fuzz", "MINUTES=7", "figures"]
    for step in words[2:]:
        if "=" not in step:
            make(f"verify-{step}", HOURS="3", MINUTES="7", GPU_VENV=tmp_path)
    seen = [words for words, _ in make("verify-formal")]
    assert ["sim", "soak", "--hours", "3"] in seen
    assert ["sim", "soak", "--hours", "3", "--simulator", "bitsliced"] in seen
    kept = {words[2]: words[4:] for words in seen if words[:2] == ["tools/evidence.py", "step"]}
    for name, step in evidence.STEPS.items():
        time = {"fuzz": "MINUTES=7", "soak": "HOURS=3"}.get(name.partition("-")[0])
        assert kept[name] == [*shlex.split(step.command)[1:], *filter(None, [time])]


def test_checks_begin_anew_or_tell_their_plan(make):
    for name in ("formal", "mutate", "coverage"):
        words, _ = make(name, JOBS="2", FRESH="1", ARGS="--only x")[-1]
        assert words == ["verify", name, "--jobs", "2", "--fresh", "--only", "x"]
    words, _ = make("faults", JOBS="2", FRESH="1", SEED="3", ARGS="--only x")[-1]
    assert words[:4] == ["tools/faults.py", "--gpu-python", ".venv-gpu/bin/python", "--seed"]
    assert words[4:] == ["3", "--jobs", "2", "--fresh", "--only", "x"]
    words, _ = make("verify", FRESH="1", PLAN="1")[-1]
    assert words[:4] == ["tools/verify_steps.py", "--fresh", "--dry-run", "make"]


@pytest.mark.parametrize("name", ["ARGS", "SEED", "SIM", "NETLIST", "FULL"])
def test_verify_takes_no_part_of_a_step(make, name):
    """It would be all that a step has shown."""
    with pytest.raises(subprocess.CalledProcessError):
        make("verify", **{name: "1"})


@pytest.mark.parametrize("script", [["venv.sh", "v"], ["venv_gpu.sh", "v", "torch", "triton"]])
@pytest.mark.parametrize("name", ["a$b", "$", "{b}", "a{", "a}", "a:b", "a\nb", "a\n", "a\x1b[2Jb"])
def test_a_checkout_that_cannot_be_installed(tmp_path, script, name):
    done = install(tmp_path / name, script)
    assert done.stderr.startswith(
        "mxdot: error: the path of the checkout must hold none of $ { } : "
    )
    assert done.stderr.count("\n") == 1
    assert done.stderr.isprintable() or done.stderr[:-1].isprintable()
    assert done.returncode == 1


@pytest.mark.parametrize(
    "name", ["a b", "a'b", 'a"b', "a\\b", "a;b", "a%b", "a#b", "-x", "a`b", "é*?"]
)
def test_a_checkout_with_another_odd_name(tmp_path, name):
    """The script gets as far as its Python, which is none."""
    done = install(tmp_path / name, ["venv.sh", "v"])
    assert done.stderr.startswith("mxdot: error: no Python 3.11 to 3.13 ")


def install(checkout, script):
    shutil.copytree(ROOT / "tools", checkout / "tools")
    for program in ("g++", "perl"):
        (checkout / program).write_text("#!/bin/sh\n")
        (checkout / program).chmod(0o755)
    command = ["bash", f"tools/{script[0]}", *script[1:]]
    environment = {"PYTHON": "/no/python", "PATH": f"{checkout}:/usr/bin:/bin"}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)


def test_a_python_with_a_space_in_its_path(tmp_path):
    python = tmp_path / "two words" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = "source tools/common.sh; find_python"
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHON": str(python), "PATH": "/usr/bin:/bin"},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == f"{python}\n"


def test_help_has_every_target_with_its_whole_line():
    done = subprocess.run(["make", "-C", ROOT, "help"], check=True, capture_output=True, text=True)
    for line in (ROOT / "Makefile").read_text().splitlines():
        target, mark, text = line.partition(" ## ")
        if mark and ":" in target:
            assert f"  {target.partition(':')[0]:<12} {text}\n" in done.stdout
