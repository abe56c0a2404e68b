"""Chat with a language model that uses the resources, tools and prompts of many servers."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.chat.arguments import argument_error
    from carrel.chat.model import Model, ModelAnswer, ModelRequest, TextDelta, ThinkingDelta, Usage
    from carrel.chat.models.open import list_models, open_model
    from carrel.chat.prices import Price, Prices
    from carrel.chat.sampling import answer_sampling

__all__ = [
    "Model",
    "ModelAnswer",
    "ModelRequest",
    "Price",
    "Prices",
    "TextDelta",
    "ThinkingDelta",
    "Usage",
    "answer_sampling",
    "argument_error",
    "list_models",
    "open_model",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.chat.arguments": ("argument_error",),
    "carrel.chat.model": (
        "ModelAnswer",
        "Model",
        "ModelRequest",
        "TextDelta",
        "ThinkingDelta",
        "Usage",
    ),
    "carrel.chat.models.open": (
        "list_models",
        "open_model",
    ),
    "carrel.chat.prices": (
        "Price",
        "Prices",
    ),
    "carrel.chat.sampling": ("answer_sampling",),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
