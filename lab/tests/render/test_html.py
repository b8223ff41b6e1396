"""What a report contains, and that it needs nothing else."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from ferry import file_systems
from ferry_lab.render import html as report
from ferry_lab.render.sections import Answer
from ferry_lab.render.study_text import describe_run
from ferry_lab.render.terminal import print_answer
from ferry_lab.results import csv_file
from ferry_lab.results.records import Document
from ferry_lab.run.study_files import PLOTS, REPORT_HTML
from ferry_lab.studies import find_study
from ferry_lab.studies.placements import Placements
from ferry_lab.tune.entry import Entry
from ferry_lab.tune.tune_report import storage_of
from made_up import DOCUMENTS, placements_document, printed, report_files, shown, storages_document
from msgspec.structs import replace
from rich.cells import cell_len
from support import run_python

PNG = b"\x89PNG\r\n\x1a\n"


class Text(HTMLParser):
    """The text of a page, its links, its ids, and anything that would load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attributes)
        if tag == "a":
            self.links.append(str(given["href"]))
        elif tag == "link" or "src" in given:
            self.loads.append(str(given.get("src") or given.get("href")))
        if given.get("id"):
            self.ids.append(str(given["id"]))

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.fixture(scope="module")
def document() -> Document:
    return placements_document()


@pytest.fixture(scope="module")
def files(document: Document) -> dict[str, bytes]:
    return report_files(Placements(), document)


@pytest.fixture(scope="module")
def page(files: dict[str, bytes]) -> Text:
    return Text(files[REPORT_HTML].decode())


def test_the_conclusion_follows_from_the_numbers_and_is_short(document: Document) -> None:
    sentences = Placements().answer(document).conclusion
    # compute takes half the time below 64 KiB and twice as long from there on.
    assert sentences[0].startswith(
        "Reads: while the device's cache is cold, compute has 2.0 times the bandwidth of host from "
        "4 KiB to 16 KiB, and host has 2.0 times the bandwidth of compute from 64 KiB up; once it "
        "has the file, compute and host are within 5 %."
    )
    assert "Writes, with and without the fsync that makes them durable: compute has 2.0" in sentences[1]
    assert sentences[2].startswith("automatic is slower than the best of the three at ")
    assert len(sentences) == 3


def test_without_writes_the_conclusion_does_not_speak_of_them() -> None:
    document = placements_document(writes=False)
    answer, sections = Placements().answer(document), Placements().sections(document)
    assert not any("Writes" in sentence for sentence in answer.conclusion)
    figures = [section.figure.name for section in sections if section.figure]
    assert figures == ["reads", "programs-read"]


def test_what_shows_nothing_is_not_concluded_from(document: Document) -> None:
    points = [replace(c, finding="no_difference") for c in document.comparisons]
    sentences = Placements().answer(replace(document, comparisons=points)).conclusion
    assert sentences[0].count("no difference is measured between compute and host") == 2
    assert "faster" not in " ".join(sentences)
    assert "times the" not in " ".join(sentences)
    assert sentences[2].startswith("automatic is slower than the best of the three at none of ")


@pytest.mark.parametrize("width", [80, 110])
def test_the_page_has_the_whole_conclusion_and_the_terminal_what_fits(document: Document, width: int) -> None:
    answer = Answer("Which?", [f"{'word ' * 60}one.", f"{'word ' * 100}two.", "Three isn't long."])
    html = Text(report.files(document, answer, [])[REPORT_HTML].decode()).text
    assert html.index("word one.") < html.index("word two.") < html.index("Three isn’t long.")
    printed = " ".join(answer_lines(answer, width))
    assert printed.index("word one.") < printed.index("Three isn't long.")
    assert "two." not in printed


def test_everything_is_on_the_page(page: Text, document: Document) -> None:
    for sentence in Placements().answer(document).conclusion:
        assert sentence.replace("'", "’") in page.text
    machine = document.environment.machine
    for text in (
        *(machine.kernel, machine.cpu_model, "ext4 on /dev/vda", "64 MiB"),
        *("no locked memory: the arena may be swapped out", "a note <i>with markup</i>"),
        *("Reads of 16 MiB", "Device cache cold (MiB/s)", "Call + fsync (MiB/s)"),
        *("Writes of 16 MiB into a new file", "Reads of 64 MiB", "Where is the time?"),
        *("Programs that read 16 MiB and sum pieces of 64 KiB", "identical (A/A) series"),
        *("Matsuo, Shimosawa, Ishikawa", "2026-01-02 03:04"),
    ):
        assert text in page.text
    for conclusion in document.conclusions:
        about, _, sentence = conclusion.partition(": ")
        assert about in page.text
        assert sentence[1:] in page.text


def test_the_commands_to_repeat_it_are_at_the_bottom(files: dict[str, bytes]) -> None:
    html = files[REPORT_HTML].decode()
    assert html.rindex("To repeat it") > html.rindex("Where it was measured")


@pytest.mark.parametrize(
    ("revision", "lines"),
    [
        (None, ["ferry study placements --dir 'a b'"]),
        ("abc", ["git checkout abc", "./ferry study placements --dir 'a b'"]),
        (
            "abc-dirty",
            ["git checkout abc  # with changes that were not committed", "./ferry study placements --dir 'a b'"],
        ),
    ],
)
def test_the_commands_can_be_pasted(document: Document, revision: str | None, lines: list[str]) -> None:
    environment = replace(document.environment, versions={"git_revision": revision})
    command = ["ferry", "study", "placements", "--dir", "a b"]
    changed = replace(document, environment=environment, command=command)
    assert report.commands(changed) == lines


def test_nothing_is_loaded_and_nothing_runs(page: Text, files: dict[str, bytes]) -> None:
    html = files[REPORT_HTML].decode()
    assert "script" not in page.tags
    assert page.loads == ["data:,"]
    assert "Content-Security-Policy" in html
    assert not re.search(r"@import|url\((?!#)", html)
    addresses = set(re.findall(r"https?://[^\s\"<]*", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_links_lead_to_files_of_the_report(page: Text, files: dict[str, bytes]) -> None:
    assert set(page.links) == {*(set(files) - {REPORT_HTML}), "results.json", "results.csv"}


def test_every_id_is_there_once(page: Text, files: dict[str, bytes]) -> None:
    html = files[REPORT_HTML].decode()
    assert len(page.ids) == len(set(page.ids))
    assert set(re.findall(r'(?:xlink:href="#|url\(#)([^")]*)', html)) <= set(page.ids)


def test_plots_follow_the_colour_scheme(files: dict[str, bytes]) -> None:
    html = files[REPORT_HTML].decode()
    drawings = re.findall(r"<svg.*?</svg>", html, flags=re.S)
    assert len(drawings) == 2 * 5  # wide and narrow
    for drawing in drawings:
        assert not re.search(r"#[0-9a-fA-F]{6}\b", drawing), "a colour that is no variable"
    for name in set(re.findall(r"var\((--[a-z]*)\)", html)):
        assert html.count(f"{name}: #") == 2, name  # light and dark


def test_points_have_tooltips(files: dict[str, bytes]) -> None:
    html = files[REPORT_HTML].decode()
    assert "<title>host, 64 KiB: 4000 MiB/s (4000 to 4000)</title>" in html


def test_plots_are_there_as_files(files: dict[str, bytes]) -> None:
    names = ["reads", "writes", "large-reads", "programs-read", "programs-write"]
    for name in names:
        svg = ElementTree.fromstring(files[f"{PLOTS}/{name}.svg"])
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert files[f"{PLOTS}/{name}.png"].startswith(PNG)
        assert files[f"{PLOTS}/{name}.pdf"].startswith(b"%PDF-")
    assert len(files) == 1 + 3 * len(names)


def test_axes_have_readable_units(files: dict[str, bytes]) -> None:
    texts = {
        element.text
        for element in ElementTree.fromstring(files[f"{PLOTS}/reads.svg"]).iter()
        if element.tag.endswith("text")
    }
    assert {"4 KiB", "64 KiB", "1 MiB", "16 MiB", "4096 MiB/s", "Device cache cold"} <= texts
    assert {"host", "compute", "service", "automatic", "pread", "mmap"} <= texts


def test_the_same_results_make_the_same_report(document: Document, files: dict[str, bytes]) -> None:
    assert report_files(Placements(), document) == files


def test_numbers_stay_with_their_units() -> None:
    space = "\N{NO-BREAK SPACE}"
    assert report.typeset("from 4 KiB up (noise > 100 %), 12 of 20") == (
        f"from 4{space}KiB up (noise{space}>{space}100{space}%), 12 of 20"
    )


def test_the_paper_agrees_or_not(document: Document) -> None:
    sections = Placements().sections(document)
    section = next(s for s in sections if s.title == "Beside the paper")
    rows = {line[0]: line for line in section.tables[0].rows}
    assert rows["Reads, device cache cold, 4 KiB"][3] == "yes"
    assert rows["Reads, device cache cold, 16 MiB"][3] == "yes"
    assert rows["Reads, device cache warm, 4 KiB"][3] == "within 5 %"
    # The programs move 64 KiB at a time, where compute takes twice as long here.
    assert rows["Program iterative, read, device cache cold"][3] == "no"
    assert rows["Program once, read, device cache cold"][3] == "yes"


# ---- file systems that the list of mounts does not show ------------------------------------------


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("ext4", "/dev/vda", "ext4 on /dev/vda"),
        ("tmpfs", "", "tmpfs"),
        ("", "", "an unknown file system"),
        (None, None, "an unknown file system"),
    ],
)
def test_a_file_system_is_named_as_far_as_it_is_known(kind: str | None, source: str | None, words: str) -> None:
    document = placements_document(writes=False)
    systems = document.environment.file_systems
    known = [] if kind is None else [replace(systems[0], type=kind, source=source)]
    document.environment = replace(document.environment, file_systems=known)
    assert describe_run(document).startswith(f"Study placements on {words}: device CPUs")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_unknown_mount_leaves_no_hole_in_a_sentence(name: str) -> None:
    document = DOCUMENTS[name]()
    (system,) = document.environment.file_systems
    empty = dict.fromkeys(("mount_point", "type", "source", "options"), "")
    document.environment.file_systems = [replace(system, **empty, block_device=None)]
    study = find_study(name)()
    html = Text(report_files(study, document)[REPORT_HTML].decode()).text
    title = next(line for line in shown(study, document).splitlines() if line.startswith("Study "))
    for text in (title, html):
        assert " on  " not in text
        assert not re.search(r"file system on[ :,]*[:,]", text)
        assert " on ," not in text
        assert "mounted on (" not in text
    assert "unknown file system" in title
    assert "unknown file system" in html


def test_tune_and_info_name_an_unknown_mount() -> None:
    system = {"type": "", "source": None, "mount_point": ""}
    assert file_systems.on_source(system) == "an unknown file system"
    assert file_systems.on_mount_point({**system, "mount_point": "/x"}) == "an unknown file system on /x"
    known = dict.fromkeys(("file_system", "mount_point", "measured", "kernel", "ferry_version"), "")
    entry = Entry(**known, settings=[], workloads=[])
    assert storage_of(entry) == "an unknown file system"
    assert storage_of(replace(entry, mount_point="/x")) == "an unknown file system at /x"


# ---- the first lines on the terminal -------------------------------------------------------------


def answer_lines(answer: Answer, width: int) -> list[str]:
    return printed(width, lambda console: print_answer(console, answer)).splitlines()


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("width", [80, 110])
def test_a_study_begins_with_its_answer_in_eight_lines(name: str, width: int) -> None:
    answer = find_study(name)().answer(DOCUMENTS[name]())
    lines = answer_lines(answer, width)
    assert lines[-1] == ""
    assert 1 <= len(lines) - 1 <= 8
    assert " ".join(answer.conclusion[0].split()) in " ".join(" ".join(lines).split())


def test_an_answer_has_whole_sentences_only() -> None:
    answer = Answer("", ["word " * 60 + "one.", "word " * 100 + "two.", "Three."])
    text = " ".join(answer_lines(answer, 80))
    assert "one." in text
    assert "two." not in text
    assert "Three." in text
    narrow = answer_lines(answer, 40)
    assert max(map(len, narrow)) <= 40
    assert "Three." in narrow[-2]


@pytest.mark.parametrize("width", [80, 40])
def test_the_terminal_shows_every_number_and_sentence(document: Document, width: int) -> None:
    study = Placements()
    text = shown(study, document, width)
    lines = [line for line in text.splitlines() if not line.startswith("note: ")]
    assert max(map(cell_len, lines)) <= width
    words, joined = set(text.split()), " ".join(text.split())
    for section in study.sections(document):
        assert section.title in joined
        for table in section.tables:
            first = 0 if width == 80 else table.left  # the rows' names may be folded
            for row in (table.columns, *table.rows):
                assert words.issuperset(" ".join(row[first:]).split()), row
        for findings in section.findings:
            assert f"{findings.about}: " in joined
            assert all(f"{clause}." in joined for clause in findings.clauses())
    for sentence in study.answer(document).conclusion:
        assert sentence in joined
    assert all(line.split()[0] not in ("KiB", "MiB", "%") for line in lines if line.split())


def test_only_drawing_loads_the_plotting_library() -> None:
    code = "import sys, ferry_lab.studies.placements; assert 'matplotlib' not in sys.modules"
    assert run_python(code).returncode == 0


# ---- results.csv ---------------------------------------------------------------------------------


def test_the_csv_file_says_where_and_how_fast() -> None:
    document = storages_document({"tmpfs": 0.5}, network=True)
    systems = document.environment.file_systems
    systems.append(replace(systems[0], mount_point="/memory", type="tmpfs", source="none"))
    text = csv_file.to_csv(document.rows, document.environment)
    lines = list(csv.DictReader(io.StringIO(text)))
    samples = [(row, sample) for row in document.rows for sample in row.repeats]
    assert len(lines) == len(samples)
    for line, (row, sample) in zip(lines, samples, strict=True):
        assert {name: line[f"axis_{name}"] for name in row.axes} == {
            name: str(value) for name, value in row.axes.items()
        }
        named = {"tmpfs": "tmpfs on none", "ceph": "ceph"}
        assert line["storage"] == named.get(row.axes["storage"], "ext4 on /dev/vda")
        assert line["path"] == row.path
        assert int(line["bytes"]) == sample.bytes
        wanted = sample.bytes / (1 << 20) / (sample.io_ns * 1e-9)
        assert float(line["bandwidth_mib_per_s"]) == pytest.approx(wanted, rel=1e-4)
        synced = float(line["bandwidth_with_sync_mib_per_s"])
        share = 3 if row.operation == "write" else 1  # flush and sync take as long as the calls
        assert synced == pytest.approx(wanted / share, rel=1e-4)
    assert csv_file.storage_of("/elsewhere", replace(document.environment, file_systems=[])) == "an unknown file system"
