"""The pytest plugin: `--impl`, `--gradients`, Hypothesis profiles, the header.

It is registered for everyone who has rlcheck installed and stays silent unless it is used: it
adds three options, and does the rest only where an implementation is chosen or the laws themselves
are collected.
"""

import os
import random
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rlcheck.grading.implementation import Implementation

KNOWN_VARIABLES = (
    "RLCHECK_IMPL",
    "RLCHECK_LANG",
    "RLCHECK_MODEL",
    "RLCHECK_PROFILE",
    "RLCHECK_SECRET",
)
MARKERS = (
    "fast: a law, or a test of the suite itself; seconds",
    "slow: trains agents or repeats the kill matrix over many seeds; minutes",
    "notebook: executes a notebook",
)
PROFILES = {"fast": 100, "thorough": 1000, "grading": 100}

IMPLEMENTATION = pytest.StashKey["Implementation"]()
_RESOURCES = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --impl, --tensors and --gradients."""
    group = parser.getgroup("rlcheck")
    group.addoption(
        "--impl",
        metavar="TARGET",
        help="what the laws of rlcheck judge: a file, a package folder, a dotted module or an "
        "entry point's name (default: RLCHECK_IMPL, [tool.rlcheck] impl, rlcheck itself)",
    )
    group.addoption(
        "--tensors",
        action="store_true",
        help="call what --impl names with PyTorch tensors in place of arrays and lists",
    )
    group.addoption(
        "--gradients",
        action="store_true",
        help="judge the gradients of its answers too; implies --tensors",
    )


def is_used(config: pytest.Config) -> bool:
    """Whether this run has to do with the laws."""
    from rlcheck.grading.laws import folder

    laws = folder()
    named = [str(arg).partition("::")[0] for arg in config.args]
    paths = [(config.invocation_params.dir / name).resolve() for name in named]
    return (
        bool(config.getoption("--impl"))
        or any(name.startswith("rlcheck.properties") for name in named)
        or any(laws.is_relative_to(path) or path.is_relative_to(laws) for path in paths)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register rlcheck's Hypothesis profiles, choose one, and fix the seed that is reported."""
    if not is_used(config):
        return
    from hypothesis import HealthCheck, Phase, settings

    for name, examples in PROFILES.items():
        # Ours from top to bottom: under CI=1 Hypothesis's own profile would derandomise.
        settings.register_profile(
            name,
            settings.get_profile("default"),
            max_examples=examples,
            database=None,
            deadline=None,
            derandomize=False,
            # Without Phase.explain, which traces every line of every example.
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            print_blob=True,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.function_scoped_fixture,
                HealthCheck.differing_executors,
            ],
        )
    profile = os.environ.get("RLCHECK_PROFILE", "fast")
    if profile not in PROFILES:
        raise pytest.UsageError(
            f"RLCHECK_PROFILE is {profile!r}; it must be one of {', '.join(PROFILES)}"
        )
    if not config.getoption("--hypothesis-profile", None):
        config.option.hypothesis_profile = profile
    if not config.getoption("--hypothesis-seed", None):
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    implementation(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the laws as fast; keep tests of rlcheck itself out of a run that judges others."""
    if not is_used(config):
        return
    from rlcheck.grading.implementation import REFERENCE
    from rlcheck.grading.laws import folder

    laws = folder()
    for item in items:
        if item.path.parent in (laws, laws / "gradients"):
            item.add_marker(pytest.mark.fast)
    if config.stash[IMPLEMENTATION].target == REFERENCE:
        return
    _expect(config, items)
    dropped = [item for item in items if _is_left_out(item.path, config)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what is left out, unless it is named: it may need more than the laws."""
    return True if is_used(config) and _is_left_out(collection_path, config) else None


def _is_left_out(path: Path, config: pytest.Config) -> bool:
    """Whether a file or folder has nothing to do with the implementation that is judged."""
    from rlcheck.grading.implementation import REFERENCE
    from rlcheck.grading.laws import folder

    laws = folder()
    if config.stash[IMPLEMENTATION].target == REFERENCE or not path.is_relative_to(laws):
        return False
    left_out = [laws / "project", *laws_of_environments(laws)]
    if not config.getoption("--gradients"):
        left_out.append(laws / "gradients")
    return any(path.is_relative_to(other) for other in left_out)


def _expect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the laws of [tool.rlcheck.expected_failures] as strict expected failures."""
    from rlcheck.catalogue import FUNCTIONS
    from rlcheck.grading.implementation import configured
    from rlcheck.grading.laws import laws_of

    expected = configured(config.invocation_params.dir)[1].get("expected_failures", {})
    both = [laws_of(f, gradients=g) for f in FUNCTIONS.values() if expected for g in (False, True)]
    unknown = expected.keys() - {law.id for laws in both for law in laws}
    if unknown:
        raise pytest.UsageError(f"[tool.rlcheck.expected_failures]: no law is {min(unknown)!r}")
    for item in items:
        law = getattr(getattr(item, "function", None), "law", None)
        if law is not None and law.id in expected:
            item.add_marker(pytest.mark.xfail(reason=expected[law.id], strict=True))


def laws_of_environments(laws: Path) -> list[Path]:
    """The files of laws that judge an environment of rlcheck's, never an implementation."""
    from rlcheck.catalogue import MODULES

    of_modules = {f"test_{module}.py" for module in MODULES}
    return [path for path in sorted(laws.glob("test_*.py")) if path.name not in of_modules]


def implementation(config: pytest.Config) -> "Implementation":
    """What this run is pointed at; loaded once."""
    if IMPLEMENTATION not in config.stash:
        from rlcheck.grading.implementation import choose, load
        from rlcheck.grading.submission import CannotLoad

        resources = ExitStack()
        option = config.getoption("--impl")
        try:
            target = choose(option, config.invocation_params.dir)
            tensors = config.getoption("--tensors") or config.getoption("--gradients")
            if tensors and find_spec("torch") is None:
                raise pytest.UsageError("--tensors and --gradients need PyTorch")
            loaded = resources.enter_context(load(target, tensors=tensors))
            config.stash[IMPLEMENTATION] = loaded
        except CannotLoad as error:
            raise pytest.UsageError(f"{option or 'the implementation to judge'}: {error}") from None
        config.stash[_RESOURCES] = resources
        if not config.stash[IMPLEMENTATION].provides:
            # Every law would be skipped, and the run would look as if all of them held.
            raise pytest.UsageError(f"{target} defines none of rlcheck's functions")
    return config.stash[IMPLEMENTATION]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is judged, with which seed and profile, and how it is isolated."""
    if not is_used(config):
        return []
    loaded = implementation(config)
    version = f" {loaded.version}" if loaded.version else ""
    lines = [
        f"rlcheck: judging {loaded.target}{version} at {loaded.location} ({loaded.isolation})",
        f"rlcheck: hypothesis profile {config.getoption('--hypothesis-profile')}, "
        f"seed {config.getoption('--hypothesis-seed')}",
    ]
    unknown = [n for n in os.environ if n.startswith("RLCHECK_") and n not in KNOWN_VARIABLES]
    lines += [f"rlcheck: warning: {name} is no variable of rlcheck" for name in sorted(unknown)]
    return lines


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the worker process, where there is one."""
    resources = config.stash.get(_RESOURCES, None)
    if resources is not None:
        resources.close()


@pytest.fixture(scope="session")
def rlcheck_implementation(pytestconfig: pytest.Config) -> "Implementation":
    """The implementation that the laws judge."""
    return implementation(pytestconfig)
