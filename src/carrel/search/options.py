"""Options of the search: the location and the contents of the index."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from carrel.errors import ConfigError
from carrel.sources.options import Count, Globs, RedactedStruct, Secret, Size

__all__ = ["LOCAL_MODELS", "SearchOptions"]

MIB = 1024 * 1024
#: Kinds of models in local folders: ``model2vec:PATH``.
LOCAL_MODELS = ("model2vec", "fastembed", "onnx")


class SearchOptions(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the search over all resources of a server.

    Raises:
        ConfigError: a number is not above 0, or the embeddings have a URL without a model.
    """

    folder: Annotated[
        str | None,
        Meta(description="where indexes are kept (default: the cache folder of the user)", extra={"path": True}),
    ] = None
    max_file_size: Annotated[Size, Meta(description="index only the names of larger resources")] = 4 * MIB
    max_total_size: Annotated[
        Size, Meta(description="the maximum text of all resources in the index; beyond it, only names are indexed")
    ] = 20 * 1024 * MIB
    mime_types: Annotated[
        Globs, Meta(description="index the text of these MIME types only, for example text/* (default: all text)")
    ] = ()
    exclude: Annotated[Globs, Meta(description="exclude resources whose URI matches, for example *.log")] = ()
    refresh: Annotated[
        float, Meta(gt=0, description="seconds between two polls of sources without change notifications")
    ] = 300.0
    embeddings: Annotated[
        str | None,
        Meta(
            description="the model that ranks by meaning too: model2vec:PATH or onnx:PATH of a local folder, or the "
            "URL of an API like OpenAI's, for example http://localhost:11434/v1",
            extra={"path_after": LOCAL_MODELS},
        ),
    ] = None
    embeddings_model: Annotated[str | None, Meta(description="the name of the model for that API")] = None
    embeddings_key: Annotated[Secret | None, Meta(description="the key for that API")] = None
    reranker: Annotated[
        str | None,
        Meta(
            description="the cross-encoder that ranks the first passages again: onnx:PATH of a local folder",
            extra={"path_after": LOCAL_MODELS},
        ),
    ] = None
    reranked: Annotated[Count, Meta(description="the passages that it reads for each query")] = 30
    rerank_seconds: Annotated[
        float, Meta(gt=0, description="the seconds after which it reads no more passages for a query")
    ] = 2.0

    def __post_init__(self) -> None:
        if not self.refresh > 0:
            raise ConfigError(f"refresh must be more than 0 seconds, not {self.refresh}")
        if self.reranked < 1 or not self.rerank_seconds > 0:
            raise ConfigError("reranked and rerank_seconds must be more than 0")
        if self.embeddings is not None and self.local_embeddings is None and not self.embeddings_model:
            raise ConfigError("Embeddings need a model (embeddings_model)")

    @property
    def local_embeddings(self) -> str | None:
        """The setting ``embeddings`` if it names a model in a local folder."""
        found = self.embeddings
        return found if found is not None and found.partition(":")[0] in LOCAL_MODELS else None

    @property
    def contents(self) -> tuple[object, ...]:
        """Options that determine the contents of an index. Different values need a different index."""
        model = self.local_embeddings or self.embeddings_model
        return self.max_file_size, self.max_total_size, self.mime_types, self.exclude, model
