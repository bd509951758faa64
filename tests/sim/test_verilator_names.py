"""Paths and names that Verilator, make or its shell would read as something else."""

import pytest

from mxdot.sim.engine import verilator
from mxdot.sim.engine.toolchain import ToolError, find_tools
from odd_names import ODD


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "top.v"
    path.write_text("module top(input clk); endmodule\n")
    return path


@pytest.mark.parametrize("name", [name for name in ODD if "/" not in name] + ["a:b", "a=b"])
def test_a_path_that_is_not_plain_is_refused(name, source, monkeypatch):
    """Verilator writes paths into makefiles, and make hands them to a shell."""

    def refused(call, *arguments):
        message = r"take paths of letters, digits and /_\.\+@~- only, not "
        with pytest.raises(ToolError, match=message) as error:
            call(*arguments)
        assert "\n" not in str(error.value)

    odd = source.rename(source.with_name(f"{name}.v"))
    refused(verilator.build, odd, "top", source.parent / "build")
    refused(verilator.lint, odd, "top")
    plain = odd.rename(source)
    directory = source.parent / name
    refused(verilator.build, plain, "top", directory)
    directory.mkdir(exist_ok=True)
    monkeypatch.chdir(directory)
    refused(find_tools)


@pytest.mark.parametrize("name", [*ODD, "", "-f", '*" -var "*'])
def test_names_are_identifiers(name, source):
    def refused(call, *arguments, **options):
        with pytest.raises(ValueError, match=r"must be a Verilog identifier \(.*\), not ") as error:
            call(source, *arguments, **options)
        assert "\n" not in str(error.value)

    build = source.parent / "build"
    refused(verilator.build, name, build)
    refused(verilator.build, "top", build, separate=[name])
    refused(verilator.build, "top", build, parameters={name: 1})
    refused(verilator.build, "top", build, defines={name: "unit"})
    refused(verilator.build, "top", build, defines={"UNIT": name})
    refused(verilator.lint, name)
