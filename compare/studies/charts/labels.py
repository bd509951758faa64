"""Names beside the points of a panel: every point has one, and close points share one.

Places are found for a panel of `WIDTH` pixels. A wider panel spreads the points, and the names keep
their distance to them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

from ....util.charts.layers import texts

WIDTH = 290
"""Width of a panel in pixels, on a narrow page."""
LETTER, LINE = 5.0, 10.0
"""Room for a character and for a line of text, in pixels."""
NEAR_X, NEAR_Y = 9.0, 8.0
"""Distance at which points share a name, in pixels."""
POINT = 4.5
"""Half of the room for a point."""
LONGEST = 18
"""Characters of a line of text."""
OUTSIDE = 6.0
"""Pixels above a panel that a text may take."""
FONT = 9

Box = tuple[float, float, float, float]
Place = tuple[str, int, int]
PLACES: tuple[Place, ...] = (
    *(("left", 7, 0), ("right", -7, 0), ("left", 6, 9), ("left", 6, -9), ("right", -6, -9)),
    *(("right", -6, 9), ("center", 0, -11), ("center", 0, 11), ("left", 8, 17), ("left", 8, -17)),
    *(("right", -8, -17), ("right", -8, 17), ("center", 0, -21), ("center", 0, 21)),
    *(("left", 10, 26), ("left", 10, -26), ("right", -10, -26), ("right", -10, 26)),
)
"""Alignment and offset of a text beside its points, the best first."""
BESIDE_STEPS: tuple[Place, ...] = (("left", 6, 9), ("right", -6, -9), *PLACES)
"""Places where lines go right and then up."""
CORNER: Box = (0.0, -14.0, 48.0, 0.0)
"""Room of a word at the left end of a line, from that end."""


class Axis(NamedTuple):
    """The part of an axis that a panel shows."""

    low: float
    high: float
    is_log: bool = False

    def share(self, value: float) -> float:
        """Place of a value, from 0 to 1."""
        if self.is_log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Point:
    """A mark and where it is, in pixels."""

    mark: Mapping[str, Any]
    x: float
    y: float

    @property
    def box(self) -> Box:
        """Room of the point."""
        return self.x - POINT, self.y - POINT, self.x + POINT, self.y + POINT


@dataclass
class Group:
    """Points that share a text."""

    points: list[Point]
    place: Place | None = None

    @property
    def lines(self) -> list[str]:
        """The names in lines."""
        return joined([str(point.mark["text"]) for point in self.points])

    def anchor(self, align: str) -> Point:
        """The point beside which a text stands."""
        ordered = sorted(self.points, key=lambda point: point.x)
        return {"left": ordered[-1], "right": ordered[0], "center": ordered[len(ordered) // 2]}[
            align
        ]

    def box(self, place: Place) -> Box:
        """Room of the text at a place."""
        align, dx, dy = place
        point, lines = self.anchor(align), self.lines
        width = LETTER * max(map(len, lines))
        left = point.x + dx - width * {"left": 0.0, "center": 0.5, "right": 1.0}[align]
        half = LINE * len(lines) / 2
        return left, point.y + dy - half, left + width, point.y + dy + half


def joined(names: Sequence[str]) -> list[str]:
    """Lines of the names, where those of a family share its name: ``aligned:8,10``."""
    families: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        family, _, width = name.partition(":")
        families.setdefault(family, []).append(width)
    lines = [""]
    for family, widths in families.items():
        for i, width in enumerate(widths):
            name = f"{family}:{width}" if width and not i else width or family
            link = "" if lines == [""] else "," if i else ", "
            if len(lines[-1] + link + name) > LONGEST and lines[-1]:
                lines[-1] += link.rstrip()
                lines.append(name)
            else:
                lines[-1] += link + name
    return lines


def labels(
    marks: Sequence[Mapping[str, Any]],
    x: Axis,
    y: Axis,
    height: float,
    *,
    places: Sequence[Place] = PLACES,
    words: Sequence[float] = (),
) -> list[dict[str, Any]]:
    """Layers of the names of `marks`, in a panel of this height.

    words: values of y where a line with a word at its left end is.
    """

    def down(value: float) -> float:
        return (1 - y.share(value)) * height

    points = [Point(mark, x.share(mark["x"]) * WIDTH, down(mark["y"])) for mark in marks]
    left, top, right, bottom = CORNER
    taken = [(left, down(word) + top, right, down(word) + bottom) for word in words]
    taken += [(0.0, down(word) - 1, float(WIDTH), down(word) + 1) for word in words]
    groups = _groups(points)
    while True:
        for group in groups:
            group.place = None
        crowded = next((g for g in groups if not _place(g, groups, taken, height, places)), None)
        if crowded is None or len(groups) == 1:
            break
        _merge(crowded, groups)
    return list(_layers(groups))


def _groups(points: Sequence[Point]) -> list[Group]:
    """Groups of close points, from left to right."""
    groups: list[Group] = []
    for point in sorted(points, key=lambda point: (point.x, point.y)):
        near = [
            group
            for group in groups
            if abs(group.points[0].x - point.x) < NEAR_X
            and abs(group.points[0].y - point.y) < NEAR_Y
        ]
        if near:
            near[0].points.append(point)
        else:
            groups.append(Group([point]))
    return groups


def _place(
    group: Group,
    groups: Sequence[Group],
    taken: Sequence[Box],
    height: float,
    places: Sequence[Place],
) -> bool:
    """Give a group the first place where it covers nothing; False without one."""
    others = [other.box(other.place) for other in groups if other.place is not None]
    points = [point.box for other in groups for point in other.points]
    for place in places:
        box = group.box(place)
        inside = box[0] >= 0 and box[1] >= -OUTSIDE and box[2] <= WIDTH and box[3] <= height
        if inside and not any(_overlap(box, other) for other in (*taken, *others, *points)):
            group.place = place
            return True
    return False


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _merge(group: Group, groups: list[Group]) -> None:
    """Let the nearest other group name these points too."""
    groups.remove(group)
    point = group.points[0]

    def distance(other: Group) -> float:
        return min((each.x - point.x) ** 2 + (each.y - point.y) ** 2 for each in other.points)

    min(groups, key=distance).points.extend(group.points)


def _layers(groups: Sequence[Group]) -> Iterator[dict[str, Any]]:
    by_place: dict[Place, list[dict[str, Any]]] = {}
    for group in groups:
        place = group.place or PLACES[0]
        value = {**group.anchor(place[0]).mark, "text": "\n".join(group.lines)}
        by_place.setdefault(place, []).append(value)
    for (align, dx, dy), values in by_place.items():
        layer = texts(values, align=align, dx=dx, dy=dy, size=FONT)
        layer["mark"]["lineBreak"] = "\n"
        yield layer
