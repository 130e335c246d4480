"""What the course's notebooks share: profile and language, texts, figures, pinned results."""

from rlcheck.notebook.book import Notebook
from rlcheck.notebook.catalog import Catalog
from rlcheck.notebook.environment import chosen_language, chosen_model, chosen_profile, switched_on

__all__ = [
    "Catalog",
    "Notebook",
    "chosen_language",
    "chosen_model",
    "chosen_profile",
    "switched_on",
]
