"""`make figures`: what it makes, what it names as changed, and that its registry fits the pages."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import figures
import pytest
from figure_inputs import Input, code_digest, essence, folder_digest
from figure_rows import FIGURES, Figure

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
Path("ran").open("a").write("x")
Path(sys.argv[1], "new.svg").write_text("<svg></svg>")
print("noise")
print("| a |")
"""


@dataclass
class Inputs:
    """Inputs of a figure that tests change."""

    digest: str = "1"
    quick: str = "1"
    asked: list[str] = field(default_factory=list)

    def __call__(self) -> dict[str, Input]:
        def digest() -> str:
            self.asked.append("digest")
            return self.digest

        return {"Verilog": Input(digest, lambda: self.quick)}


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    page = tmp_path / "docs" / "page.md"
    page.write_text("before\n<!-- figure: rows -->\nold\n<!-- end -->\nafter\n")
    return page


def figure(inputs=None, **fields):
    words = {"name": "cost", "page": "page.md", "command": "python program.py {out}", "seconds": 1}
    pictures = {"cost.svg": "new.svg"}
    tables = {"rows": lambda out: (out / "log").read_text().splitlines()[-1]}
    known = words | {"inputs": inputs or Inputs(), "pictures": pictures, "tables": tables}
    return Figure(**(known | fields))


def make(*registry, only=""):
    return figures.main([f"--only={only}"], registry)


def check(*registry):
    return figures.main(["--check"], registry)


def runs():
    return len(Path("ran").read_text()) if Path("ran").exists() else 0


def test_a_figure_is_made_once(page, capsys):
    cost = figure()
    assert check(cost) == 1
    assert "cost in docs/page.md: never made by this command" in capsys.readouterr().out
    assert make(cost) == 0
    assert check(cost) == 0
    text = page.read_text()
    assert "| a |" in text
    assert "noise" not in text
    stamp = f"<!-- mxdot {figures.version_of('mxdot')}, "
    assert stamp in text
    assert stamp in (page.parent / "cost.svg").read_text()
    assert make(cost) == 0
    assert runs() == 1


def test_changed_inputs_are_named(page, capsys):
    inputs = Inputs()
    cost = figure(inputs)
    make(cost)
    inputs.digest = "2"
    assert check(cost) == 0  # the quick digest is as it was, so nobody asks for the other
    inputs.quick = "2"
    assert check(cost) == 1
    assert "cost in docs/page.md: Verilog\n" in capsys.readouterr().out
    assert make(cost) == 0
    assert check(cost) == 0
    assert runs() == 2


def test_files_of_other_inputs_are_not_placed(page):
    """The second run has written over the first, whose result is kept."""
    inputs = Inputs()
    cost = figure(inputs)
    for digest in ("1", "2", "1"):
        inputs.digest = inputs.quick = digest
        assert make(cost) == 0
        assert check(cost) == 0
    assert runs() == 3


def test_other_code_that_generates_the_same_is_no_change(page):
    inputs = Inputs()
    cost = figure(inputs)
    make(cost)
    inputs.quick = "2"
    assert check(cost) == 0


@pytest.mark.parametrize("name", ["page.md", "cost.svg"])
def test_outputs_that_someone_edits_are_named(page, capsys, name):
    cost = figure()
    make(cost)
    path = page.parent / name
    path.write_text(path.read_text().replace("| a |", "| b |").replace("<svg>", "<svg >"))
    assert check(cost) == 1
    assert ("rows" if name == "page.md" else "cost.svg") in capsys.readouterr().out
    assert make(cost) == 0  # its command has run with these inputs: its files are placed again
    assert check(cost) == 0
    assert runs() == 1


def test_a_failing_command_leaves_the_others(page, capsys):
    Path("fails.py").write_text("print('why'); raise SystemExit(3)")
    wrong = figure(name="wrong", command="python fails.py", tables={}, pictures={})
    assert make(wrong, figure()) == 1
    assert "wrong: RuntimeError: python fails.py: status 3" in capsys.readouterr().out
    assert check(figure()) == 0
    assert check(wrong) == 1


def test_what_a_machine_may_lack_is_made_when_it_is_named(page):
    gpu = figure(needs="a GPU")
    assert make(gpu) == 0
    assert make(gpu, only="cos") == 0
    assert runs() == 0
    assert make(gpu, only="cost") == 0
    assert runs() == 1


def test_a_name_that_is_none(page, capsys):
    with pytest.raises(SystemExit) as caught:
        make(figure(), only="nothing")
    assert caught.value.code == 2
    assert (
        "only must be part of a figure's name (see --list), not 'nothing'"
        in capsys.readouterr().err
    )


def test_list(page, capsys):
    assert figures.main(["--list"], [figure(needs="a GPU")]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("docs/page.md, about 1 s, needs a GPU")


def test_essence_is_what_code_does():
    text = (
        '"""Doc."""\nX = 1  # why\n"""About X."""\n\ndef f():\n    """Doc."""\n    return "# no"\n'
    )
    assert essence(text) == essence(text.replace("Doc", "Other").replace("why", "ä\n\n"))
    assert essence(text) == 'X = 1\ndef f():\n    return "# no"'
    assert essence(text) != essence(text.replace("# no", "# yes"))
    assert essence("if a:\n    b()\n    c()\n") != essence("if a:\n    b()\nc()\n")
    assert essence("x = 'a b'\n") != essence("x = 'ab'\n")


def test_code_is_what_a_module_imports(tmp_path):
    narrow = code_digest("mxdot.synth.measure", ("synth/measure",))
    assert narrow != code_digest("mxdot.synth.measure", ("synth",))
    with pytest.raises(ValueError, match=r"module must be in hw, not mxdot.synth.measure"):
        code_digest("mxdot.synth.measure", ("hw",))
    with pytest.raises(ValueError, match="names must be of folders with code, not nowhere"):
        folder_digest("nowhere")


def test_the_registry_fits_the_pages():
    names = [figure.name for figure in FIGURES]
    assert len(names) == len(set(names))
    for figure in FIGURES:
        text = (ROOT / "docs" / figure.page).read_text(encoding="utf-8")
        assert [name for name in figure.tables if not figures.block_of(name).search(text)] == []
        shown = [name for name in figure.pictures if name.endswith(".svg")]
        assert [name for name in shown if f"({name})" not in text] == []


def test_files_of_commands_exist():
    words = {word for figure in FIGURES for word in figure.command.split()}
    names = {word for word in words if word.endswith((".toml", ".py"))}
    assert len(names) > 5
    assert [name for name in names if not (ROOT / name).is_file()] == []
    gpu = [figure for figure in FIGURES if figure.needs == "a GPU"]
    assert all(part.digest() for figure in gpu for part in figure.inputs().values())


def test_every_picture_is_registered():
    known = {name for figure in FIGURES for name in figure.pictures}
    assert {path.name for path in (ROOT / "docs").glob("*.svg")} <= known


def test_recorded_figures_exist():
    assert set(figures.tomllib.loads((ROOT / figures.RECORDS).read_text())) <= {
        figure.name for figure in FIGURES
    }


def test_it_runs_as_a_program():
    done = figures.subprocess.run(
        [sys.executable, "tools/figures.py", "--list"], cwd=ROOT, capture_output=True, check=True
    )
    assert b"fraction_bits" in done.stdout
