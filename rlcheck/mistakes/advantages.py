"""What people get wrong in advantages and λ-returns."""

from types import SimpleNamespace

import numpy as np

from rlcheck import advantages as reference
from rlcheck.mistakes.registry import mistake


class Steps(SimpleNamespace):
    """The arguments of a stream, checked by the reference, as arrays with time last."""

    def __init__(self, rewards, values, next_values, gamma, lam, terminated, truncated):
        reference.generalized_advantages(
            *(rewards, values, next_values, gamma, lam), terminated=terminated, truncated=truncated
        )
        r, v, after = (np.array(x, float) for x in (rewards, values, next_values))
        term, trunc = np.array(terminated, float) != 0, np.array(truncated, float) != 0
        super().__init__(r=r, v=v, after=np.where(term, 0.0, after), raw=after, term=term)
        self.trunc, self.ended, self.gamma, self.lam = trunc, term | trunc, float(gamma), float(lam)

    @property
    def deltas(self):
        return self.r + self.gamma * self.after - self.v

    @property
    def decay(self):
        return np.where(self.ended, 0.0, self.gamma * self.lam)

    def ask(self, function, **changed):
        """The reference's answer for these steps, with some of them changed."""
        now = SimpleNamespace(**{**vars(self), **changed})
        flags = {"terminated": now.term, "truncated": now.trunc}
        return function(now.r, now.v, now.after, now.gamma, now.lam, **flags)


def swept(deltas, decay):
    """A_t = δ_t + c_t A_{t+1} along the last axis."""
    out, carry = np.zeros(np.shape(deltas)), np.zeros(np.shape(deltas)[:-1])
    for t in range(np.shape(deltas)[-1] - 1, -1, -1):
        carry = out[..., t] = deltas[..., t] + decay[..., t] * carry
    return out


def moved(array, by, fill=0.0):
    """The array shifted along time: by 1, each step gets what its predecessor had."""
    out = np.full_like(array, fill)
    if by > 0:
        out[..., by:] = array[..., :-by]
    else:
        out[..., :by] = array[..., -by:]
    return out


def following(s):
    """V_{t+1} of the next row of the stream, and V' at its end."""
    out = moved(s.v, -1)
    out[..., -1:] = s.after[..., -1:]
    return out


def in_bfloat16(number):
    bits = np.float32(number).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return float(rounded.view(np.float32))


def is_square(array):
    return array.ndim == 2 and array.shape[0] == array.shape[1]


def integer_kind(array):
    dtype = getattr(array, "dtype", np.dtype(float))
    return dtype if dtype.kind == "i" else np.dtype(float)


# ---- mistakes of streams, in advantages and λ-returns alike ---------------------------------
#
# Each is written once, as what becomes of the advantages of `s`; the λ-return adds the values.

BOTH = ("generalized_advantages", "lambda_returns")


def stream_mistake(description, *, report=None, of=BOTH):
    """Declare a function of `Steps` that answers advantages as a mistake."""

    def declare(variant):
        def advantages(
            rewards, values, next_values, gamma, lam, *, terminated=None, truncated=None
        ):
            return variant(Steps(rewards, values, next_values, gamma, lam, terminated, truncated))

        def plus_values(
            rewards, values, next_values, gamma, lam, *, terminated=None, truncated=None
        ):
            s = Steps(rewards, values, next_values, gamma, lam, terminated, truncated)
            return variant(s) + s.v

        for name, call in zip(BOTH, (advantages, plus_values), strict=True):
            if name in of:
                call.__name__ = variant.__name__
                mistake(name, description, report=report)(call)
        return variant

    return declare


@stream_mistake(
    "takes a time limit for a true ending",
    report="Toni-SM/skrl#449, Toni-SM/skrl#438",
)
def takes_time_limits_for_deaths(s):
    return s.ask(reference.generalized_advantages, term=s.ended)


@stream_mistake(
    "lets the trace run through time limits into the next episode",
    report="Toni-SM/skrl#449, Toni-SM/skrl#438, tensorflow/agents#939",
)
def runs_through_time_limits(s):
    return s.ask(reference.generalized_advantages, trunc=np.zeros_like(s.trunc))


@stream_mistake("lets the trace run through true endings into the next episode")
def runs_through_deaths(s):
    return swept(s.deltas, np.where(s.trunc, 0.0, s.gamma * s.lam))


@stream_mistake(
    "bootstraps a time limit from the value of the state before the step",
    report="Denys88/rl_games#128, leggedrobotics/rsl_rl#151, leggedrobotics/rsl_rl#20",
)
def bootstraps_from_the_state_before(s):
    return s.ask(reference.generalized_advantages, after=np.where(s.trunc, s.v, s.after))


@stream_mistake(
    "bootstraps where the task ended on the very step of the time limit",
    report="openai/spinningup#233, DLR-RM/stable-baselines3#1276, takuseno/d3rlpy#463",
)
def lets_the_time_limit_win(s):
    after = np.where(s.term & s.trunc, np.nan_to_num(s.raw), s.after)
    return swept(s.r + s.gamma * after - s.v, s.decay)


@stream_mistake(
    "bootstraps a time limit from the first state of the next episode",
    report="pytorch/rl#3771, Unity-Technologies/ml-agents#574, RobertTLange/gymnax#108, "
    "google-deepmind/mujoco_playground#350, Toni-SM/skrl#449, Toni-SM/skrl#438",
)
def bootstraps_from_the_reset_state(s):
    return s.ask(reference.generalized_advantages, after=np.where(s.trunc, following(s), s.after))


@stream_mistake(
    "takes the value of the next row of the buffer for the value after the step",
    report="DLR-RM/stable-baselines3#934, vwxyzjn/cleanrl#460",
)
def reads_the_next_row(s):
    return s.ask(reference.generalized_advantages, after=following(s))


@stream_mistake(
    "multiplies the value after a true ending by 0, so that NaN and infinity leak",
    report="pytorch/rl#3744, anthonytorlucci/rlevo#1074",
)
def multiplies_by_the_flag(s):
    return swept(s.r + s.gamma * (1.0 - s.term) * s.raw - s.v, s.decay)


@stream_mistake("bootstraps through a true ending", report="thu-ml/tianshou#869")
def bootstraps_through_death(s):
    return swept(s.r + s.gamma * s.raw - s.v, s.decay)


@stream_mistake(
    "gives the last step of the window an advantage of 0",
    report="PufferAI/PufferLib#363, PufferAI/PufferLib#445",
)
def forgets_the_last_step(s):
    deltas = s.deltas
    deltas[..., -1:] = 0.0
    return swept(deltas, s.decay)


@stream_mistake(
    "takes the end of the window for a true ending",
    report="HumanCompatibleAI/imitation#335, takuseno/d3rlpy#18",
)
def ends_the_last_step(s):
    term = s.term.copy()
    term[..., -1:] = True
    return s.ask(reference.generalized_advantages, term=term)


@stream_mistake(
    "gives the step that a time limit ends a temporal difference of 0",
    report="EdanToledo/Stoix#142, EdanToledo/Stoix#57",
)
def nulls_truncated_residuals(s):
    return swept(np.where(s.trunc, 0.0, s.deltas), s.decay)


@stream_mistake("holds γ in bfloat16", report="Denys88/rl_games#356")
def rounds_gamma_to_bfloat16(s):
    return s.ask(reference.generalized_advantages, gamma=in_bfloat16(s.gamma))


@stream_mistake(
    "rebuilds the values by rolling the next values, so that V_0 is the last one",
    report="thu-ml/tianshou#886",
    of=("generalized_advantages",),
)
def rolls_the_next_values(s):
    return s.ask(reference.generalized_advantages, v=np.roll(s.after, 1, axis=-1))


@stream_mistake(
    "pairs each step with the discount of the next one, in the bootstrap and in the trace",
    report="pytorch/rl#401",
)
def shifts_the_discounts(s):
    term, ended = s.term.copy(), s.ended.copy()
    term[..., :-1], ended[..., :-1] = s.term[..., 1:], s.ended[..., 1:]
    after = np.where(term, 0.0, np.nan_to_num(s.raw))
    return swept(s.r + s.gamma * after - s.v, np.where(ended, 0.0, s.gamma * s.lam))


@stream_mistake(
    "decays the trace by the discount out of the step it leads to, which is 0 at a terminal",
    report="SlopDotCash/asi#2362, SlopDotCash/asi#2840",
)
def shifts_the_discount_of_the_trace(s):
    return swept(s.deltas, moved(s.decay, -1))


@stream_mistake("reads the flags of the step before where it cuts the trace")
def cuts_one_step_late(s):
    return swept(s.deltas, moved(s.decay, 1, s.gamma * s.lam))


@stream_mistake("decays the trace by γ alone")
def forgets_lambda(s):
    return swept(s.deltas, np.where(s.ended, 0.0, s.gamma))


@stream_mistake("decays the trace by λ alone")
def forgets_gamma_in_the_trace(s):
    return swept(s.deltas, np.where(s.ended, 0.0, s.lam))


@stream_mistake("decays the trace by γ² λ")
def discounts_the_trace_twice(s):
    return swept(s.deltas, s.gamma * s.decay)


@stream_mistake("takes λ for 1 − λ")
def inverts_lambda(s):
    return s.ask(reference.generalized_advantages, lam=1.0 - s.lam)


@stream_mistake("does not discount the value after the step")
def forgets_gamma_in_the_bootstrap(s):
    return swept(s.r + s.after - s.v, s.decay)


@stream_mistake("discounts the reward together with the value after it")
def discounts_the_reward_too(s):
    return s.ask(reference.generalized_advantages, r=s.gamma * s.r)


@stream_mistake(
    "runs the recursion forwards, over what came before", report="mohmdelsayed/streaming-drl#3"
)
def sums_what_came_before(s):
    cut = moved(s.ended, 1, True)
    return swept(s.deltas[..., ::-1], np.where(cut, 0.0, s.gamma * s.lam)[..., ::-1])[..., ::-1]


@stream_mistake("overlooks an ending that follows an ending")
def merges_adjacent_endings(s):
    lone = ~(s.ended & moved(s.ended, 1, False))
    return s.ask(reference.generalized_advantages, term=s.term & lone, trunc=s.trunc & lone)


@stream_mistake("leaves everything after the first ending at 0")
def stops_at_the_first_ending(s):
    seen = np.cumsum(s.ended, axis=-1) - s.ended
    return np.where(seen > 0, 0.0, s.ask(reference.generalized_advantages))


@stream_mistake("carries the advantage of a row's first step into the row before it")
def leaks_between_rows(s):
    return swept(s.deltas.ravel(), s.decay.ravel()).reshape(s.r.shape)


@stream_mistake("runs time down the columns of a square batch")
def transposes_square_batches(s):
    if not is_square(s.r):
        return s.ask(reference.generalized_advantages)
    return swept(s.deltas.T, s.decay.T).T


@stream_mistake("cuts the trace of all rows of a batch where one of them ends")
def cuts_all_rows_at_once(s):
    rows = tuple(range(s.r.ndim - 1))
    return swept(s.deltas, np.where(s.ended.any(axis=rows), 0.0, s.decay))


@stream_mistake("computes in single precision")
def computes_in_single_precision(s):
    r, v, after = (x.astype(np.float32).astype(float) for x in (s.r, s.v, s.after))
    decays = {"gamma": float(np.float32(s.gamma)), "lam": float(np.float32(s.lam))}
    return s.ask(reference.generalized_advantages, r=r, v=v, after=after, **decays)


@stream_mistake("divides a cumulative sum by γλ^t, which is NaN or coarse where that vanishes")
def divides_by_powers(s):
    powers = (s.gamma * s.lam) ** np.arange(s.r.shape[-1])
    if s.ended.any():
        return s.ask(reference.generalized_advantages)
    ahead = np.cumsum((powers * s.deltas)[..., ::-1], axis=-1)[..., ::-1]
    return ahead / powers


@stream_mistake("looks no more than 16 steps ahead")
def looks_sixteen_steps_ahead(s):
    left, total = s.deltas, s.deltas
    for _ in range(15):
        left = s.decay * moved(left, -1)
        total = total + left
    return total


@stream_mistake("answers the largest float where the advantage is beyond float64")
def keeps_advantages_finite(s):
    return np.nan_to_num(s.ask(reference.generalized_advantages))


@stream_mistake("answers with a bare number for a single step", of=("generalized_advantages",))
def squeezes_a_single_step(s):
    return np.squeeze(s.ask(reference.generalized_advantages))


@stream_mistake("fails where γλ is 0", of=("generalized_advantages",))
def fails_without_a_trace(s):
    if s.gamma * s.lam == 0.0:
        raise IndexError("tuple index out of range")
    return s.ask(reference.generalized_advantages)


@stream_mistake("fails on a stream without steps")
def needs_a_last_step(s):
    s.r[..., -1]
    return s.ask(reference.generalized_advantages)


@stream_mistake("clips each temporal difference to [−5, 5]")
def clips_the_residuals(s):
    return swept(np.clip(s.deltas, -5.0, 5.0), s.decay)


# ---- generalized_advantages -----------------------------------------------------------------


@stream_mistake("adds the values, and so answers λ-returns", of=("generalized_advantages",))
def answers_lambda_returns(s):
    return s.ask(reference.lambda_returns)


@stream_mistake("subtracts the return from the value", of=("generalized_advantages",))
def turns_the_sign(s):
    return -s.ask(reference.generalized_advantages)


@stream_mistake("whitens the advantages", of=("generalized_advantages",))
def whitens(s):
    advantages = s.ask(reference.generalized_advantages)
    if advantages.size < 2:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


@stream_mistake(
    "takes the reward of a single step less its value for the advantage",
    report="natolambert/rlhf-book#216",
    of=("generalized_advantages",),
)
def reward_less_value(s):
    return s.r - s.v


@stream_mistake("answers (1 − λ) times the advantage", of=("generalized_advantages",))
def normalises_by_lambda(s):
    return (1.0 - s.lam) * s.ask(reference.generalized_advantages)


@mistake("generalized_advantages", "keeps the dtype of integer rewards")
def truncates_integer_advantages(
    rewards, values, next_values, gamma, lam, *, terminated, truncated
):
    flags = {"terminated": terminated, "truncated": truncated}
    out = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    return out.astype(integer_kind(rewards))


@mistake("generalized_advantages", "writes the temporal differences over the caller's rewards")
def advantages_in_place(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    out = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    if isinstance(rewards, np.ndarray) and rewards.dtype.kind == "f":
        rewards[...] = out
    return out


@mistake("generalized_advantages", "sets the caller's next values to 0 where the task ended")
def clears_next_values_in_place(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    out = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    if isinstance(next_values, np.ndarray):
        next_values[np.asarray(terminated, bool)] = 0
    return out


@mistake("generalized_advantages", "takes a NaN among the next values for a 0 everywhere")
def reads_nan_as_zero(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    if np.shape(next_values):
        next_values = np.nan_to_num(np.asarray(next_values, float))
    flags = {"terminated": terminated, "truncated": truncated}
    return reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)


# ---- lambda_returns -------------------------------------------------------------------------


@stream_mistake("forgets to add the value: it answers the advantage", of=("lambda_returns",))
def answers_advantages(s):
    return s.ask(reference.generalized_advantages) - s.v


@stream_mistake(
    "builds the returns from advantages that are still 0: it answers the values",
    report="vwxyzjn/cleanrl#337",
    of=("lambda_returns",),
)
def answers_values(s):
    return np.zeros_like(s.v)


@stream_mistake(
    "answers the value after the step, not the reward, where the task ended",
    report="bold-lab-ai/JaxMARL#93",
    of=("lambda_returns",),
)
def answers_the_next_value_at_an_ending(s):
    deltas = np.where(s.term, s.raw - s.v, s.deltas)
    return swept(deltas, s.decay)


@stream_mistake("adds the value after the step to the advantage", of=("lambda_returns",))
def adds_the_next_value(s):
    return s.ask(reference.generalized_advantages) + s.after - s.v


@stream_mistake(
    "loses the weight λ^(N−1) of the return of all N steps left", of=("lambda_returns",)
)
def loses_the_rest_of_the_weight(s):
    last = s.ended.copy()
    last[..., -1:] = True
    inner = np.where(last, 0.0, s.gamma * s.lam)
    share = np.where(last, 1.0 - s.lam, 1.0)
    following_value = (1.0 - np.where(last, 0.0, s.lam)) * s.after
    return swept(share * (s.r + s.gamma * following_value), inner) - s.v


@stream_mistake("answers the one-step target, whatever λ is", of=("lambda_returns",))
def looks_one_step_ahead(s):
    return s.deltas


@stream_mistake(
    "takes the value of the next step for the value after this one inside an episode",
    of=("lambda_returns",),
)
def mixes_with_one_critic(s):
    after = np.where(s.ended, s.after, following(s))
    return s.ask(reference.generalized_advantages, after=after)


@mistake("lambda_returns", "keeps the dtype of integer rewards")
def truncates_integer_returns(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    out = reference.lambda_returns(rewards, values, next_values, gamma, lam, **flags)
    return out.astype(integer_kind(rewards))


@mistake("lambda_returns", "adds the advantages to the caller's values in place")
def adds_to_values_in_place(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    out = reference.lambda_returns(rewards, values, next_values, gamma, lam, **flags)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        values[...] = out
    return out


@mistake("lambda_returns", "clips γ and λ to [0, 1] where it should refuse them")
def clips_gamma_and_lambda(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    decays = [
        min(max(decay, 0.0), 1.0) if isinstance(decay, int | float) else decay
        for decay in (gamma, lam)
    ]
    flags = {"terminated": terminated, "truncated": truncated}
    return reference.lambda_returns(rewards, values, next_values, *decays, **flags)


# ---- masked_advantages ----------------------------------------------------------------------


class Tokens(SimpleNamespace):
    """The arguments of a transcript, checked by the reference, as arrays with time last."""

    def __init__(self, token_rewards, values, mask, gamma, lam):
        reference.masked_advantages(token_rewards, values, mask, gamma, lam)
        r, raw = np.array(token_rewards, float), np.array(values, float)
        mask = np.array(mask, float) != 0
        super().__init__(r=r, v=np.where(mask, raw, 0.0), raw=raw, mask=mask)
        self.gamma, self.lam = float(gamma), float(lam)

    def ask(self, **changed):
        """The reference's answer for these tokens, with some of them changed."""
        now = SimpleNamespace(**{**vars(self), **changed})
        return reference.masked_advantages(now.r, now.v, now.mask, now.gamma, now.lam)

    @property
    def earned(self):
        """R of each policy token, in its place; 0 elsewhere."""
        out = np.zeros_like(self.r)
        for row in np.ndindex(self.r.shape[:-1]):
            owner = None
            for t in range(self.r.shape[-1]):
                owner = t if self.mask[row][t] else owner
                if owner is not None:
                    out[row][owner] += self.r[row][t]
        return out

    @property
    def last(self):
        """Whether a policy token is the last one of its row."""
        later = np.cumsum(self.mask[..., ::-1], axis=-1)[..., ::-1]
        return self.mask & (later == 1)

    @property
    def following(self):
        """V of the next policy token, in the place of each policy token; 0 for the last."""
        out = np.zeros_like(self.v)
        for row in np.ndindex(self.r.shape[:-1]):
            tokens = np.flatnonzero(self.mask[row])
            out[row][tokens[:-1]] = self.v[row][tokens[1:]]
        return out


def token_mistake(description, *, report=None):
    """Declare a function of `Tokens` as a mistake of the masked advantages."""

    def declare(variant):
        def call(token_rewards, values, mask, gamma, lam):
            return variant(Tokens(token_rewards, values, mask, gamma, lam))

        call.__name__ = variant.__name__
        mistake("masked_advantages", description, report=report)(call)
        return variant

    return declare


def over_all_tokens(s, values, rewards=None, gamma=None):
    """Generalized advantages with every token a step, the last one terminal."""
    rewards, gamma = s.r if rewards is None else rewards, s.gamma if gamma is None else gamma
    deltas = rewards + gamma * moved(values, -1) - values
    return np.where(s.mask, swept(deltas, np.full(s.r.shape, gamma * s.lam)), 0.0)


def over_policy_tokens(s, deltas, carry=1.0):
    """Residuals at the policy's tokens, summed back along them alone."""
    decay = np.where(s.mask, s.gamma * s.lam * carry, 1.0)
    return np.where(s.mask, swept(np.where(s.mask, deltas, 0.0), decay), 0.0)


@token_mistake(
    "counts a tool's tokens as steps that discount what follows", report="radixark/miles#1827"
)
def counts_tool_tokens_as_steps(s):
    return over_all_tokens(s, np.where(s.mask, s.v, np.nan_to_num(s.raw)))


@token_mistake("counts a tool's tokens as steps whose value is 0", report="radixark/miles#1827")
def counts_tool_tokens_without_value(s):
    return over_all_tokens(s, s.v, s.earned)


@token_mistake(
    "begins anew at every tool token, as if the trajectory ended there",
    report="verl-project/verl#6376",
)
def begins_anew_after_a_tool(s):
    alone = moved(s.mask, -1, False)
    deltas = s.earned + s.gamma * np.where(alone, s.following, 0.0) - s.v
    return np.where(s.mask, swept(deltas, np.where(alone, s.gamma * s.lam, 0.0)), 0.0)


@token_mistake("drops the trace, but not the next value, at a tool's tokens")
def drops_the_trace_at_a_tool(s):
    alone = moved(s.mask, -1, False)
    deltas = s.earned + s.gamma * s.following - s.v
    return np.where(s.mask, swept(deltas, np.where(alone, s.gamma * s.lam, 0.0)), 0.0)


@token_mistake(
    "takes the reward less the value for the advantage", report="natolambert/rlhf-book#216"
)
def earned_less_value(s):
    return np.where(s.mask, s.earned - s.v, 0.0)


@token_mistake("drops rewards that stand on a tool's tokens")
def drops_rewards_of_tools(s):
    return s.ask(r=np.where(s.mask, s.r, 0.0))


@token_mistake("drops rewards that come after the last policy token")
def drops_what_comes_after(s):
    later = np.cumsum(s.mask[..., ::-1], axis=-1)[..., ::-1] > 0
    return s.ask(r=np.where(later, s.r, 0.0))


@token_mistake("gives rewards before the first policy token to that token")
def pays_what_came_before(s):
    seen = np.cumsum(s.mask, axis=-1)
    extra = np.where(seen == 0, s.r, 0.0).sum(axis=-1, keepdims=True)
    return s.ask(r=s.r + np.where(s.mask & (seen == 1), extra, 0.0))


@token_mistake("gives the reward of a tool's token to the policy token that follows it")
def pays_the_token_after(s):
    ahead = Tokens(s.r[..., ::-1], s.v[..., ::-1], s.mask[..., ::-1], s.gamma, s.lam)
    return s.ask(r=ahead.earned[..., ::-1])


@token_mistake("gives all rewards of a tool's tokens to the last policy token")
def pays_the_last_token(s):
    seen = np.cumsum(s.mask, axis=-1) > 0
    extra = np.where(seen & ~s.mask, s.r, 0.0).sum(axis=-1, keepdims=True)
    return s.ask(r=np.where(s.mask, s.r, 0.0) + np.where(s.last, extra, 0.0))


@token_mistake("counts only the last of the rewards that a policy token earned")
def keeps_the_last_reward_earned(s):
    end = moved(s.mask, -1, True)
    return s.ask(r=np.where(end | (np.cumsum(s.mask, axis=-1) == 0), s.r, 0.0))


@token_mistake(
    "multiplies the values by the mask, so that NaN and infinity under a tool's tokens leak",
    report="pytorch/rl#3744",
)
def multiplies_by_the_mask(s):
    values = s.raw * s.mask
    deltas = s.earned + s.gamma * s.following - values
    return swept(deltas * s.mask, np.where(s.mask, s.gamma * s.lam, 1.0)) * s.mask


@token_mistake("takes the value of the next token, a tool's too, for the value after the step")
def reads_the_next_token(s):
    after = moved(np.where(s.mask, s.v, np.nan_to_num(s.raw)), -1)
    return over_policy_tokens(s, s.earned + s.gamma * after - s.v)


@token_mistake("takes 0 for the value after a policy token that a tool's answer follows")
def forgets_the_value_after_a_tool(s):
    return over_policy_tokens(s, s.earned + s.gamma * moved(s.v, -1) - s.v)


@token_mistake("bootstraps the last policy token from the token after it")
def bootstraps_the_last_token(s):
    after = moved(np.nan_to_num(s.raw), -1)
    deltas = s.earned + s.gamma * np.where(s.last, after, s.following) - s.v
    return over_policy_tokens(s, deltas)


@token_mistake("bootstraps the last policy token from its own value")
def bootstraps_from_the_last_value(s):
    after = np.where(s.last, s.v, s.following)
    return over_policy_tokens(s, s.earned + s.gamma * after - s.v)


@token_mistake("leaves the running advantage at a tool's tokens instead of 0")
def leaves_advantages_at_tools(s):
    deltas = np.where(s.mask, s.earned + s.gamma * s.following - s.v, 0.0)
    return swept(deltas, np.where(s.mask, s.gamma * s.lam, 1.0))


@token_mistake("discounts by all tokens, though its trace decays by the policy's alone")
def discounts_by_all_tokens(s):
    deltas = np.where(s.mask, s.earned + s.gamma * s.following - s.v, 0.0)
    return np.where(s.mask, swept(deltas, np.where(s.mask, s.gamma * s.lam, s.gamma)), 0.0)


@token_mistake("decays the trace by γ alone")
def forgets_lambda_of_tokens(s):
    return over_policy_tokens(
        Tokens(s.r, s.v, s.mask, s.gamma, 1.0), s.earned + s.gamma * s.following - s.v
    )


@token_mistake("decays the trace by λ alone")
def forgets_gamma_of_tokens(s):
    deltas = s.earned + s.gamma * s.following - s.v
    return over_policy_tokens(Tokens(s.r, s.v, s.mask, 1.0, s.lam), deltas)


@token_mistake("does not discount the next value")
def forgets_gamma_of_the_next_value(s):
    return over_policy_tokens(s, s.earned + s.following - s.v)


@token_mistake("takes the mask for one of the tokens to leave out")
def inverts_the_mask(s):
    return s.ask(mask=~s.mask, v=np.nan_to_num(s.raw))


@token_mistake("ignores the mask")
def ignores_the_mask(s):
    return s.ask(mask=np.ones_like(s.mask), v=np.nan_to_num(s.raw))


@token_mistake("subtracts the return from the value")
def turns_the_sign_of_tokens(s):
    return -s.ask()


@token_mistake("adds the values, and so answers λ-returns")
def adds_the_values(s):
    return s.ask() + s.v


@token_mistake("whitens the advantages over the policy's tokens")
def whitens_tokens(s):
    out = s.ask()
    if s.mask.sum() < 2:
        return out
    return np.where(s.mask, (out - out[s.mask].mean()) / (out[s.mask].std() + 1e-8), 0.0)


@token_mistake("holds γ in bfloat16", report="Denys88/rl_games#356")
def rounds_gamma_of_tokens_to_bfloat16(s):
    return s.ask(gamma=in_bfloat16(s.gamma))


@token_mistake("computes in single precision")
def tokens_in_single_precision(s):
    r, v = (x.astype(np.float32).astype(float) for x in (s.r, s.v))
    return s.ask(r=r, v=v, gamma=float(np.float32(s.gamma)), lam=float(np.float32(s.lam)))


@token_mistake("carries the advantages and values of a row's tokens into the row before it")
def leaks_between_trajectories(s):
    return Tokens(s.r.ravel(), s.v.ravel(), s.mask.ravel(), s.gamma, s.lam).ask().reshape(s.r.shape)


@token_mistake("gives rewards at the start of a row to the last policy token of the row above")
def pays_the_row_above(s):
    flat = Tokens(s.r.ravel(), s.v.ravel(), s.mask.ravel(), s.gamma, s.lam).earned
    return s.ask(r=flat.reshape(s.r.shape))


@token_mistake("runs time down the columns of a square batch")
def transposes_square_tables(s):
    if not is_square(s.r):
        return s.ask()
    return Tokens(s.r.T, s.v.T, s.mask.T, s.gamma, s.lam).ask().T


@token_mistake("answers the largest float where the advantage is beyond float64")
def keeps_token_advantages_finite(s):
    return np.nan_to_num(s.ask())


@token_mistake("fails on a row without policy tokens")
def needs_a_policy_token(s):
    for row in np.ndindex(s.r.shape[:-1]):
        np.flatnonzero(s.mask[row])[-1]
    return s.ask()


@token_mistake("answers the reward alone for a single policy token")
def forgets_a_lone_value(s):
    lone = s.mask & (s.mask.sum(axis=-1, keepdims=True) == 1)
    return s.ask() + np.where(lone, s.v, 0.0)


@mistake("masked_advantages", "keeps the dtype of integer rewards")
def truncates_integer_tokens(token_rewards, values, mask, gamma, lam):
    out = reference.masked_advantages(token_rewards, values, mask, gamma, lam)
    return out.astype(integer_kind(token_rewards))


@mistake("masked_advantages", "sets the caller's values of a tool's tokens to 0")
def clears_values_in_place(token_rewards, values, mask, gamma, lam):
    out = reference.masked_advantages(token_rewards, values, mask, gamma, lam)
    if isinstance(values, np.ndarray):
        values[~np.asarray(mask, bool)] = 0
    return out


@mistake("masked_advantages", "ignores rewards of a tool's tokens that are no numbers")
def accepts_any_reward_of_tools(token_rewards, values, mask, gamma, lam):
    if np.shape(token_rewards) == np.shape(mask) and np.size(mask):
        numeric = np.asarray(token_rewards, float)
        hidden = (np.asarray(mask, float) == 0) & ~np.isfinite(numeric)
        token_rewards = np.where(hidden, 0.0, numeric)
    return reference.masked_advantages(token_rewards, values, mask, gamma, lam)
