"""`deepgemm demo`: sentence embeddings of a real language model, every Linear in FP8."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from deepgemm.cli.exits import FAILED, WELL, WRONG_USE, count

T = TypeVar("T")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "demo",
        help="run a real small language model with every Linear in FP8, and check it",
        description=__doc__,
    )
    parser.add_argument(
        "--device",
        choices=["auto", "cpu", "torch", "own"],
        default="auto",
        help="auto: the GPU if there is one, with PyTorch's tensors if it is installed; "
        "own: the GPU without a framework",
    )
    parser.add_argument("--random", action="store_true", help="random weights, even if real exist")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(run=run)


class Console:
    """Prints for people; silent with --json."""

    def __init__(self, quiet: bool) -> None:
        """Print unless `quiet`."""
        self.quiet = quiet

    def say(self, text: str = "") -> None:
        """Print a line."""
        if not self.quiet:
            print(text, flush=True)

    def step(self, what: str, action: Callable[[], T]) -> T:
        """Do it, showing what is being done and then how long it took."""
        if not self.quiet:
            print(f"{what} ... ", end="", flush=True)
        start = time.perf_counter()
        result = action()
        self.say(f"{time.perf_counter() - start:.2f} s")
        return result


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 if every check held, 1 if one did not, 2 if it cannot run here."""
    from deepgemm import Error
    from deepgemm.demo import devices, model

    console = Console(args.json)
    try:
        place = devices.find_place(args.device)
    except (Error, ImportError) as error:
        print(f"deepgemm demo: {error}", file=sys.stderr)
        return WRONG_USE
    console.say("deepgemm demo: sentence embeddings with every Linear as an FP8 product")
    console.say(f"device: {place.name}")
    if args.random:
        chosen = model.random_model([])
    else:
        chosen = console.step("reading the model", model.load)
    describe_model(console, chosen)
    return show(console, chosen, place, as_json=args.json)


def describe_model(console: Console, chosen: Any) -> None:
    """Say what is being run, and how to get the real thing if it is not."""
    from deepgemm.demo import model

    tokens = sum(len(ids) for ids in chosen.tokens)
    if chosen.missing:
        console.say(f"not installed: {', '.join(chosen.missing)}; using random matrices instead.")
        console.say("For the real model:")
        for command in model.install_commands(chosen.missing):
            console.say(f"  {command}")
    console.say(
        f"model: {chosen.name}, {count(chosen.layers, 'layer')}, hidden {chosen.hidden}; "
        f"{count(len(chosen.sentences), 'sentence')}, {count(tokens, 'token')}"
    )


def compute(console: Console, chosen: Any, place: Any) -> Any:
    """Encode the sentences in every way; return the `report.Outcome`."""
    import numpy as np

    from deepgemm.demo import encoder, linear, report

    def encode(kind: Any, dtype: type) -> Any:
        return encoder.encode(chosen, chosen.tokens, kind, dtype)

    plain = console.step(
        "FP32 model in NumPy", lambda: encode(linear.Float32Linear(chosen), np.float32)
    )
    fp8 = linear.Fp8Linear(chosen, place)
    found = console.step(
        "FP8 with deepgemm (with quantising, checking and any compile)",
        lambda: encode(fp8, np.float32),
    )
    in_step = linear.EmulationInStep(chosen, fp8.inputs)
    replayed = console.step("FP8 emulated in FP64", lambda: encode(in_step, np.float64))
    free = console.step(
        "FP8 emulated in FP64, free", lambda: encode(linear.EmulatedLinear(chosen), np.float64)
    )
    return report.Outcome(
        records=list(fp8.records.values()),
        fp32=report.cosines(found, plain),
        free=report.cosines(found, free),
        in_step=report.cosines(found, replayed),
        unlike_definition=fp8.unlike_definition,
        rounded_otherwise=in_step.rounded_otherwise / max(in_step.rounded, 1),
    )


def show(console: Console, chosen: Any, place: Any, as_json: bool) -> int:
    """Compute, print and judge."""
    from deepgemm.demo import report

    outcome = compute(console, chosen, place)
    results = report.checks(chosen, outcome)
    failed = [check for check in results if not check.held]
    if as_json:
        print(json.dumps(as_dict(chosen, place, outcome, results), indent=2))
        return FAILED if failed else WELL
    console.say()
    console.say(report.layers_table(outcome.records))
    console.say(f"  (error: {report.ERROR}, worst call)")
    if place.on_gpu:
        console.say(
            "  (ms/call: median of calls to gemm from start to finish, kernels loaded before)"
        )
    else:
        console.say(
            "  (ms/call: median, of the CPU backend. The kernels are those that an H200 would\n"
            "  run; the step above includes their compilation)"
        )
    kernels = [record.kernel for record in outcome.records]
    for failure in sorted({str(kernel["failure"]) for kernel in kernels if "failure" in kernel}):
        console.say(f"  kernels were not compiled: {failure}")
    console.say()
    console.say(report.sentences_table(chosen, outcome))
    console.say(
        "  (FP64 emulation: with this run's FP8 values, all else in FP64. A free emulation\n"
        f"  rounds by itself; {outcome.rounded_otherwise:.1e} of its values differ, which spreads.)"
    )
    console.say()
    for check in failed:
        relation = "at least" if check.at_least else "at most"
        console.say(f"FAILED: {check.what} is {check.value:.6g}, need {relation} {check.bound:g}")
    console.say(f"{len(results) - len(failed)} of {len(results)} checks held")
    return FAILED if failed else WELL


def as_dict(chosen: Any, place: Any, outcome: Any, results: Any) -> dict[str, Any]:
    """Return the run as plain data."""
    sentences = zip(chosen.sentences, outcome.fp32, outcome.in_step, outcome.free, strict=True)
    return {
        "model": chosen.name,
        "real": chosen.real,
        "device": place.name,
        "layers": [vars(record) for record in outcome.records],
        "sentences": [
            {"text": text, "cosine_fp32": one, "cosine_emulation": two, "cosine_free": free}
            for text, one, two, free in sentences
        ],
        "rounded_otherwise": outcome.rounded_otherwise,
        "checks": [{**vars(check), "held": check.held} for check in results],
        "ok": all(check.held for check in results),
    }
