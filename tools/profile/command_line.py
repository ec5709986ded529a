"""The command line of ``python -m tools.profile``: what to run, what to write, and what must not be."""

from __future__ import annotations

import json
import pickle
import sys
from typing import TYPE_CHECKING, Any

import nn
from drv import selection
from drv.simulator.timing.advice import METRICS
from tensor.cuda.memory_history import _record_memory_history, _snapshot
from tensor.profiler import ProfilerActivity, profile
from tools.counted import counted
from tools.run import arguments as arguments_
from tools.run.following import Followed
from tools.run.script import CannotRun, Script, become_torch

from . import options as options_
from .kernels import TOTALS, kernels_of, totals_of
from .limits import Limit
from .processes import lines_of
from .report import write_report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from drv import Runtime

#: The exit status when something is over a limit.
OVER = 86


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tools.profile") -> int:
    """Run the program that a command line names, report, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the name of the command; that of this process by default. ``--help`` lists the options.
    prog : str, default: "python -m tools.profile"
        What the command is called in messages.

    Returns
    -------
    int
        The script's own status; 86 where a figure is over a limit of ``--fail-over``; 2 if there is no such script.

    Raises
    ------
    SystemExit
        With status 2, if an option is unknown or has an impossible value, and with 0 after ``--help``.
    """
    parser = options_.parser(prog)
    options, target = arguments_.parse(parser, sys.argv[1:] if arguments is None else arguments)
    try:
        limits = [
            Limit.parse(text, [*METRICS, "launches", "total_us"], TOTALS) for text in options.fail_over or ()
        ]
    except ValueError as error:
        parser.error(f"--fail-over: {error}")
    if options.simulate is not None or options.model is not None:
        chosen = options.simulate or ""
        if options.model is not None and "model=" not in chosen:
            chosen = ",".join(filter(None, (f"model={options.model}", chosen)))
        arguments_.simulate(chosen)
    if options.as_torch and not become_torch(prog):
        return 2
    run = profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=options.memory or options.html is not None,
        with_stack=options.stacks,
        results=not options.sample,
    )
    script = Script(target, options.module is not None)
    watch = _Watch(run, snapshots=options.memory_snapshot is not None)
    selection.supervise(watch)
    children = Followed("tools.profile.processes:ProcessProfile", not options.sample)
    try:
        with run, children.following():
            script.run()
            watch.finish()
    except CannotRun as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    finally:
        selection.supervise(None)
    return _report(options, run, script, watch, children.reports, limits)


class _Watch:
    """Has the profile look at the devices of each driver that the script uses."""

    def __init__(self, run: profile, *, snapshots: bool) -> None:
        self._run = run
        self._snapshots = snapshots
        self.runtimes: list[Runtime] = []
        self.snapshot: Any = None

    def simulator_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """See :class:`drv.selection.Supervisor`."""
        return options

    def started(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        self.runtimes.append(runtime)
        if self._snapshots:
            _record_memory_history("all")
        self._run.watch_devices(runtime)

    def ending(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        if self._snapshots:
            self.snapshot = _snapshot()
        self._run.leave_devices()

    def finish(self) -> None:
        """The script has ended."""
        if self._snapshots and self.runtimes and self.runtimes[-1].alive:
            self.snapshot = _snapshot()


def _report(
    options: argparse.Namespace,
    run: profile,
    script: Script,
    watch: _Watch,
    processes: list[dict[str, Any]],
    limits: list[Limit],
) -> int:
    kernels, totals = kernels_of(run), totals_of(run)
    table = run.key_averages().table(sort_by=options.sort_by, row_limit=options.row_limit)
    print(table, file=sys.stderr)
    for kernel in kernels[:5]:
        if kernel.advice:
            print(
                f"\n{kernel.name} ({kernel.total_us:,.1f} us in {counted(len(kernel.launches), 'launch', 'launches')})",
                file=sys.stderr,
            )
            for sentence in kernel.advice:
                print(f"  {sentence}", file=sys.stderr)
    broken = [sentence for limit in limits for sentence in limit.broken_by(kernels, totals)]
    status = OVER if broken else script.status
    for line in lines_of(processes):
        print(f"profile: {line}", file=sys.stderr)
    if not watch.runtimes and not processes:
        print("profile: the script used no GPU (--simulate gives it one)", file=sys.stderr)
    for sentence in broken:
        print(f"profile: {sentence}", file=sys.stderr)
    content = {
        "version": 1,
        "command": list(options.module or options.script),
        "script_status": script.status,
        "status": status,
        "device_times": run.device_times,
        "drivers": [runtime.name for runtime in watch.runtimes],
        "totals": totals,
        "kernels": [kernel.record() for kernel in kernels],
        "over": broken,
        "processes": processes,
    }
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    if options.trace is not None:
        run.export_chrome_trace(str(options.trace))
    if options.memory_snapshot is not None:
        options.memory_snapshot.write_bytes(
            pickle.dumps(watch.snapshot or {"segments": [], "device_traces": []})
        )
    if options.html is not None:
        write_report(options.html, run, script.name, content)
    print(
        f"profile: {script.name} ended with status {script.status}; {counted(totals['launches'], 'launch', 'launches')}, "
        f"{totals['device_us']:,.1f} us of devices" + (f", {run.device_times}" if run.device_times else ""),
        file=sys.stderr,
    )
    return status


#: Its modules and optimizers are watched.
assert nn
