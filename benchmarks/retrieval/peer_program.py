"""Program that runs in the environment of the peers: ``python peer_program.py NAME < input.json > output.json``.

The input has files and questions, the output the chunks that the peer returns for each question, with its time.
"""

# The packages of the peers are not in the environment of the project.
# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import time


def llamaindex(files, most):
    """Return a function that asks BM25Retriever of LlamaIndex, over the chunks of SentenceSplitter."""
    from llama_index.core import Document
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.retrievers.bm25 import BM25Retriever

    documents = [Document(text=text, id_=file) for file, text in files]
    for document in documents:
        document.excluded_embed_metadata_keys = document.excluded_llm_metadata_keys = []
    nodes = SentenceSplitter().get_nodes_from_documents(documents)
    retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=most)

    def ask(question):
        found = [each.node for each in retriever.retrieve(question) if each.score > 0]
        return [(node.ref_doc_id, node.start_char_idx, node.text) for node in found]

    return ask


def langchain(files, most):
    """Return a function that asks BM25Retriever of LangChain, over the chunks of RecursiveCharacterTextSplitter."""
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    documents = [Document(text, metadata={"file": file}) for file, text in files]
    chunks = RecursiveCharacterTextSplitter(add_start_index=True).split_documents(documents)
    retriever = BM25Retriever.from_documents(chunks)
    retriever.k = most

    def ask(question):
        found = retriever.invoke(question)
        return [(each.metadata["file"], each.metadata["start_index"], each.page_content) for each in found]

    return ask


def main():
    """Index the files, and ask the questions."""
    given = json.load(sys.stdin)
    begin = time.process_time()
    ask = {"llamaindex": llamaindex, "langchain": langchain}[sys.argv[1]](given["files"], given["most"])
    seconds = time.process_time() - begin
    answers = []
    for question in given["questions"]:
        begin = time.perf_counter()
        found = ask(question)
        answers.append({"found": found, "seconds": time.perf_counter() - begin})
    json.dump({"index": seconds, "answers": answers}, sys.stdout)


if __name__ == "__main__":
    main()
