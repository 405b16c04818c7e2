"""A back end that misbehaves as its option says, for the tests of the child process."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from moeopt.backends.base import Claim


def why_not():
    return None


def version():
    return "0"


def run(model, *, options, on_incumbent=None, **_):
    how = options["how"]
    os.write(1, b"a banner\n")
    if how == "hang":
        on_incumbent(np.ones(model.num_columns), None)
        on_incumbent(np.zeros(model.num_columns), 0.5)
        tempfile.mkdtemp()
        child = subprocess.Popen(["sleep", "60"])
        Path(options["pids"]).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(60)
    elif how == "exit":
        os._exit(3)
    elif how == "crash":
        on_incumbent(np.zeros(model.num_columns), 0.5)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "bug":
        raise KeyError("a slip")
    elif how == "zeros":  # no incumbent, and zeros that look like one
        return Claim(outcome="optimal", values=np.zeros(model.num_columns), bound=0.0)
    elif how == "infeasible":
        return Claim(outcome="infeasible")
    elif how == "liar":
        return Claim(outcome="optimal", values=np.ones(model.num_columns), bound=float(options["bound"]))
    return Claim(outcome="stopped", values=np.zeros(model.num_columns), bound=0.0)
