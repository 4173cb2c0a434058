"""The offline model's part for lessons: the chat, facts of a material, and a narration of chosen facts."""

from callsheet.providers.offline.lessons.chat import answer
from callsheet.providers.offline.lessons.forms import FORMS

__all__ = ["FORMS", "answer"]
