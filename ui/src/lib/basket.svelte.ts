// The context: a question, a budget, what was pinned or removed by hand, and what the host packed.

import { isAbort, post, toProblem, type ProblemError } from "./api";
import { router } from "./router.svelte";
import { studio } from "./studio.svelte";
import { keyText, type Key, type Pack, type PackItem } from "./types";

export type Format = "markdown" | "xml";
const KEPT = "carrel-basket";

class Basket {
  question = $state("");
  budget = $state(4000);
  format = $state<Format>("markdown");
  /** The current model helps to choose. */
  askModel = $state(false);
  pins = $state.raw<Key[]>([]);
  without = $state.raw<string[]>([]);
  pack = $state.raw<Pack | null>(null);
  busy = $state(false);
  problem = $state.raw<ProblemError | null>(null);
  /** The question that the pack answers; null: only the pinned resources are packed. */
  asked = $state("");
  private changed = $state.raw<ReadonlySet<string>>(new Set());
  private controller: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as { pins: Key[]; without: string[] } | null;
      if (kept) [this.pins, this.without] = [kept.pins, kept.without];
    } catch {
      // an older or damaged value starts an empty context
    }
    studio.on("resource", (key) => {
      if (key && this.has(key)) this.changed = new Set(this.changed).add(keyText(key));
    });
  }

  has(key: Key): boolean {
    const same = (other: Key) => other.uri === key.uri && other.server === key.server;
    return this.pins.some(same) || (this.pack?.items.some(same) ?? false);
  }

  isPinned = (item: Key): boolean => this.pins.some(({ uri, server }) => uri === item.uri && server === item.server);
  isStale = (item: PackItem): boolean => item.stale || this.changed.has(keyText(item));
  readonly stale = $derived(this.pack?.items.filter((item) => this.isStale(item)).length ?? 0);
  /** Keys of everything in the context, to watch them. */
  readonly keys = $derived([...this.pins, ...(this.pack?.items ?? []).map(({ server, uri }) => ({ server, uri }))]);

  add(key: Key): void {
    this.without = this.without.filter((uri) => uri !== key.uri);
    if (!this.isPinned(key)) this.pins = [...this.pins, { server: key.server, uri: key.uri }];
    this.repack();
  }

  toggle(key: Key): void {
    if (this.has(key)) this.remove(key);
    else this.add(key);
  }

  remove(key: Key): void {
    this.pins = this.pins.filter(({ uri, server }) => uri !== key.uri || server !== key.server);
    if (this.asked && !this.without.includes(key.uri)) this.without = [...this.without, key.uri];
    if (this.pack) this.pack = { ...this.pack, items: this.pack.items.filter((item) => item.uri !== key.uri) };
    this.repack();
  }

  unpin(key: Key): void {
    this.pins = this.pins.filter(({ uri, server }) => uri !== key.uri || server !== key.server);
    this.repack();
  }

  /** Move an item up or down. The order is kept by pinning: pinned resources are packed first, in their order. */
  move(item: Key, by: -1 | 1): void {
    const items = (this.pack?.items ?? []).map(({ server, uri }) => ({ server, uri }));
    const order = [...new Map(items.map((key) => [keyText(key), key])).values()];
    const from = order.findIndex((key) => keyText(key) === keyText(item));
    const to = from + by;
    if (from < 0 || to < 0 || to >= order.length) return;
    order.splice(to, 0, ...order.splice(from, 1));
    this.pins = order;
    this.repack(0);
  }

  clear(): void {
    this.pins = [];
    this.without = [];
    this.asked = "";
    this.pack = null;
    this.problem = null;
    this.controller?.abort();
    this.busy = false;
    this.keep();
  }

  /** Let the host choose for the question. */
  choose(): void {
    this.asked = this.question.trim();
    this.without = [];
    this.repack(0);
  }

  /** Pack again, after a pause that joins several changes. */
  repack(pause = 120): void {
    this.keep();
    clearTimeout(this.timer);
    this.controller?.abort();
    if (!this.asked && !this.pins.length) {
      this.pack = null;
      this.busy = false;
      return;
    }
    this.busy = true;
    this.timer = setTimeout(() => void this.send(), pause);
  }

  private async send(): Promise<void> {
    const controller = (this.controller = new AbortController());
    try {
      const pack = await this.request(this.format, controller.signal);
      if (controller.signal.aborted) return;
      this.pack = pack;
      this.changed = new Set();
      this.problem = null;
    } catch (error) {
      if (isAbort(error) || controller !== this.controller) return;
      this.problem = toProblem(error);
    }
    this.busy = false;
  }

  /** What the host packs, as the body of a request. */
  get body(): object {
    const shown = router.current.selection;
    const open = shown.kind === "resource" ? [shown.uri] : [];
    return { question: this.asked, budget: this.budget, open, pin: this.pins.map(({ uri }) => uri), without: this.without, askModel: this.askModel };
  }

  private request(format: Format, signal?: AbortSignal): Promise<Pack> {
    return post<Pack>("/api/context", { ...this.body, format }, signal);
  }

  /** Return the packed text in a format. */
  async text(format: Format): Promise<string> {
    if (this.pack && format === this.format && !this.busy) return this.pack.text;
    return (await this.request(format)).text;
  }

  private keep(): void {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify({ pins: this.pins, without: this.without }));
    } catch {
      // the context is then lost with the tab
    }
  }
}

export const basket = new Basket();
