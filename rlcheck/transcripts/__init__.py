"""Rollout records from the dumps of trainers: TRL and verl.

A converter copies what a dump holds into the record that `validate_rollout_record` checks, and
invents nothing: what the dump lacks is missing from the record, and is reported there. What the
converter itself sees (a mask that does not fit its tokens, say) stands in the record's
`dump_violations`; `audit_rollouts` gives both.
"""

from rlcheck.transcripts.audit import audit_rollouts
from rlcheck.transcripts.trl import record_from_trl, records_from_trl, records_from_trl_completions
from rlcheck.transcripts.verl import record_from_verl, records_from_verl, records_from_verl_dump

__all__ = [
    "audit_rollouts",
    "record_from_trl",
    "record_from_verl",
    "records_from_trl",
    "records_from_trl_completions",
    "records_from_verl",
    "records_from_verl_dump",
]
