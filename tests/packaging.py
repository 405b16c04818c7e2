"""Build wheel and sdist, install the wheel into empty environments, and use it there: ``python -m tests.packaging``.

Every Python that is found (3.11 or later, or ``--python``) gets an environment without extras and one for each extra.
Takes some minutes and a package index; what cannot be had is said, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAST, MOST = 11, 20
NO_INDEX = re.compile(r"No matching distribution|Could not find a version|Connection|Temporary failure|timed out", re.I)
LOADS = "layer,a,b,c,d,e,f\n0,9,7,5,3,2,1\n1,1,8,2,6,4,4\n"


class Unavailable(Exception):
    """Something that has to come from an index, and does not."""


def run(*words: object, cwd: Path, code: int = 0) -> str:
    """Standard output of a command that ends with this code; its own text in the error otherwise."""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, env=clean, timeout=1200, check=False
    )
    if done.returncode != code:
        said = done.stdout + done.stderr
        if "pip" in map(str, words) and NO_INDEX.search(said):
            raise Unavailable(said.strip().splitlines()[-1])
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{said}")
    return done.stdout if code == 0 else done.stderr


def environment(python: str, folder: Path, *packages: object) -> Path:
    """A new environment with these packages; its folder of programs."""
    run(python, "-m", "venv", folder, cwd=ROOT)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, cwd=folder)
    return programs


def built(folder: Path) -> tuple[Path, Path]:
    """Wheel and sdist, the wheel made from the sdist, so that this has everything."""
    source = folder / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout.decode()
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    for name in names or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    programs = environment(sys.executable, folder / "builder", "build")
    run(programs / "python", "-m", "build", "--outdir", folder / "dist", source, cwd=folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Data files are in both, tests in neither, and the metadata says what pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    data = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "moeopt").rglob("*")
        if path.suffix in (".json", ".typed", ".py")
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        (about,) = (name for name in inside if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(about).decode()
        assert any(name.endswith("licenses/LICENSE") for name in inside), "no licence in the wheel"
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert data <= inside, f"not in the wheel: {sorted(data - inside)}"
    assert data <= packed, f"not in the sdist: {sorted(data - packed)}"
    assert not any(name.startswith("tests") for name in inside), "tests are in the wheel"
    lines = metadata.partition("\n\n")[0].splitlines()
    for line in (
        f"Name: {project['name']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {one}" for one in project["classifiers"]),
        *(f"Provides-Extra: {one}" for one in project["optional-dependencies"]),
    ):
        assert line in lines, f"{line} is not in the metadata"
    machine = [line for line in lines if re.search(r"/(work|home|root|tmp)/|localhost", line)]
    assert not machine, f"names of a machine: {machine}"


def use(programs: Path, folder: Path, version: str) -> None:
    """What somebody does first: plan, check, look at a topology, ask for a mesh, make a report."""
    moeopt = programs / "moeopt"
    (folder / "loads.csv").write_text(LOADS)
    shutil.copy(ROOT / "tests" / "data" / "topologies" / "slurm_tree.conf", folder)
    assert run(moeopt, "--version", cwd=folder).strip() == f"moeopt {version}"
    shape = ("loads.csv", "--gpus", 3, "--slots", 9)
    run(moeopt, "place", *shape, "--method", "lpt", "-o", "plan.json", cwd=folder)
    assert "ok" in run(moeopt, "verify", "plan.json", "loads.csv", cwd=folder)
    assert "768 in 96 nodes" in run(moeopt, "inspect", "slurm_tree.conf", "--machine", "h100", cwd=folder)
    asked = ("--llm", "mixtral-8x7b", "--gpu", "h200:8", "--tpot", "50ms", "--families", "colocated", "--most-pp", 1)
    assert "requests/s" in run(moeopt, "mesh", *asked, cwd=folder)
    run(moeopt, "compare", *shape, "--methods", "eplb,lpt", "-o", "report.html", cwd=folder)
    assert "</html>" in (folder / "report.html").read_text(encoding="utf-8")
    where = run(programs / "python", "-c", "import moeopt; print(moeopt.__file__)", cwd=folder)
    assert str(programs.parent) in where, f"not the installed one: {where}"
    typed = "import importlib.resources as r; print(r.files('moeopt').joinpath('py.typed').is_file())"
    assert run(programs / "python", "-c", typed, cwd=folder).strip() == "True"


def use_nothing(programs: Path, folder: Path) -> None:
    """What an extra would do is refused with the command that installs it."""
    (folder / "loads.parquet").write_bytes(b"PAR1")
    said = run(programs / "moeopt", "inspect", "loads.parquet", cwd=folder, code=2)
    assert "moeopt[parquet]" in said, said


def use_fast(programs: Path, folder: Path) -> None:
    check = "from moeopt.kernels._jit import has_numba; assert has_numba()"
    run(programs / "python", "-c", check, cwd=folder)
    limited = ("--gpus", 3, "--slots", 9, "--time-limit", "5s", "--json")
    run(programs / "moeopt", "place", "loads.csv", *limited, cwd=folder)


def use_parquet(programs: Path, folder: Path) -> None:
    made = (
        "import pyarrow as a, pyarrow.parquet as p\n"
        "p.write_table(a.table({'layer': [0, 0], 'expert': [0, 1], 'count': [5, 7]}), 'loads.parquet')"
    )
    run(programs / "python", "-c", made, cwd=folder)
    run(programs / "moeopt", "place", "loads.parquet", "--gpus", 2, "--slots", 2, "--method", "lpt", cwd=folder)


def use_dask(programs: Path, folder: Path) -> None:
    (folder / "grid.yaml").write_text(
        "policies: [lpt]\nshapes: {g: {gpus: 3, slots: 9}}\n"
        "loads: {z: {generator: zipf, layers: 1, experts: 6, top_k: 2}}\n"
    )
    made = (
        "from distributed import LocalCluster\nimport subprocess, sys\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:\n"
        "        words = [sys.executable, '-m', 'moeopt', 'bench', 'grid.yaml', '-o', 'cells', '--executor']\n"
        "        subprocess.run([*words, f'dask:{cluster.scheduler_address}'], check=True)\n"
    )
    (folder / "on_dask.py").write_text(made)
    run(programs / "python", "on_dask.py", cwd=folder)
    assert list((folder / "cells").rglob("*.json"))


def use_test(programs: Path, folder: Path) -> None:
    run(programs / "python", "-c", "import hypothesis, mypy, pytest, ruff, xdist", cwd=folder)


EXTRAS: dict[str, Callable[[Path, Path], None]] = {
    "": use_nothing,
    "fast": use_fast,
    "parquet": use_parquet,
    "dask": use_dask,
    "test": use_test,
}
"""What is done besides with each extra; ``""`` is none."""


def pythons(wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pythons that run, and their versions: those named, else this one and the newest on the path."""
    named = [*wanted] or [sys.executable, *(f"python3.{minor}" for minor in range(MOST, LEAST - 1, -1))]
    seen: dict[str, str] = {}
    for name in named:
        program = shutil.which(name)
        asked = [program or name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            version = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            if wanted:
                raise
            continue
        seen.setdefault(version, str(program or name))
    chosen = list(seen) if wanted else [*list(seen)[:1], *sorted(list(seen)[1:], key=_order)[-1:]]
    yield from ((seen[version], version) for version in chosen)


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def main() -> int:
    """How it went."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="a Python to install into; may be repeated")
    parser.add_argument("--extra", action="append", choices=list(EXTRAS), help="only these; '' is without extras")
    given = parser.parse_args()
    version = run(sys.executable, "-c", "from moeopt._version import __version__; print(__version__)", cwd=ROOT).strip()
    missing = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        try:
            wheel, sdist = built(folder)
        except Unavailable as error:
            print(f"not built, for what builds cannot be had: {error}")
            return 1
        check_contents(wheel, sdist)
        print(f"built      {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB), {sdist.name}", flush=True)
        for python, name in pythons(given.python):
            for extra in given.extra or EXTRAS:
                title = f"Python {name}, {f'extra {extra}' if extra else 'no extras'}"
                place = folder / f"{name}-{extra}"
                try:
                    programs = environment(python, place, f"{wheel}[{extra}]" if extra else wheel)
                except Unavailable as error:
                    print(f"not had    {title}: {error}", flush=True)
                    missing += 1
                    continue
                work = place / "work"
                work.mkdir()
                use(programs, work, version)
                EXTRAS[extra](programs, work)
                print(f"works      {title}", flush=True)
                shutil.rmtree(place)
    if missing:
        print(f"{missing} could not be tried")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
