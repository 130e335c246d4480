"""What is wrong with rollout records: what their conversion found, and what they lack."""

from collections.abc import Iterable, Mapping
from typing import Any

from rlcheck.rollouts import validate_rollout_record
from rlcheck.transcripts._sample import shown

__all__ = ["audit_rollouts"]


def audit_rollouts(records: Iterable[Any]) -> dict[int, list[str]]:
    """What is wrong with each record: what its conversion found, then what the record lacks.

    Args:
        records: rollout records, converted or not.

    Returns:
        {index: violations} of the records that are not sound; empty when all are.

    Raises:
        TypeError: records is a single record, a text, or nothing to iterate over.

    Reference:
        `rlcheck.validate_rollout_record`, whose texts these are, `dump_violations` first.
    """
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise TypeError(f"records is {shown(records)}; a list of records is due")
    audit = {
        index: [*_noted(record), *validate_rollout_record(record)]
        for index, record in enumerate(records)
    }
    return {index: texts for index, texts in audit.items() if texts}


def _noted(record: Any) -> list[str]:
    noted = record.get("dump_violations") if isinstance(record, Mapping) else None
    return [str(violation) for violation in noted] if isinstance(noted, list | tuple) else []
