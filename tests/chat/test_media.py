"""Images and PDFs of servers and files through the vendors' SDKs, and images of a model back into a file."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from PIL import Image

from carrel.chat.approvals import Approvals, ApprovalStore
from carrel.chat.events import ChatEvent, Media, Notice, ToolEnd
from carrel.chat.models.open import open_model
from carrel.chat.session import ChatSession
from carrel.chat.store import ChatStore
from chat.endpoints import Answer, CallTool, Draw, Endpoint, Say, anthropic_endpoint, gemini_endpoint, openai_endpoint
from chat.memory_host import MemoryHost
from chat.shop import WAV, shop

pytestmark = pytest.mark.slow


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("model", "endpoint"),
    [
        ("anthropic:claude-sonnet-5-5", anthropic_endpoint),
        ("openai:gpt-6.2-sol", openai_endpoint),
        ("gemini:gemini-3.8-flash", gemini_endpoint),
    ],
)
async def test_images_and_pdfs_reach_each_vendor(
    model: str,
    endpoint: Callable[[list[Answer]], AbstractContextManager[Endpoint]],
    tmp_path: Path,
) -> None:
    (tmp_path / "photo.png").write_bytes(png())
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
    with endpoint([Answer(Say("A red square."))]) as vendor:
        opened = await open_model(model, environment=vendor.environment)
        async with MemoryHost({"shop": shop()}) as host:
            session = ChatSession(host, opened, open_model, Approvals(ApprovalStore(None)), lambda event: None)
            await session.attach(str(tmp_path / "photo.png"), {})
            await session.attach(str(tmp_path / "paper.pdf"), {})
            assert (await session.say("What is this?")).text == "A red square."
            await session.close()
        assert vendor.refusals == []
        sent = json.dumps(vendor.requests[0].body)
        assert "image/png" in sent
        assert "application/pdf" in sent


async def test_an_image_of_the_model_is_saved_beside_the_conversation(tmp_path: Path) -> None:
    shown: list[ChatEvent] = []
    with gemini_endpoint([Answer(Say("Here:"), Draw(png())), Answer(Say("Red."))]) as vendor:
        opened = await open_model("gemini:gemini-3.8-flash", environment=vendor.environment)
        async with MemoryHost({"shop": shop()}) as host:
            approvals = Approvals(ApprovalStore(None))
            session = ChatSession(host, opened, open_model, approvals, shown.append, store=ChatStore(tmp_path))
            await session.say("Draw a square")
            await session.say("Which colour is it?")  # the image goes back with the conversation
            await session.close()
        assert vendor.refusals == []
    (media,) = [event for event in shown if isinstance(event, Media)]
    assert media.file is not None
    assert Path(media.file).read_bytes() == png()


@pytest.mark.parametrize(
    ("model", "endpoint"),
    [
        ("anthropic:claude-sonnet-5-5", anthropic_endpoint),
        ("openai:gpt-6.2-sol", openai_endpoint),
        ("gemini:gemini-3.8-flash", gemini_endpoint),
    ],
)
async def test_a_conversation_goes_on_without_an_image_that_the_vendor_refuses(
    model: str, endpoint: Callable[[list[Answer]], AbstractContextManager[Endpoint]]
) -> None:
    shown: list[ChatEvent] = []
    script = [Answer(CallTool("shop__picture")), Answer(Say("I could not see it.")), Answer(Say("Still here."))]
    with endpoint(script) as vendor:
        opened = await open_model(model, environment=vendor.environment)
        async with MemoryHost({"shop": shop()}) as host:
            approvals = Approvals(ApprovalStore(None), allowed=["shop:picture"])
            session = ChatSession(host, opened, open_model, approvals, shown.append)
            assert (await session.say("Show it")).text == "I could not see it."
            assert (await session.say("And now?")).text == "Still here."
            await session.close()
        assert vendor.refusals == ["Could not process image"]  # asked once with the image, and never again
        assert "left out, as your vendor does not take it" in json.dumps(vendor.requests[-1].body)
    (notice,) = [event.text for event in shown if isinstance(event, Notice)]
    assert (
        "(400): Could not process image. Retried without contents that the model may reject: image/png, 28 bytes."
        in notice
    )


async def test_audio_of_a_tool_reaches_gemini_and_is_described_to_claude() -> None:
    for model, endpoint in (
        ("gemini:gemini-3.8-flash", gemini_endpoint),
        ("anthropic:claude-sonnet-5-5", anthropic_endpoint),
    ):
        shown: list[ChatEvent] = []
        with endpoint([Answer(CallTool("shop__sound")), Answer(Say("A beep."))]) as vendor:
            opened = await open_model(model, environment=vendor.environment)
            async with MemoryHost({"shop": shop()}) as host:
                approvals = Approvals(ApprovalStore(None), allowed=["shop:sound"])
                session = ChatSession(host, opened, open_model, approvals, shown.append)
                assert (await session.say("What do you hear?")).text == "A beep."
                await session.close()
            assert vendor.refusals == []
            sent = json.dumps(vendor.requests[1].body)
        heard = base64.b64encode(WAV).decode() in sent or base64.urlsafe_b64encode(WAV).decode() in sent
        assert heard == (model.partition(":")[0] == "gemini")
        assert "audio/wav" in sent
        (end,) = [event for event in shown if isinstance(event, ToolEnd)]
        assert end.text == f"[audio/wav, {len(WAV)} bytes]"
