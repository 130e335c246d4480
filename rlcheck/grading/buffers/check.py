"""Run the laws of replay buffers, of datasets or of slices against a kind of them."""

from collections.abc import Callable, Collection
from typing import Any

from rlcheck.grading.buffers import dataset_laws, ring_laws, row_laws, step_laws, window_laws
from rlcheck.grading.buffers.dataset_laws import OF_SAMPLES
from rlcheck.grading.buffers.datasets import Datasets
from rlcheck.grading.buffers.recording import Buffers
from rlcheck.grading.buffers.step_laws import OF_SEVERAL
from rlcheck.grading.buffers.window_laws import OF_SLICES, OF_STACKS, Windows
from rlcheck.grading.findings import LAW_SECONDS, Finding, laws_in, put_to
from rlcheck.grading.laws import Law

__all__ = ["EXAMPLES", "LAWS", "OF", "check_kind"]

EXAMPLES = 50  # each is several episodes
SHARE = 4  # a dataset is files: one example in so many
MODULES = {
    "Replay buffers": (row_laws, step_laws, ring_laws),
    "Datasets": (dataset_laws,),
    "Slices and stacks": (window_laws,),
}
OF = {title: [law for one in each for law in laws_in(one)] for title, each in MODULES.items()}
LAWS = {law.name: law.sentence for each in OF.values() for law in each}


def check_kind(
    kind: Callable[..., Any],
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    only: Collection[str] = (),
) -> list[Finding]:
    """What each law shows of a kind of replay buffer, of dataset, of slicer or of stacker.

    Args:
        kind: makes one; it is a buffer if it has `add`, a dataset if it has `write`, a slicer if it
            has `slices`, and a stacker if it has `stacks`. What these do is said in `recording`,
            `datasets` and `window_laws`.
        examples: drawn for each law; laws of datasets take a part of them.
        seed: of every draw.
        only: names of laws; none means all that apply.
    """
    maker, asked = _asked(kind)
    if isinstance(maker, Datasets):
        examples = max(1, examples // SHARE)
    asked = [law for law in asked if not only or law.name in only]
    return [put_to(maker, law, examples, seed, LAW_SECONDS) for law in asked]


def _asked(kind: Any) -> tuple[Any, list[Law]]:
    """What makes one, and the laws that apply."""
    maker: Any
    left_out: tuple[str, ...]
    if hasattr(kind, "add"):
        maker, name = Buffers(kind), "Replay buffers"
        left_out = () if maker.several else OF_SEVERAL
    elif hasattr(kind, "write"):
        maker, name = Datasets(kind), "Datasets"
        left_out = () if hasattr(kind, "sample") else OF_SAMPLES
    else:
        maker, name = Windows(kind), "Slices and stacks"
        left_out = OF_STACKS if hasattr(kind, "slices") else OF_SLICES
    return maker, [law for law in OF[name] if law.name not in left_out]
