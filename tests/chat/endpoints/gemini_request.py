"""Request of the Gemini API, of the SDK's own types. Importing them takes longer than collecting most test files."""

from __future__ import annotations

from google.genai import types
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["Body"]


class Body(BaseModel):
    """Body of a request."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    generation_config: types.GenerationConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
