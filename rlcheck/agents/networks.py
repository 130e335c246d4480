"""Small actor-critics over observations that are indices, with and without memory."""

from torch import Tensor, nn

__all__ = ["ActorCritic", "FeedForwardActorCritic", "RecurrentActorCritic"]


class ActorCritic(nn.Module):
    """What training and evaluation ask of a model: `forward`, with a state to carry on.

    The policy starts out uniform and the values at 0: both heads begin with zero weights.

    Args:
        observations: how many observations there are.
        actions: how many actions there are.
        hidden_size: width of every layer.
    """

    def __init__(self, observations: int = 9, actions: int = 6, hidden_size: int = 32) -> None:
        super().__init__()
        self.actions = actions
        self.observed = nn.Embedding(observations, hidden_size)
        self.policy = nn.Linear(hidden_size, actions)
        self.value = nn.Linear(hidden_size, 1)
        for head in (self.policy, self.value):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    @property
    def no_action(self) -> int:
        """The index that stands for the action before the first one."""
        return self.actions

    def forward(
        self, observations: Tensor, previous_actions: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits and values of every step.

        Args:
            observations: [N, T] indices o_t.
            previous_actions: [N, T] indices a_{t−1}, `no_action` before the first action.
            state: [1, N, H] what was carried over from earlier steps; None at the beginning.

        Returns:
            (logits [N, T, A], values [N, T], state [1, N, H]).
        """
        features, state = self.features(observations, previous_actions, state)
        return self.policy(features), self.value(features).squeeze(-1), state

    def features(
        self, observations: Tensor, previous_actions: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """[N, T, H] what the heads read, and the state to carry on.

        A subclass gives this, or overrides `forward` as a whole and needs none.
        """
        raise NotImplementedError


class RecurrentActorCritic(ActorCritic):
    """A GRU over the observation and the previous action, with a policy and a value head.

    Reference:
        Hausknecht and Stone (2015), Deep recurrent Q-learning for partially observable MDPs.
    """

    def __init__(self, observations: int = 9, actions: int = 6, hidden_size: int = 32) -> None:
        super().__init__(observations, actions, hidden_size)
        self.acted = nn.Embedding(actions + 1, hidden_size)
        self.memory = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def features(
        self, observations: Tensor, previous_actions: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The GRU's outputs and its last state."""
        read: tuple[Tensor, Tensor] = self.memory(
            self.observed(observations) + self.acted(previous_actions), state
        )
        return read


class FeedForwardActorCritic(ActorCritic):
    """The same heads on the current observation alone: a policy without memory.

    It is not given the previous action, which would be a memory of one step.
    """

    def __init__(self, observations: int = 9, actions: int = 6, hidden_size: int = 32) -> None:
        super().__init__(observations, actions, hidden_size)
        self.hidden = nn.Sequential(nn.Tanh(), nn.Linear(hidden_size, hidden_size), nn.Tanh())

    def features(
        self, observations: Tensor, previous_actions: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Features of each observation by itself; the state is empty."""
        features = self.hidden(self.observed(observations))
        return features, features.new_zeros(1, len(observations), 0)
