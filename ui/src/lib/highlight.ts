// Asks the worker for highlighted code. The worker starts with the first request.

import workerUrl from "./highlight.worker.ts?worker&url";
import type { Token } from "./tokens";

interface Policy {
  createScriptURL(url: string): unknown;
}
type Factory = { createPolicy(name: string, rules: { createScriptURL(url: string): string }): Policy };

const LONGEST = 200_000;
let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, (lines: Token[][] | null) => void>();

function start(): Worker {
  const factory = (globalThis as { trustedTypes?: Factory }).trustedTypes;
  const policy = factory?.createPolicy("carrel", { createScriptURL: () => workerUrl });
  const made = new Worker((policy?.createScriptURL(workerUrl) ?? workerUrl) as string, { type: "module" });
  made.onmessage = ({ data }: MessageEvent<{ id: number; lines: Token[][] | null }>) => {
    waiting.get(data.id)?.(data.lines);
    waiting.delete(data.id);
  };
  return made;
}

/** Return the tokens of each line, or null if the language is unknown or the text is very long. */
export function highlight(language: string, text: string): Promise<Token[][] | null> {
  if (text.length > LONGEST) return Promise.resolve(null);
  worker ??= start();
  const id = ++last;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker!.postMessage({ id, language, text });
  });
}
