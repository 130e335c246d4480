"""What people get wrong in potential-based shaping."""

import numpy as np

from rlcheck import shaping as reference
from rlcheck.mistakes.registry import mistake
from rlcheck.mistakes.returns import is_float_array, powers


def as_floats(*vectors):
    return tuple(np.array(values, dtype=np.float64) for values in vectors)


# ---- potential_shaping ----------------------------------------------------------------------


@mistake(
    "potential_shaping",
    "adds the plain difference of potentials, as if γ were 1",
    report="anthonytorlucci/rlevo#646",
)
def shapes_without_discount(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    return reference.potential_shaping(rewards, potentials, 1.0)


@mistake(
    "potential_shaping",
    "pays the potential of the state that is reached",
    report="johnsutor/so101-nexus#123",
)
def pays_the_potential(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    r, phi = as_floats(rewards, potentials)
    return r + phi[1:]


@mistake("potential_shaping", "subtracts the gain in potential")
def subtracts_the_gain(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    return 2 * np.asarray(rewards, dtype=np.float64) - shaped


@mistake("potential_shaping", "discounts the potential of the state that is left as well")
def discounts_both_potentials(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    return reference.potential_shaping(rewards, gamma * np.asarray(potentials), 1.0)


@mistake("potential_shaping", "discounts the potential that is left instead of the one reached")
def discounts_the_wrong_potential(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    r, phi = as_floats(rewards, potentials)
    return r + phi[1:] - gamma * phi[:-1]


@mistake("potential_shaping", "takes the last potential for 0, as if every trajectory terminated")
def zeroes_the_last_potential(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    return reference.potential_shaping(rewards, [*potentials[:-1], 0.0], gamma)


@mistake("potential_shaping", "rolls the potentials, so that the first follows the last")
def rolls_the_potentials(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    return reference.potential_shaping(rewards, [*potentials[:-1], potentials[0]], gamma)


@mistake("potential_shaping", "adds the gain to the reward of the following step")
def shifts_the_gains(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    r = np.asarray(rewards, dtype=np.float64)
    return r + np.roll(shaped - r, 1)


@mistake("potential_shaping", "pays for progress only, never charges for a step back")
def pays_for_progress_only(rewards, potentials, gamma):
    return np.maximum(reference.potential_shaping(rewards, potentials, gamma), rewards)


@mistake("potential_shaping", "answers with the bonus alone")
def forgets_the_reward(rewards, potentials, gamma):
    reference.potential_shaping(rewards, potentials, gamma)
    return reference.potential_shaping(np.zeros(len(rewards)), potentials, gamma)


@mistake("potential_shaping", "leaves the last step without a bonus")
def forgets_the_last_bonus(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    shaped[-1:] = rewards[-1:]
    return shaped


@mistake("potential_shaping", "pays no bonus on a trajectory of one step")
def skips_single_steps(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    return shaped if len(shaped) > 1 else np.asarray(rewards, dtype=np.float64)


@mistake("potential_shaping", "discounts the bonus of step t by γ^t besides")
def discounts_the_bonus_by_time(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    r = np.asarray(rewards, dtype=np.float64)
    return r + powers(gamma, len(r)) * (shaped - r)


@mistake("potential_shaping", "computes in single precision")
def shapes_in_single_precision(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    return shaped.astype(np.float32).astype(np.float64)


@mistake("potential_shaping", "keeps the dtype of integer rewards")
def truncates_integer_bonuses(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    kind = np.asarray(rewards).dtype
    return shaped.astype(kind) if kind.kind == "i" else shaped


@mistake("potential_shaping", "answers the largest float where a reward is beyond float64")
def keeps_shaped_rewards_finite(rewards, potentials, gamma):
    return np.nan_to_num(reference.potential_shaping(rewards, potentials, gamma))


@mistake("potential_shaping", "adds the bonus to the caller's rewards in place")
def shapes_in_place(rewards, potentials, gamma):
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    if is_float_array(rewards):
        rewards[:] = shaped
    return shaped


@mistake("potential_shaping", "takes a missing last potential for 0")
def pads_the_potentials(rewards, potentials, gamma):
    if np.ndim(rewards) == np.ndim(potentials) == 1 and len(potentials) == len(rewards):
        potentials = [*potentials, 0.0]
    return reference.potential_shaping(rewards, potentials, gamma)


# ---- shaped_return_identity -----------------------------------------------------------------


@mistake("shaped_return_identity", "takes the prediction from the shaped rewards")
def predicts_from_the_shaped_rewards(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    shaped = reference.potential_shaping(rewards, potentials, gamma)
    return answer._replace(predicted=float(np.sum(powers(gamma, len(shaped)) * shaped)))


@mistake("shaped_return_identity", "predicts without the last potential")
def forgets_the_last_potential(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(predicted=answer.original - potentials[0])


@mistake("shaped_return_identity", "predicts without the first potential")
def forgets_the_first_potential(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(predicted=answer.original + gamma ** len(rewards) * potentials[-1])


def predicted_by(answer, weight, potentials):
    return answer._replace(predicted=answer.original + weight * potentials[-1] - potentials[0])


@mistake("shaped_return_identity", "predicts with an undiscounted last potential")
def predicts_without_discount(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return predicted_by(answer, 1.0, potentials)


@mistake("shaped_return_identity", "predicts with γ Φ_T for any number of steps")
def predicts_with_one_discount(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return predicted_by(answer, float(gamma), potentials)


@mistake("shaped_return_identity", "predicts with γ^(T−1) Φ_T")
def predicts_one_step_early(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return predicted_by(answer, float(gamma) ** max(len(rewards) - 1, 0), potentials)


@mistake("shaped_return_identity", "predicts with γ^(T+1) Φ_T")
def predicts_one_step_late(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return predicted_by(answer, float(gamma) ** len(potentials), potentials)


@mistake("shaped_return_identity", "predicts with the signs of the potentials exchanged")
def predicts_the_opposite_shift(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(predicted=2 * answer.original - answer.predicted)


@mistake("shaped_return_identity", "predicts the shift alone, without the return")
def predicts_the_shift_alone(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(predicted=answer.predicted - answer.original)


@mistake("shaped_return_identity", "predicts that shaping leaves the return as it is")
def predicts_the_original(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(predicted=answer.original)


@mistake("shaped_return_identity", "shapes with the plain difference of potentials")
def shapes_the_return_without_discount(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    shaped = reference.potential_shaping(rewards, potentials, 1.0)
    return answer._replace(shaped=float(np.sum(powers(gamma, len(shaped)) * shaped)))


@mistake("shaped_return_identity", "adds up the shaped rewards without a discount")
def sums_the_shaped_rewards(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(
        shaped=float(np.sum(reference.potential_shaping(rewards, potentials, gamma)))
    )


@mistake("shaped_return_identity", "takes the shaped return from the prediction")
def answers_with_the_prediction_twice(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    missing = float(gamma) ** len(rewards) * potentials[-1]
    return answer._replace(shaped=answer.predicted - missing, predicted=answer.predicted - missing)


@mistake("shaped_return_identity", "adds up the original rewards without a discount")
def original_without_discount(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(original=float(np.sum(as_floats(rewards))))


@mistake("shaped_return_identity", "answers with the shaped return first")
def exchanges_the_fields(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(original=answer.shaped, shaped=answer.original)


@mistake("shaped_return_identity", "computes in single precision")
def identity_in_single_precision(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return reference.ShapedReturns(*(float(np.float32(value)) for value in answer))


@mistake("shaped_return_identity", "rounds the returns of integer rewards down")
def truncates_integer_identity(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    if np.asarray(rewards).dtype.kind != "i":
        return answer
    return reference.ShapedReturns(*map(float, np.floor(answer)))


@mistake("shaped_return_identity", "answers NaN where the shaped return is beyond float64")
def gives_up_on_a_large_return(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    return answer._replace(shaped=answer.shaped if np.isfinite(answer.shaped) else np.nan)


@mistake("shaped_return_identity", "shapes the caller's rewards in place")
def identity_in_place(rewards, potentials, gamma):
    answer = reference.shaped_return_identity(rewards, potentials, gamma)
    if is_float_array(rewards):
        rewards[:] = reference.potential_shaping(rewards, potentials, gamma)
    return answer


@mistake("shaped_return_identity", "reads one potential a step and takes the one at the end for 0")
def expects_one_potential_a_step(rewards, potentials, gamma):
    if np.ndim(rewards) == np.ndim(potentials) == 1 and len(potentials) == len(rewards):
        potentials = [*potentials, 0.0]
    return reference.shaped_return_identity(rewards, potentials, gamma)
