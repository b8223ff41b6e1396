"""``report.html``: a self-contained page, and its plots as SVG and PNG files.

The page has no script and loads nothing; its content security policy forbids both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from ferry.sizes import format_size
from ferry_lab.render.findings import Findings
from ferry_lab.render.plot_style import css_variables, looks
from ferry_lab.render.plots import Rendered
from ferry_lab.render.sections import Answer, Section
from ferry_lab.render.study_text import keep_units, runtime_notes
from ferry_lab.results.records import Document, FileSystem, RuntimeInForce
from ferry_lab.results.simulation import Simulation
from ferry_lab.run.study_files import PLOTS, REPORT_HTML

_TEMPLATES = Path(__file__).resolve().parent / "templates"


def files(document: Document | Simulation, answer: Answer, sections: Sequence[Section]) -> dict[str, bytes]:
    """Returns the content of every file of a report, by its path in the study's folder.

    ``document`` is one of results.make_document, of a study.
    """
    figures = [section.figure for section in sections if section.figure is not None]
    drawn = {figure.name: figure.plot.render(figure.name, figure.alt) for figure in figures}
    plots = {
        f"{PLOTS}/{name}.{ending}": content
        for name, rendered in drawn.items()
        for ending, content in rendered.files.items()
    }
    return {REPORT_HTML: _html(document, answer, sections, drawn).encode(), **plots}


def _html(
    document: Document | Simulation, answer: Answer, sections: Sequence[Section], drawn: Mapping[str, Rendered]
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = typeset
    environment.filters["clauses"] = lambda findings: _clauses(findings, answer)
    look_of = looks([word.name for word in answer.words])
    return environment.get_template(REPORT_HTML).render(
        answer=answer,
        sections=sections,
        document=document,
        notes=[*runtime_notes(document), *document.notes],
        drawings={
            name: {layout: Markup(text) for layout, text in rendered.page.items()} for name, rendered in drawn.items()
        },
        plots=PLOTS,
        colours=css_variables(),
        word_colours={name: look.colour for name, look in look_of.items()},
        facts=_facts(document),
        environment=_environment(document),
        commands=commands(document),
    )


def _clauses(findings: Findings, answer: Answer) -> list[str]:
    """Returns what was found, as sentences under a heading; names of ways keep their first letter."""
    names = [word.name for word in answer.words]
    return [
        f"{clause if clause.split()[0] in names else clause[0].upper() + clause[1:]}." for clause in findings.clauses()
    ]


def typeset(text: str) -> str:
    """Returns the text with typographic apostrophes, and numbers kept with their units."""
    return keep_units(re.sub(r"(?<=\w)'(?=\w)", "\N{RIGHT SINGLE QUOTATION MARK}", text))


def _facts(document: Document | Simulation) -> str:
    """Returns the line under the title: when, where, how thorough."""
    settings, machine = document.settings, document.environment.machine
    began, ended = (datetime.fromisoformat(text) for text in (document.started, document.finished))
    if isinstance(document, Simulation):
        return f"{began:%Y-%m-%d %H:%M} · a model, computed; nothing was measured"
    repeats = sorted(set(settings["repeats"].values()))
    times = " to ".join(str(n) for n in dict.fromkeys((repeats[0], repeats[-1])))
    kind = "quick study" if settings["quick"] else "full study"
    return " · ".join(
        [
            f"{began:%Y-%m-%d %H:%M}",
            f"{kind}, each point {times} times, {_duration((ended - began).total_seconds())}",
            f"{machine.cpu_model or machine.architecture}, {machine.cpus_usable} CPUs",
            *dict.fromkeys(map(str, document.environment.file_systems)),
            *([settings["storage"]] if settings.get("storage") else []),
        ]
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _environment(document: Document | Simulation) -> list[tuple[str, list[str]]]:
    """Returns names and their lines, in the order to be read."""
    environment = document.environment
    machine, versions = environment.machine, environment.versions
    known = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in versions.items() if v is not None)
    always = [("Versions", [known]), ("Times", [f"{document.started} to {document.finished}"])]
    if isinstance(document, Simulation):
        return always
    storages = [f"{one.storage} by {one.engine}: {'; '.join(one.facts)}" for one in environment.storages or []]
    virtual = ", a virtual machine" if machine.virtual_machine else ""
    governor = machine.cpu_governor or "unknown"
    return [
        (
            "Machine",
            [
                f"{machine.cpu_model or 'unknown CPU'} ({machine.architecture}){virtual}",
                f"CPUs {machine.cpus_allowed} ({machine.cpus_usable} usable), governor: {governor}",
                f"{format_size(machine.memory_bytes)} of memory, pages of {format_size(machine.page_bytes)}",
            ],
        ),
        ("Kernel", [machine.kernel]),
        ("File systems", [_file_system(system) for system in environment.file_systems]),
        *([("Storages", storages)] if storages else []),
        ("Device and server", list(dict.fromkeys(map(_runtime, environment.runtimes)))),
        *always,
    ]


def _file_system(system: FileSystem) -> str:
    device = system.block_device
    line = str(system)
    if system.mount_point:
        line += f", mounted on {system.mount_point}"
    if system.options:
        line += f" ({system.options})"
    if device is None:
        return line
    model = f" {device.model}" if device.model else ""
    return f"{line}; disk {device.disk}{model}, driver {device.driver or 'unknown'}"


def _runtime(runtime: RuntimeInForce) -> str:
    shared = ", oversubscribed" if runtime.oversubscribed else ""
    where = f"CPUs {runtime.device_cpus}" if runtime.device == "cpu" else runtime.device
    return (
        f"device {where}, server CPUs {runtime.server_cpus}{shared}; "
        f"{runtime.storage_engine}; {runtime.arena_pages}; "
        f"{runtime.page_cache or 'no page cache in the device'}"
    )


def commands(document: Document | Simulation) -> list[str]:
    """Returns the lines that repeat the study."""
    revision = document.environment.versions["git_revision"]
    program = "ferry" if revision is None else "./ferry"
    lines = [f"{program} {shlex.join(document.command[1:])}"]
    if revision is not None and revision.endswith("-dirty"):
        base = revision.removesuffix("-dirty")
        lines.insert(0, f"git checkout {base}  # with changes that were not committed")
    elif revision is not None:
        lines.insert(0, f"git checkout {revision}")
    return lines
