"""Limits of images, and the sizes that their headers have."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from carrel.chat.models.image_limits import image_size, within_limits
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import BlobResourceContents
from chat.endpoints import Answer, CallTool, Say, anthropic_endpoint
from chat.exchange import NOW, ask, opened, png, user


@pytest.mark.parametrize("kind", ["PNG", "GIF", "JPEG"])
def test_sizes_are_those_of_the_headers(kind: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (123, 45)).save(file, kind)
    assert image_size(file.getvalue()) == (123, 45)


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8", b"\xff\xd8\xff\xe0\0\0", b"RIFF"])
def test_what_has_no_header_has_no_size(data: bytes) -> None:
    assert image_size(data) is None


def test_images_within_the_limits_stay() -> None:
    image = ImageContent(data=png(), mime_type="image/png")
    other = EmbeddedResource(resource=BlobResourceContents(uri="a:b", blob=b"x" * 99, mime_type="application/pdf"))
    assert within_limits([image, other], 98, 100) == [image, other]
    (replaced,) = within_limits([image], 10, 100)
    assert isinstance(replaced, TextContent)
    assert "this model takes 10" in replaced.text


@pytest.mark.slow
async def test_images_that_claude_would_refuse_do_not_end_a_conversation() -> None:
    heavy = png() + bytes(5 * 1024 * 1024)
    blob = BlobResourceContents(uri="file:///wide.png", blob=png((8001, 1)), mime_type="image/png")
    with anthropic_endpoint([Answer(CallTool("now")), Answer(Say("I see."))]) as endpoint:
        async with opened(endpoint) as model:
            question = user("Look", ImageContent(data=heavy, mime_type="image/png"))
            first = await ask(model, [question], tools=[NOW])
            result = ToolResultContent(tool_use_id=first.uses[0].id, content=[EmbeddedResource(resource=blob)])
            await ask(model, [question, first.message, user(result)], tools=[NOW])
        sent = str(endpoint.bodies[1])
    assert endpoint.refusals == []
    assert "bytes are too many" in sent
    assert "file:///wide.png: 8001 x 1 pixels are too many" in sent
