"""PYPROJECT VERSION FOLDER: writes the metadata of an installed distribution, without a build backend."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
folder = Path(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
fields = [
    ("Metadata-Version", "2.1"),
    ("Name", project["name"]),
    ("Version", sys.argv[2]),
    ("Summary", project["description"]),
    ("License", project["license"]),
    ("Requires-Python", project["requires-python"]),
    *(("Requires-Dist", one) for one in project["dependencies"]),
]
(folder / "METADATA").write_text("".join(f"{name}: {value}\n" for name, value in fields))
groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
(folder / "entry_points.txt").write_text(
    "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in groups.items()
    )
)
