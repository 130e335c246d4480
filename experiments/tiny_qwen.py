"""A Qwen3 small enough to train in a test, made on the spot: nothing is downloaded.

The weights are random. The tokenizer works on bytes, with merges learnt from the texts that it is
given. The chat template is of Qwen's form, and each message is rendered alike whatever follows it,
as trainers with tools need it.
"""

import os

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TRANSFORMERS_OFFLINE="1")

from collections.abc import Iterable, Sequence

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")

CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_start|>tools
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] -%}
{%- set held = {"name": call.function.name, "arguments": call.function.arguments} -%}
<tool_call>{{ held | tojson }}</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def tiny_tokenizer(texts: Iterable[str], vocabulary: int = 512) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with merges from `texts`, at most `vocabulary` tokens in all."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary - len(MARKS),
            special_tokens=list(CONTROL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.add_tokens(list(MARKS))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=CONTROL[0],
        eos_token=CONTROL[2],
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
    )


def tiny_qwen(tokenizer: PreTrainedTokenizerFast, seed: int = 0) -> Qwen3ForCausalLM:
    """A Qwen3 of two layers with random weights, for the tokens of the tokenizer."""
    torch.manual_seed(seed)
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=None,
            **tokens,
        )
    )
    model.generation_config.update(**tokens)
    return model


def imitate(
    model: Qwen3ForCausalLM,
    examples: Sequence[tuple[Sequence[int], Sequence[int]]],
    steps: int,
    rate: float = 3e-3,
) -> float:
    """Teach the model the tokens whose mask is 1, and give the last mean loss of a token.

    Args:
        model: is changed in place.
        examples: (ids, mask) of each text.
        steps: of Adam, each on all examples.
        rate: Adam's.
    """
    length = max(len(ids) for ids, _ in examples)
    ids = torch.zeros(len(examples), length, dtype=torch.long)
    labels = torch.full_like(ids, -100)  # what no loss is taken of
    for row, (tokens, mask) in enumerate(examples):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        learnt = torch.tensor(mask, dtype=torch.bool)
        labels[row, : len(tokens)][learnt] = ids[row, : len(tokens)][learnt]
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())
