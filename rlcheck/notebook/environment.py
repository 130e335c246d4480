"""What a reader chooses through environment variables: profile, language, model, branches."""

import os
from collections.abc import Mapping

__all__ = [
    "DEFAULT_MODEL",
    "LANGUAGES",
    "PROFILES",
    "chosen_language",
    "chosen_model",
    "chosen_profile",
    "switched_on",
]

PROFILES = ("smoke", "full", "real-model")
LANGUAGES = ("en", "ru")
DEFAULT_MODEL = "Qwen/Qwen3-0.6B"


def chosen_profile(module: int, environment: Mapping[str, str] = os.environ) -> str:
    """The profile of a module's notebook: smoke, full or real-model.

    RL_LLM_M5_PROFILE and RL_LLM_M6_PROFILE go before RL_LLM_PROFILE, for their module; the default
    is smoke.

    Raises:
        ValueError: the variable that decides has another value.
    """
    own = f"RL_LLM_M{module}_PROFILE"
    variable = own if module in (5, 6) and own in environment else "RL_LLM_PROFILE"
    return _one_of(variable, environment.get(variable, "smoke"), PROFILES)


def chosen_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of texts and labels, from RLCHECK_LANG: en (default) or ru.

    Raises:
        ValueError: it is neither.
    """
    return _one_of("RLCHECK_LANG", environment.get("RLCHECK_LANG", "en"), LANGUAGES)


def chosen_model(environment: Mapping[str, str] = os.environ) -> str:
    """The language model of the branch with real weights, from RLCHECK_MODEL.

    A name on the hub, a local folder, or smollm2.
    """
    return environment.get("RLCHECK_MODEL") or DEFAULT_MODEL


def switched_on(variable: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a switch such as RL_LLM_M6_RUN_REAL_MODEL is 1; unset and 0 are off.

    Raises:
        ValueError: it has another value.
    """
    return _one_of(variable, environment.get(variable) or "0", ("0", "1")) == "1"


def _one_of(variable: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{variable} is {value!r}; it must be one of {', '.join(choices)}")
    return value
