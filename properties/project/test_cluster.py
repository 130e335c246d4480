"""A class graded on a cluster: a local Ray gives the results that this machine's cores give."""

from pathlib import Path

import pytest

from rlcheck.grading.classes import Settings, grade_class
from rlcheck.grading.crowd import Cluster, Cores
from rlcheck.grading.roster import submissions_in

pytestmark = pytest.mark.slow

pytest.importorskip("ray")

SUBMISSION = "def discounted_td_sum(deltas, gamma):\n    return {}\n"
LIMITS = (("examples", 5), ("seed", 2), ("call_seconds", 0.5))
WRONG = ("0.0", "gamma", "sum(deltas)", "1 / 0", "[0 for _ in iter(int, 1)]")


@pytest.fixture(scope="module")
def submissions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    for number, answer in enumerate(WRONG):
        (folder / f"student_{number}.py").write_text(SUBMISSION.format(answer))
    return submissions_in([str(folder)])


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_local_cluster_gives_the_same_results_in_the_same_order(
    submissions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    # A student's module of the grader's own name, in the folder that the run is started from.
    (tmp_path / "rlcheck.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    settings = Settings(only=("discounted_td_sum",), options=LIMITS)
    here = grade_class(submissions, settings, tmp_path / "here", Cores(2))
    there = grade_class(submissions, settings, tmp_path / "there", Cluster())
    assert there.complete
    assert there.graded == len(WRONG)
    told = [[(s.name, s.score, s.problem) for s in r.submissions] for r in (here, there)]
    assert told[0] == told[1]
    assert [law.id for law in here.laws] == [law.id for law in there.laws]
