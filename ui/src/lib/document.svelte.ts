// The contents of one resource: what is known about it, and windows of its lines.

import { get, isAbort, path, toProblem, type ProblemError } from "./api";
import type { Key, TextView, ListWindow } from "./types";
import { Windowed } from "./windowed.svelte";

const PAGE = 500;
const HEX_LINE = 32;

/** Split the window of a text, or of a hex dump, into its lines. */
export function linesOf({ text, hex }: Pick<TextView, "text" | "hex">): string[] {
  if (text !== null) return text.split("\n");
  return hex?.match(new RegExp(`.{1,${HEX_LINE}}`, "g")) ?? [];
}

export class ResourceDocument {
  meta = $state.raw<TextView | null>(null);
  problem = $state.raw<ProblemError | null>(null);
  /** True after the resource changed while it was shown. */
  changedNow = $state(false);
  readonly lines: Windowed<string>;
  private controller = new AbortController();

  constructor(readonly key: Key) {
    this.lines = new Windowed<string>((offset, limit, signal) => this.fetchLines(offset, limit, signal), String, PAGE);
  }

  private async fetchText(first: number, lines: number, signal: AbortSignal): Promise<TextView> {
    return get<TextView>(path("/api/contents", { ...this.key, first, lines }), signal);
  }

  private async fetchLines(offset: number, limit: number, signal: AbortSignal): Promise<ListWindow<string>> {
    return this.windowOf(await this.fetchText(offset + 1, limit, signal), offset);
  }

  private windowOf(text: TextView, offset: number): ListWindow<string> {
    const rows = linesOf(text);
    const atLeast = offset + rows.length + (rows.length === PAGE ? 1 : 0);
    return { total: text.lines ?? atLeast, offset, rows, seq: 0 };
  }

  /** Read the resource, beginning with the window that has a line. */
  async load(line = 1): Promise<void> {
    this.problem = null;
    const offset = Math.floor((line - 1) / PAGE) * PAGE;
    try {
      const text = await this.fetchText(offset + 1, PAGE, this.controller.signal);
      this.meta = text;
      this.lines.put(this.windowOf(text, offset));
    } catch (error) {
      if (!isAbort(error)) this.problem = toProblem(error);
    }
  }

  /** Read the resource again after a change; the view keeps its place. */
  async refresh(): Promise<void> {
    const before = this.meta?.version;
    try {
      const text = await this.fetchText(1, PAGE, this.controller.signal);
      await this.lines.reload();
      this.meta = text;
      this.problem = null;
      if (before !== undefined && before !== text.version) this.changedNow = true;
    } catch (error) {
      if (!isAbort(error)) this.problem = toProblem(error);
    }
  }

  /** Return the first `most` lines, and whether these are all. */
  async whole(most: number, signal: AbortSignal): Promise<{ text: string; complete: boolean }> {
    const parts: string[] = [];
    for (let first = 1; first <= most; ) {
      const window = await this.fetchText(first, Math.min(5000, most), signal);
      const { length } = linesOf(window);
      if (window.text !== null) parts.push(window.text);
      first += length;
      if (length && first <= (window.lines ?? first - 1)) continue;
      const text = parts.join("\n");
      // Windows do not tell whether the last line has an end; the size does.
      const ends = new TextEncoder().encode(text).length + 1 === window.size;
      return { text: ends ? `${text}\n` : text, complete: true };
    }
    return { text: parts.join("\n"), complete: false };
  }

  close(): void {
    this.controller.abort();
    this.lines.clear();
  }
}
