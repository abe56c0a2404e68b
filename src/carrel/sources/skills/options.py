"""Options of the skills source."""

from __future__ import annotations

from carrel.sources.folder.options import FolderOptions

__all__ = ["SkillsOptions"]


class SkillsOptions(FolderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a folder of skills: which files are shared."""
