"""WAV files of the raw audio that models answer with."""

from __future__ import annotations

import io
import wave

__all__ = ["wav"]


def wav(samples: bytes, rate: int) -> bytes:
    """Return 16-bit samples of one channel as a WAV file. ``rate`` is in samples a second."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes(samples[: len(samples) // 2 * 2])
    return file.getvalue()
