"""States that the control registers of a module reach after a reset, whatever the rest of it does.

Counters and pointers of a queue depend on each other. A proof from every state has to know it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..formal.aig import Aig, Builder
from .copies import cleared
from .design import SELECT

_MOST_BITS, _MOST_LEAVES = 14, 12
"""Registers of a group, and registers and inputs besides that their next values need, at most."""


def reachable(graph: Aig, reset: str) -> list[Aig]:
    """Rules of single modules, each with one output: 1 in a state that its registers never reach.

    The registers are those that a reset clears. Modules with one or with too many have no rule, nor
    have those whose registers reach every state.
    """
    rules = []
    for group in _groups(graph, reset):
        states = _reached(graph, group)
        if states is not None and len(states) < 1 << len(group):
            rules.append(_rule(graph, [*group], states))
    return rules


def _groups(graph: Aig, reset: str) -> Iterator[dict[int, int]]:
    """Registers of each module that a reset sets, with what it sets them to."""
    groups: dict[str, dict[int, int]] = defaultdict(dict)
    for place, after in cleared(graph, reset).items():
        name = graph.registers[place]
        if name and "." in name[0]:
            groups[name[0].rpartition(".")[0]][place] = after
    return (group for group in groups.values() if 1 < len(group) <= _MOST_BITS)


def _reached(graph: Aig, group: dict[int, int]) -> set[int] | None:
    """All states, the first register's value in the lowest bit; None with too much to depend on."""
    first = 1 + len(graph.inputs)  # nodes: 0, inputs, registers, ANDs
    nexts = [graph.nexts[place] for place in group]
    cone = _cone(graph, [literal >> 1 for literal in nexts])
    own = [first + place for place in group]
    gates = first + len(graph.nexts)
    selects = {1 + i for i, (name, _) in enumerate(graph.inputs) if name == SELECT}
    leaves = [node for node in cone if 0 < node < gates and node not in {*own, *selects}]
    if len(leaves) > _MOST_LEAVES:
        return None
    count = 1 << len(leaves)
    every = (1 << count) - 1
    values = dict.fromkeys({0, *selects}, 0)
    for i, leaf in enumerate(leaves):  # every combination of the leaves in a column
        values[leaf] = every // ((1 << (1 << i)) + 1) << (1 << i)
    start = sum(value << i for i, value in enumerate(group.values()))
    states, left = {start}, [start]
    while left:
        state = left.pop()
        values |= {node: every * (state >> i & 1) for i, node in enumerate(own)}
        for node in cone:
            if node >= gates:
                a, b = graph.ands[node - gates]
                values[node] = (values[a >> 1] ^ every * (a & 1)) & (
                    values[b >> 1] ^ every * (b & 1)
                )
        columns = {0: every}
        for i, literal in enumerate(nexts):
            ones = values[literal >> 1] ^ every * (literal & 1)
            parts = {after | 1 << i: mask & ones for after, mask in columns.items()}
            parts |= {after: mask & ~ones for after, mask in columns.items()}
            columns = {after: mask for after, mask in parts.items() if mask}
        left += columns.keys() - states
        states |= columns.keys()
    return states


def _cone(graph: Aig, nodes: Sequence[int]) -> list[int]:
    """Nodes on which these depend, in order."""
    gates = 1 + len(graph.inputs) + len(graph.nexts)
    cone, left = set(nodes), [*nodes]
    while left:
        node = left.pop()
        new = {x >> 1 for x in graph.ands[node - gates]} - cone if node >= gates else set()
        cone |= new
        left += new
    return sorted(cone)


def _rule(graph: Aig, group: list[int], states: set[int]) -> Aig:
    """The graph of a rule: a tree of choices, like parts once."""
    builder, known = Builder(len(group), 0), {}

    def choice(bit: int, table: tuple[bool, ...]) -> int:
        if bit < 0:
            return int(table[0])
        if (bit, table) not in known:
            half = len(table) // 2
            low, high = choice(bit - 1, table[:half]), choice(bit - 1, table[half:])
            known[bit, table] = builder.choose(builder.input(bit), high, low)
        return known[bit, table]

    table = tuple(state not in states for state in range(1 << len(group)))
    wrong = choice(len(group) - 1, table)
    names = [graph.registers[place] or ("", 0) for place in group]
    return Aig(names, [], {("wrong", 0): wrong}, builder.ands)
