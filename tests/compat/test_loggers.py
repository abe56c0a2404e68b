"""Names of the loggers of ``carrel.compat.mcp``."""

from __future__ import annotations

import logging

import pytest

from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.fastmcp.prompts.base import Prompt
from carrel.compat.mcp.server.fastmcp.prompts.manager import PromptManager
from carrel.compat.mcp.server.fastmcp.resources import ResourceManager, TextResource


def test_a_logger_has_the_name_in_the_package_and_obeys_the_name_of_the_module(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = "carrel.compat.mcp.server.shelf"
    for _ in range(2):  # the second time, the loggers exist
        log = get_logger(own)
    log.info("not logged")
    with caplog.at_level(logging.INFO, logger=own):
        log.info("logged")
    with caplog.at_level(logging.INFO, logger="mcp"):
        log.info("logged as well")
    assert [(each.name, each.message) for each in caplog.records] == [
        ("mcp.server.shelf", "logged"),
        ("mcp.server.shelf", "logged as well"),
    ]
    logger: logging.Logger | None = logging.getLogger("mcp.server.shelf")
    names = []
    while logger is not None:
        names.append(logger.name)
        logger = logger.parent
    assert names[:2] == ["mcp.server.shelf", own]
    assert len(names) == len(set(names))


def test_a_component_that_is_registered_twice_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    prompts, resources = PromptManager(), ResourceManager()
    prompt = Prompt.from_function(lambda: "text", name="ask")
    resource = TextResource(uri="text://one", text="text")
    for _ in range(2):
        assert prompts.add_prompt(prompt) is prompt
        assert resources.add_resource(resource) is resource
    assert "Prompt already exists: ask" in caplog.text
    assert "Resource already exists: text://one" in caplog.text
    assert len(caplog.records) == 2
