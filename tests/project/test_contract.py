"""Every statement of docs/numerics.md has its row in docs/contract-coverage.md, and it is true."""

from contract import CONTRACT, COVERAGE, OPEN, REFERENCE, ROOT, has_bin, has_test, rows, statements

IN_RTL = ("3. Products and scales", "Status flags", "Narrower outputs")
"""Sections of which each statement is about the RTL."""


def complaints(contract: str, page: str) -> list[str]:
    """Mistakes of the page."""
    made, held = statements(contract), rows(page)
    keys = {statement.key: statement.section for statement in made}
    problems = [
        f"no row for {s.text!r} of {s.section!r}; it begins: | `{s.key}` | {s.words} |"
        for s in made
        if s.key not in {row.key for row in held}
    ]
    for row in held:
        if row.key not in keys:
            problems.append(f"no statement {row.key} ({row.words})")
        if not row.tests and row.says != REFERENCE and not row.is_open:
            problems.append(f"no test for {row.key} ({row.words})")
        if keys.get(row.key) in IN_RTL and not row.bins:
            problems.append(f"no bin for {row.key} ({row.words})")
        problems += [f"no test {name} ({row.key})" for name in row.tests if not has_test(name)]
        problems += [f"no bin {name} ({row.key})" for name in row.bins if not has_bin(name)]
    if len(held) != len({row.key for row in held}):
        problems.append("two rows of one key")
    return problems


def pages() -> tuple[str, str]:
    return CONTRACT.read_text(encoding="utf-8"), COVERAGE.read_text(encoding="utf-8")


def test_every_statement_has_a_test_and_its_bins():
    assert not complaints(*pages())


def test_rows_are_in_the_order_of_the_contract():
    contract, page = pages()
    assert [row.key for row in rows(page)] == [s.key for s in statements(contract)]


def test_holes_are_told():
    """docs/verification.md counts the statements without a test."""
    count = sum(row.is_open for row in rows(pages()[1]))
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert f"{count} statement of the contract has no test" in " ".join(text.split())
    assert f"each of the {len(rows(pages()[1]))} statements of numerics.md" in " ".join(
        text.split()
    )


def test_what_is_missing_is_noticed():
    contract, page = pages()
    longer = contract.replace("Subnormals are kept.", "Subnormals are kept. One more rule.", 1)
    assert any("One more rule." in text for text in complaints(longer, page))
    other = contract.replace("The exponent is clamped to", "The exponent is cut to", 1)
    assert any(text.startswith("no row") for text in complaints(other, page))
    assert any(text.startswith("no statement") for text in complaints(other, page))
    first = rows(page)[0]
    for name, text in ((first.tests[0], "no test nowhere::nothing"), (first.bins[0], "no bin ")):
        wrong = page.replace(f"`{name}`", "`nowhere::nothing`", 1)
        assert any(complaint.startswith(text) for complaint in complaints(contract, wrong))
    flag = next(row for row in rows(page) if row.words.startswith("underflow a rounding"))
    wrong = page.replace(f"| `{flag.key}` |", f"| `{flag.key}` | x | `a::b` | - |\n|")
    assert f"no bin for {flag.key} (x)" in complaints(contract, wrong)
    bare = f"| `{first.key}` | {first.words} |  |  |\n"
    assert complaints(contract, bare + page)[-1] == "two rows of one key"
    assert f"no test for {first.key} ({first.words})" in complaints(contract, bare + page)
    assert not has_bin("dot.flags=nothing")
    assert has_bin("dot.flags=overflow")
    assert OPEN != REFERENCE
