"""Checking one run of a script: run it, forget it, look for what is left, report."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from tools.counted import counted
from tools.run.following import Followed
from tools.run.script import CannotRun, Script, become_torch

from . import report, sanitizer
from .options import parse
from .processes import together
from .watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .findings import Finding
    from .options import Options


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.memcheck") -> int:
    """Run the script that a command line names, report, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the tool; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.memcheck"
        What the tool is called in messages.

    Returns
    -------
    int
        The script's own status; 86, or what ``--error-exitcode`` says, if something was found; 2 if there is no such
        script.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, and with 0 after ``--help``.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments, prog)
    if options.sanitizer:
        return sanitizer.run(options)
    if options.as_torch and not become_torch("memcheck"):
        return 2
    script = Script(options.target, options.module)

    def run() -> int:
        script.run()
        return script.status

    try:
        return checked(options, script.name, run, script.forget)
    except CannotRun as error:
        print(f"memcheck: {error}", file=sys.stderr)
        return 2


def checked(
    options: Options, name: str, run: Callable[[], int], forget: Callable[[], None] = lambda: None
) -> int:
    """Run a program, check it and the processes that it starts, and report; the exit status.

    Parameters
    ----------
    options : Options
        What to look for, and how.
    name : str
        What the user calls the program.
    run : function
        Runs it and returns its exit status, which is kept where nothing is found.
    forget : function
        Drops what the program has in this process, so that what is left is a leak.
    """
    blocking = os.environ.get("CUDA_LAUNCH_BLOCKING")
    watch = Watch(options, blocking)
    children = Followed("tools.memcheck.watching:Watch", options, blocking)
    # What is there by now is no garbage of the script's, and the collector need not look at it again in this process.
    gc.freeze()
    with watch.watching(), children.following():
        own_status = run()
        watch.settle()
        forget()
        watch.settle()
        if options.leak_check:
            watch.look_for_leaks()
    findings = together(watch, children.reports)
    status = options.error_exitcode if findings else own_status
    report.write(sys.stderr, findings, watch.sources, options.max_reports)
    summary = _summary(
        options, watch, f"{name} ended with status {own_status}", len(children.reports), findings
    )
    print(f"memcheck: {summary}", file=sys.stderr)
    if options.json is not None:
        report.write_json(
            options.json,
            findings,
            watch.sources,
            command=options.target,
            drivers=[runtime.name for runtime in watch.runtimes],
            script_status=own_status,
            status=status,
        )
    return status


def _summary(options: Options, watch: Watch, ended: str, processes: int, findings: Sequence[Finding]) -> str:
    phrases = [ended]
    if processes:
        phrases.append(
            f"{'a process' if processes == 1 else f'{processes} processes'} that it started used a GPU"
        )
    if not watch.runtimes and not processes:
        phrases.append(
            "it used no GPU" + ("" if options.simulate is not None else " (--simulate gives it one)")
        )
    elif watch.lost and options.leak_check:
        phrases.append("leaks were not looked for, as an error has lost the device's context")
    return f"{'; '.join(phrases)}; {counted(len(findings), 'error')}"
