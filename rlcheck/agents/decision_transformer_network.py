"""A causal transformer over returns to go, states and actions."""

from functools import partial

import torch
from torch import Tensor, nn

from rlcheck._inputs import integer, scalar
from rlcheck.agents.decision_transformer_windows import Windows

__all__ = ["DecisionTransformer"]

# Networks are float32, whatever torch's default is.
Linear = partial(nn.Linear, dtype=torch.float32)
Embedding = partial(nn.Embedding, dtype=torch.float32)
LayerNorm = partial(nn.LayerNorm, dtype=torch.float32)


class DecisionTransformer(nn.Module):
    """Logits of the actions of a window's steps, given what came before them.

    Each step is three tokens, R_t, s_t, a_t, with the embedding of its time step added to each of
    them. A token sees those before it and itself, but no padding. The logits of a_t come from the
    token s_t, which sees R_t but not a_t.

    Args:
        state_dim: D.
        action_dim: A.
        max_steps: time steps lie in [0, max_steps).
        return_scale: what returns to go are divided by before they are embedded; differences of
            this size are easy to tell.
        width: of the embeddings; a multiple of the heads.
        layers: how many blocks, ≥ 1.
        heads: of the attention.

    Raises:
        ValueError: a number is out of range, or the width is no multiple of the heads.

    Reference:
        Chen et al. (2021), Decision Transformer, section 3.
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        *,
        max_steps: int,
        return_scale: float = 0.2,
        width: int = 32,
        layers: int = 2,
        heads: int = 2,
    ) -> None:
        super().__init__()
        self.state_dim = integer("state_dim", state_dim, minimum=1)
        self.action_dim = integer("action_dim", action_dim, minimum=1)
        self.max_steps = integer("max_steps", max_steps, minimum=1)
        self.return_scale = positive("return_scale", return_scale)
        width, heads = integer("width", width, minimum=1), integer("heads", heads, minimum=1)
        if width % heads:
            raise ValueError(f"width is {width}; it must be a multiple of heads, {heads}")
        self.embed_return = Linear(1, width)
        self.embed_state = Linear(self.state_dim, width)
        self.embed_action = Embedding(self.action_dim, width)
        self.embed_time = Embedding(self.max_steps, width)
        self.norm = LayerNorm(width)
        self.blocks = nn.ModuleList(
            _Block(width, heads) for _ in range(integer("layers", layers, minimum=1))
        )
        self.head = nn.Sequential(LayerNorm(width), Linear(width, self.action_dim))

    def forward(self, windows: Windows) -> Tensor:
        """[B, K, A] logits; those at the padding are finite and mean nothing."""
        tokens = self.norm(self._embed(windows))  # [B, 3K, W]
        visible = _visible(windows.active.repeat_interleave(3, dim=1))
        for block in self.blocks:
            tokens = block(tokens, visible)
        logits: Tensor = self.head(tokens[:, 1::3])  # the states
        return logits

    def _embed(self, windows: Windows) -> Tensor:
        active = windows.active
        returns = torch.where(active, windows.returns_to_go / self.return_scale, 0.0).unsqueeze(2)
        states = torch.where(active.unsqueeze(2), windows.states, 0.0)
        time = self.embed_time(torch.where(active, windows.timesteps, 0))  # [B, K, W]
        kinds = (
            self.embed_return(returns),
            self.embed_state(states),
            self.embed_action(torch.where(active, windows.actions, 0)),
        )
        return torch.stack([kind + time for kind in kinds], dim=2).flatten(1, 2)


def positive(name: str, value: float) -> float:
    """A finite number above 0."""
    if (number := scalar(name, value)) <= 0:
        raise ValueError(f"{name} is {number}; it must be > 0")
    return number


def _visible(active: Tensor) -> Tensor:
    """[B, 1, L, L] which token sees which; padding sees itself, since a softmax needs one entry."""
    length = active.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    itself = torch.eye(length, dtype=torch.bool)
    return ((causal & active.unsqueeze(1)) | itself).unsqueeze(1)


class _Block(nn.Module):
    """Attention and a perceptron, each added to what it read."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_perceptron = LayerNorm(width), LayerNorm(width)
        self.project_in, self.project_out = Linear(width, 3 * width), Linear(width, width)
        self.perceptron = nn.Sequential(
            Linear(width, 4 * width), nn.GELU(), Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor, visible: Tensor) -> Tensor:
        tokens = tokens + self._attend(self.before_attention(tokens), visible)
        out: Tensor = tokens + self.perceptron(self.before_perceptron(tokens))
        return out

    def _attend(self, tokens: Tensor, visible: Tensor) -> Tensor:
        parts = self.project_in(tokens).chunk(3, dim=2)  # each [B, L, W]
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts
        )  # each [B, H, L, W / H]
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        out: Tensor = self.project_out(mixed.transpose(1, 2).flatten(2))
        return out
