"""What people get wrong about masked trajectories."""

from rlcheck import masks as reference
from rlcheck.mistakes.registry import mistake


def _pairs(segments):
    reference.trajectory_mask_report(segments)
    return [(role, int(count)) for role, count in segments]


def _report(policy, total):
    fraction = (total - policy) / total if total else 0.0
    return reference.MaskReport(policy, total, fraction, total / policy if policy else 1.0)


def _counting(segments, roles):
    return sum(count for role, count in segments if role in roles)


@mistake("trajectory_mask_report", "inverts the dilution")
def inverts_the_dilution(segments):
    report = reference.trajectory_mask_report(segments)
    return report._replace(dilution_factor=1.0 / report.dilution_factor)


@mistake("trajectory_mask_report", "reports the policy's share as the masked fraction")
def reports_the_unmasked_fraction(segments):
    report = reference.trajectory_mask_report(segments)
    return report._replace(masked_fraction=report.policy_tokens / report.total_tokens)


@mistake("trajectory_mask_report", "divides the masked tokens by the policy's")
def takes_the_odds_for_a_fraction(segments):
    report = reference.trajectory_mask_report(segments)
    return report._replace(masked_fraction=report.dilution_factor - 1.0)


@mistake("trajectory_mask_report", "dilutes by the masked tokens instead of all tokens")
def dilutes_by_masked_tokens(segments):
    report = reference.trajectory_mask_report(segments)
    return report._replace(dilution_factor=report.dilution_factor - 1.0)


@mistake("trajectory_mask_report", "divides the integers without a remainder")
def divides_without_a_remainder(segments):
    report = reference.trajectory_mask_report(segments)
    return report._replace(dilution_factor=report.total_tokens // report.policy_tokens)


@mistake("trajectory_mask_report", "rounds to three digits")
def rounds_to_three_digits(segments):
    policy, total, masked, dilution = reference.trajectory_mask_report(segments)
    return reference.MaskReport(policy, total, round(masked, 3), round(dilution, 3))


@mistake("trajectory_mask_report", "reports the masked fraction in percent")
def reports_percent(segments):
    report = reference.trajectory_mask_report(segments)
    return report._replace(masked_fraction=100 * report.masked_fraction)


@mistake("trajectory_mask_report", "trains on the tool's results")
def counts_tool_tokens_as_policy(segments):
    pairs = _pairs(segments)
    return _report(_counting(pairs, ("assistant", "tool")), _counting(pairs, reference.ROLES))


@mistake("trajectory_mask_report", "trains on whatever is no prompt, observations included")
def counts_observations_as_policy(segments):
    pairs = _pairs(segments)
    roles = ("assistant", "observation", "environment")
    return _report(_counting(pairs, roles), _counting(pairs, reference.ROLES))


@mistake("trajectory_mask_report", "leaves the prompt out of the total")
def leaves_the_prompt_out(segments):
    pairs = _pairs(segments)
    prompts = ("system", "developer", "user")
    total = _counting(pairs, [role for role in reference.ROLES if role not in prompts])
    return _report(_counting(pairs, ("assistant",)), total)


@mistake("trajectory_mask_report", "leaves what tools and environment say out of the total")
def counts_the_chat_alone(segments):
    pairs = _pairs(segments)
    chat = ("system", "developer", "user", "assistant")
    return _report(_counting(pairs, ("assistant",)), _counting(pairs, chat))


@mistake("trajectory_mask_report", "counts segments instead of tokens")
def counts_segments(segments):
    pairs = _pairs(segments)
    return _report(sum(role == "assistant" for role, _ in pairs), len(pairs))


@mistake("trajectory_mask_report", "keeps the last segment of each role")
def keeps_one_segment_a_role(segments):
    pairs = _pairs(segments)
    return _report(dict(pairs)["assistant"], sum(dict(pairs).values()))


@mistake("trajectory_mask_report", "trains on the last answer alone")
def trains_on_the_last_answer(segments):
    pairs = _pairs(segments)
    answers = [count for role, count in pairs if role == "assistant" and count]
    return _report(answers[-1], _counting(pairs, reference.ROLES))


@mistake(
    "trajectory_mask_report",
    "trains on the whole span from the first answer to the last",
    report="OpenRLHF/OpenRLHF#1252",
)
def spans_from_first_to_last(segments):
    pairs = _pairs(segments)
    places = [i for i, (role, count) in enumerate(pairs) if role == "assistant" and count]
    span = pairs[places[0] : places[-1] + 1]
    return _report(_counting(span, reference.ROLES), _counting(pairs, reference.ROLES))


@mistake("trajectory_mask_report", "cuts off what follows the last answer")
def cuts_the_tail_off(segments):
    pairs = _pairs(segments)
    places = [i for i, (role, count) in enumerate(pairs) if role == "assistant" and count]
    head = pairs[: places[-1] + 1]
    return _report(_counting(head, ("assistant",)), _counting(head, reference.ROLES))


@mistake("trajectory_mask_report", "averages the dilution over the answers")
def averages_over_answers(segments):
    report = reference.trajectory_mask_report(segments)
    answers = [count for role, count in _pairs(segments) if role == "assistant" and count]
    mean = sum(report.total_tokens / count for count in answers) / len(answers)
    return report._replace(dilution_factor=mean)


@mistake("trajectory_mask_report", "masks the role that it does not know")
def masks_unknown_roles(segments):
    known = [(role if role in reference.ROLES else "tool", count) for role, count in segments]
    return reference.trajectory_mask_report(known)


@mistake("trajectory_mask_report", "reads the roles in any case")
def ignores_case(segments):
    lowered = [(r.lower() if isinstance(r, str) else r, count) for r, count in segments]
    return reference.trajectory_mask_report(lowered)


@mistake("trajectory_mask_report", "lets a negative count subtract tokens")
def subtracts_negative_counts(segments):
    if all(isinstance(count, int) for _, count in segments):
        policy = _counting(segments, ("assistant",))
        if policy and all(role in reference.ROLES for role, _ in segments):
            return _report(policy, sum(count for _, count in segments))
    return reference.trajectory_mask_report(segments)


@mistake("trajectory_mask_report", "finds no dilution where the policy wrote nothing")
def accepts_a_silent_policy(segments):
    pairs = [*segments, ("assistant", 1)]
    report = reference.trajectory_mask_report(pairs)
    return _report(report.policy_tokens - 1, report.total_tokens - 1)


@mistake("trajectory_mask_report", "cuts counts to integers")
def cuts_counts(segments):
    cut = [(r, int(n) if isinstance(n, float) and abs(n) < 1e9 else n) for r, n in segments]
    return reference.trajectory_mask_report(cut)


@mistake("trajectory_mask_report", "refuses an empty segment")
def refuses_empty_segments(segments):
    if any(count == 0 for _, count in segments):
        raise ValueError("a segment has no tokens")
    return reference.trajectory_mask_report(segments)


@mistake("trajectory_mask_report", "sorts the segments that it was given")
def sorts_in_place(segments):
    report = reference.trajectory_mask_report(segments)
    if isinstance(segments, list):
        segments.sort(key=lambda segment: segment[0])
    return report
