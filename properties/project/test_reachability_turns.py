"""The strategies of turns, groups, masks and rollouts reach the corners that their laws need."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.strategies import SearchStrategy

from properties.project.reach import reaches
from properties.test_groups import ENDS, RARE, SURE, success_probabilities
from properties.test_masks import segments
from properties.test_rollouts import (
    ENDINGS,
    FAULTS_BY_PLACE,
    busy_sequences,
    fault_sets,
    rollouts,
    sequences,
    stops,
)
from properties.test_turns import (
    ACTIONS,
    dyadic_turns,
    far_turns,
    languages,
    scored_turns,
    turns,
)

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed


def assert_reached(
    strategy: SearchStrategy[Any], at_least: int, *corners: Callable[[Any], Any]
) -> None:
    """Each corner holds for so many of the values drawn in one pass."""
    hits = [0] * len(corners)

    def look(value: Any) -> None:
        for number, corner in enumerate(corners):
            hits[number] += bool(corner(value))

    reaches(strategy, look)
    assert [number for number, count in enumerate(hits) if count < at_least] == []


def test_turns_reach_single_certain_and_underflowing_tokens():
    assert_reached(
        turns(),
        5,
        lambda turn: len(turn) == 1,
        lambda turn: len(turn) >= 6,
        lambda turn: 0.0 in turn,
        lambda turn: math.exp(sum(turn)) == 0.0,
        lambda turn: len(set(turn)) < len(turn),
    )


def test_dyadic_turns_reach_certain_and_near_certain_turns():
    assert_reached(
        dyadic_turns(),
        5,
        lambda turn: math.prod(turn) == 1.0,
        lambda turn: 0.5 < math.prod(turn) < 1.0,
        lambda turn: math.prod(turn) < 1e-3,
    )


def test_scored_turns_reach_no_tokens_equal_policies_and_both_directions():
    assert_reached(
        scored_turns(),
        5,
        lambda turn: len(turn.current) == 1,
        lambda turn: turn.current and turn.log_ratio == 0,
        lambda turn: turn.log_ratio > 0,
        lambda turn: turn.log_ratio < 0,
    )
    assert_reached(scored_turns(), 1, lambda turn: not turn.current)


def test_far_turns_reach_both_ends_and_cancellation():
    assert_reached(
        far_turns(),
        5,
        lambda turn: turn.log_ratio > 709,
        lambda turn: turn.log_ratio < -746,
        lambda turn: abs(turn.log_ratio) < 709 < turn.size < 1e9,
    )


def test_languages_reach_every_kind_of_string():
    assert_reached(
        languages(),
        5,
        lambda language: not language.probabilities,
        lambda language: language.calls,
        lambda language: None in language.meanings.values(),
        lambda language: len(language.meanings) < len(language.probabilities),
        lambda language: [*language.meanings.values()].count(language.action) > 1,
        lambda language: 0 < language.mass(language.action) < sum(language.probabilities.values()),
    )
    assert_reached(
        languages(),
        3,
        *(
            lambda language, a=action: language.action == a and language.mass(a) > 0
            for action in ACTIONS
            if action != "finish"
        ),
        lambda language: language.action == "finish",
    )


def test_success_probabilities_reach_both_ends_and_their_neighbourhoods():
    assert_reached(
        success_probabilities(),
        1,
        *(lambda p, end=end: p == end for end in (*ENDS, *RARE, *SURE, 0.5)),
    )


def test_segments_reach_every_place_of_the_policy():
    assert_reached(
        segments(),
        5,
        lambda drawn: len(drawn) == 1,
        lambda drawn: drawn[0][0] != "assistant" != drawn[-1][0],
        lambda drawn: [role for role, _ in drawn].count("assistant") > 1,
        lambda drawn: {role for role, _ in drawn} == {"assistant"},
        lambda drawn: any(count == 0 for _, count in drawn),
        lambda drawn: len(dict(drawn)) < len(drawn),
    )


def test_stops_reach_both_neither_and_each_collection():
    every = [(False, False), (True, False), (False, True), (True, True)]
    assert_reached(stops(), 20, *(lambda stop, f=flags: stop.flags == f for flags in every))


def test_rollouts_reach_every_ending_and_every_option():
    assert_reached(
        rollouts(), 1, *(lambda rollout, i=i: rollout.ending == i for i in range(len(ENDINGS)))
    )
    assert_reached(
        rollouts(),
        5,
        lambda rollout: len(rollout.turns) == 1,
        lambda rollout: len(rollout.turns) == 4,
        lambda rollout: rollout.text_keys,
        lambda rollout: rollout.slack == 0,
        lambda rollout: rollout.slack is None and rollout.learner_only,
        lambda rollout: any(turn.container is None for turn in rollout.turns),
        lambda rollout: any(turn.container == 2 for turn in rollout.turns),
        lambda rollout: any(sum(turn.eighths) == 0 for turn in rollout.turns),
        lambda rollout: len({turn.version for turn in rollout.turns}) > 1,
    )


def test_fault_sets_reach_every_place():
    assert_reached(
        fault_sets(),
        20,
        *(
            lambda faults, place=place: any(fault.place == place for fault in faults)
            for place in FAULTS_BY_PLACE
        ),
        lambda faults: len(faults) == 2,
        lambda faults: len(faults) >= 4,
    )


def test_sequences_reach_empty_square_and_gapped_batches():
    assert_reached(
        sequences(),
        5,
        lambda drawn: not drawn.rows,
        lambda drawn: drawn.rows and drawn.width == 0,
        lambda drawn: len(drawn.rows) == drawn.width > 1,
        lambda drawn: drawn.counts()[1] == 0,
        lambda drawn: any(row.flags == 3 for row in drawn.rows),
        lambda drawn: any(row.flags == 0 for row in drawn.rows),
        lambda drawn: any(drawn.active(b) and not row.mask & 1 for b, row in enumerate(drawn.rows)),
    )
    assert_reached(busy_sequences(), 5, lambda drawn: len(drawn.rows) == drawn.width)
