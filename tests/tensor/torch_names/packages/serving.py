"""Runs programs one after the other, whose paths come in lines: what they print, and how they failed, go out as JSON.

Started by ``graphroot run``, so that all of them are programs that say ``import torch``. Loading the packages is most of what
each takes, and they are loaded once.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import tensor


def main() -> None:
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        os.chdir(path.parent)
        # Whatever ran before, a program draws the same random numbers.
        tensor.manual_seed(0)
        printed, error = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            try:
                runpy.run_path(str(path), run_name="__main__")
            except BaseException:
                error = traceback.format_exc()
        gc.collect()
        print(json.dumps([printed.getvalue(), error]), flush=True)


if __name__ == "__main__":
    main()
