"""The documentation is consistent: links, anchors, tables, and references to it."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [
    *sorted(page for page in ROOT.glob("*.md") if page.name != "README.md"),
    *sorted(page for room in ("examples", "lab", "python") for page in (ROOT / room).rglob("*.md")),
]
ROOMS = set("cmake docs examples include lab python rigs scripts src tests verification".split())
TEXT = set(".c .cmake .cpp .cu .f90 .hpp .in .json .md .pml .py .sh .toml .txt".split())
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


def prose_of(page: Path) -> list[str]:
    """The lines of a page, those of code blocks left empty."""
    lines = []
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.lstrip().startswith("```")
        lines.append("" if fenced or fence else line)
        fenced ^= fence
    assert not fenced, f"{page}: a code block without an end"
    return lines


def without_code(line: str) -> str:
    return re.sub(r"(`+).+?\1", "", line)


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    anchors: dict[str, int] = {}
    for line in prose_of(page):
        if heading := re.match(r"#{1,6} +(.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            anchor = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            number = anchors[anchor] = anchors.get(anchor, -1) + 1
            if number:
                anchors[f"{anchor}-{number}"] = 0
    return set(anchors)


def dead_links_of(page: Path) -> list[str]:
    dead = []
    for number, line in enumerate(prose_of(page), 1):
        for target in LINK.findall(without_code(line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.exists():
                dead.append(f"line {number}: {target}: no such file")
            elif anchor and to.suffix == ".md" and anchor not in anchors_of(to):
                dead.append(f"line {number}: {target}: no such heading")
    return dead


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert dead_links_of(page) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `page`\n\n[here](#a-page) [not](#nowhere) [gone](gone.md) `[code](c)`\n")
    assert dead_links_of(page) == ["line 3: #nowhere: no such heading", "line 3: gone.md: no such file"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    new = set(reached)
    while new:
        page = new.pop()
        for line in prose_of(page):
            for target in LINK.findall(without_code(line)):
                to = (page.parent / unquote(target).partition("#")[0]).resolve()
                if to in PAGES and to not in reached:
                    reached.add(to)
                    new.add(to)
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_whole(page: Path) -> None:
    """Every table has a head and a rule, and as many cells in every row."""
    above: list[int] = []
    for number, line in enumerate([*prose_of(page), ""], 1):
        if not line.lstrip().startswith("|"):
            assert len(above) != 1, f"line {number - 1}: a row that belongs to no table"
            above = []
            continue
        cells = re.sub(r"\\\|", "", re.sub(r"(`+).+?\1", "x", line)).strip().count("|") - 1
        if len(above) == 1:
            assert re.fullmatch(r"\s*\|(\s*:?-+:?\s*\|)+\s*", line), f"line {number}: not a rule"
        assert not above or cells == above[0], f"line {number}: {cells} cells, not {above[0]}"
        above.append(cells)


def test_what_points_to_a_page_finds_it() -> None:
    """Sources, tests and messages name pages by their path from the root."""
    rooms = [path for path in ROOT.iterdir() if path.name in ROOMS]
    assert len(rooms) > 5
    missing = []
    for path in (path for room in rooms for path in room.rglob("*")):
        if path.suffix not in TEXT or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        missing += [
            f"{path.relative_to(ROOT)}: {page}"
            for page in re.findall(r"\bdocs/(?:[\w-]+/)*[\w-]+\.md\b", text)
            if not (ROOT / page).is_file()
        ]
    assert missing == []
