"""Nothing of the machine, its user or the environment gets into what is printed or written."""

from __future__ import annotations

import getpass
import io
import json
import os
import socket
import zipfile
from pathlib import Path

import pytest

from tests.fuzz.kinds import run
from tests.hardening.verbs import CALLS, prepare

SEEDED = {
    "USER": "zebra-user", "LOGNAME": "zebra-user", "HOSTNAME": "zebra-host", "HF_TOKEN": "hf_zebra",
    "AWS_SECRET_ACCESS_KEY": "aws-zebra", "SSH_AUTH_SOCK": "/run/zebra", "VIRTUAL_ENV": "/opt/zebra",
}  # fmt: skip


def content(path: Path) -> str:
    """All there is to read in a file, within archives too."""
    data = path.read_bytes()
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = b"\n".join(archive.read(name) for name in archive.namelist())
    return data.decode("utf-8", "replace")


def test_no_verb_says_whose_machine_this_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import font_manager  # its own cache of fonts stays where it is

    assert font_manager.fontManager
    home, folder = tmp_path / "zebra-home", tmp_path / "zebra-work"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    for name, value in SEEDED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(socket, "gethostname", lambda: "zebra-host")
    prepare(folder)
    known = set(folder.rglob("*"))
    said = {}
    for name, line in CALLS.items():
        code, text = run(*line.split(), *(["-v"] if name in ("place", "compare") else []))
        assert code == 0, (name, text)
        said[name] = text
        if " -o " in line and name.split()[0] not in ("bench", "generate", "compare", "convert", "replay"):
            code, text = run(*line.split(" -o ")[0].split(), "--json")
            said[f"{name} --json"] = text if code in (0, 2) else pytest.fail(text)
    made = [path for path in folder.rglob("*") if path.is_file() and path not in known]
    assert len(made) > 25
    texts = said | {path.name: content(path) for path in made}
    words = ["zebra", str(tmp_path), str(Path(__file__).parents[2]), *os.uname()[1:2]]
    user = getpass.getuser()
    for where, text in texts.items():
        found = [word for word in words if word.lower() in text.lower()]
        assert not found, (where, found, text[max(0, text.lower().find(found[0].lower()) - 80) :][:200])
        assert f"/{user}/" not in text and f"/home/{user}" not in text, where
    document = json.loads(texts["place.json"])
    assert "platform" not in document and set(document["versions"]) <= {"moeopt", "numpy", "python", "scipy", "numba"}
    assert not list(home.rglob("*.json")) and not list(folder.rglob(".moeopt.*"))
