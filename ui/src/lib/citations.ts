// Citations in answers: numbers of a context, and URIs of resources with or without lines, become links.

import type { ChatEntry } from "./chat-types";
import type { Key } from "./types";

export interface Cited {
  key: Key;
  lines: [number, number] | null;
}

/** Resources that an answer may cite: by number, and by URI. */
export interface Sources {
  numbers: Map<number, Cited>;
  uris: Map<string, Key>;
}

/** Return what the entries before an answer have attached. Of equal numbers, the last one counts. */
export function sourcesOf(entries: readonly ChatEntry[]): Sources {
  const sources: Sources = { numbers: new Map(), uris: new Map() };
  for (const { parts } of entries) {
    for (const { key, number, lines, call } of parts) {
      if (key?.server && number !== null) sources.numbers.set(number, { key, lines });
      if (key?.server) sources.uris.set(key.uri, key);
      const read = call && call.tool === "read_resource" ? resourceOf(call.arguments) : null;
      if (read) sources.uris.set(read.uri, read);
    }
  }
  return sources;
}

function resourceOf(text: string): Key | null {
  try {
    const { server, uri } = JSON.parse(text) as Record<string, unknown>;
    return typeof server === "string" && typeof uri === "string" ? { server, uri } : null;
  } catch {
    return null;
  }
}

export interface Piece {
  text: string;
  cited: Cited | null;
}

const NUMBER = /\[(\d{1,3})\]/.source;
const LINES = /(?:#L(\d+)(?:-L?(\d+))?|,? lines? (\d+)(?:\s?[-–]\s?(\d+))?)?/.source;
const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Split a text into citations and the text between them. */
export function splitCitations(text: string, { numbers, uris }: Sources): Piece[] {
  const known = [...uris.keys()].sort((a, b) => b.length - a.length).map(escaped);
  const pattern = new RegExp(known.length ? `${NUMBER}|(${known.join("|")})${LINES}` : NUMBER, "g");
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [whole, number, uri, first, last, from, to] = match;
    const cited = number ? numbers.get(Number(number)) : { key: uris.get(uri!)!, lines: range(first ?? from, last ?? to) };
    if (!cited) continue;
    if (match.index > end) pieces.push({ text: text.slice(end, match.index), cited: null });
    pieces.push({ text: whole, cited });
    end = match.index + whole.length;
  }
  if (end < text.length || !pieces.length) pieces.push({ text: text.slice(end), cited: null });
  return pieces;
}

function range(first: string | undefined, last: string | undefined): [number, number] | null {
  if (!first) return null;
  return [Number(first), Math.max(Number(first), Number(last ?? first))];
}

/** Replace the citations in the texts of an element by links. */
export function linkCitations(element: HTMLElement, sources: Sources, link: (cited: Cited, text: string) => HTMLElement): void {
  if (!sources.numbers.size && !sources.uris.size) return;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes: Text[] = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement?.closest("a, pre")) nodes.push(walker.currentNode as Text);
  for (const node of nodes) {
    const pieces = splitCitations(node.data, sources);
    if (pieces.some(({ cited }) => cited)) node.replaceWith(...pieces.map(({ text, cited }) => (cited ? link(cited, text) : text)));
  }
}
