"""Hostile inputs: valid ones with pieces damaged, how many are tried, and what a refusal is."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from compare import FULL

T = TypeVar("T")

WORDS = (
    *(
        "",
        "0",
        "-1",
        "1",
        "2",
        "65536",
        "-99999999999999999999",
        "9" * 30,
        "9" * 5000,
        "0x" + "f" * 99,
    ),
    *(
        "1e999",
        "1.1.1",
        "nan",
        "-inf",
        "1_0",
        "٣",
        "é",
        "\u2028",
        "\ud7ff",
        "\0",
        "\n",
        "\r\n",
        "\t",
    ),
    *(
        "../../x",
        "/etc/passwd",
        "~",
        ".",
        "a\0b",
        "a\nb",
        '"',
        "'",
        "\\",
        "`",
        "//",
        "/*",
        "*/",
        "#",
    ),
    *(
        "=1+1",
        "@x",
        "$(touch pwned)",
        "<script>",
        "%s",
        "{0}",
        "true",
        "null",
        "{}",
        "[]",
        "()",
        ";",
    ),
    *("(" * 300, "!" * 300, "[" * 3000, "{" * 300, ":" * 9, ",", "..", "0..1", "3..1", "0..9/0"),
    "0.." + "9" * 30,
)
"""Replacements of a word: numbers out of range, texts that are no number, escapes, paths."""


def fuzz(examples: int) -> Callable[[T], T]:
    """A property that hypothesis tries on so many examples, with FULL=1 on twenty times more."""
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=examples * (20 if FULL else 1), suppress_health_check=slow)


def refusal(error: Exception) -> None:
    """Fail unless the message of `error` says something, in one line that can be shown."""
    text = str(error)
    assert text, repr(error)
    assert len(text.splitlines()) == 1, text
    text.encode()


def outcome(
    function: Callable[..., T], *arguments: Any, errors: Any = (ValueError, TypeError)
) -> T | None:
    """The result of `function`, None if it raises one of `errors`."""
    try:
        return function(*arguments)
    except errors as error:
        refusal(error)
        return None


@st.composite
def damaged(draw: st.DrawFn, valid: Sequence[bytes]) -> bytes:
    """One of `valid` with a few bits flipped, bytes overwritten, cut out or doubled."""
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(1, 3))):
        if not data:
            break
        i = draw(st.integers(0, len(data) - 1))
        j = min(len(data), i + draw(st.sampled_from([1, 2, 4, 8, 64, 1000])))
        data = draw(
            st.sampled_from(
                [
                    data[:i] + bytes([data[i] ^ 1 << draw(st.integers(0, 7))]) + data[i + 1 :],
                    data[:i] + draw(st.sampled_from([b"\0", b"\xff"])) * (j - i) + data[j:],
                    data[:i] + data[j:],
                    data[:j] + data[i:],
                    data[:i],
                ]
            )
        )
    return data


@st.composite
def misspelt(draw: st.DrawFn, valid: Sequence[str]) -> str:
    """One of `valid` with a few words or signs replaced, left out, doubled or put elsewhere."""
    words = re.findall(r"\w+|\s+|[^\w\s]", draw(st.sampled_from(valid)))
    odd = st.one_of(st.sampled_from(WORDS), st.text(max_size=4), st.sampled_from(words))
    for _ in range(draw(st.integers(0, 4))):
        i = draw(st.integers(0, len(words)))
        j = i + draw(st.sampled_from([0, 1, 1, 1, 5]))
        words[i:j] = draw(st.sampled_from([[draw(odd)], [], words[i:j] * 2]))
    return "".join(words)
