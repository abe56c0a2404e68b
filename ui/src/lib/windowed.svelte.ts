// A long list of which only windows are here: pages are fetched when their rows are shown.

import { isAbort, toProblem, type ProblemError } from "./api";
import type { ListWindow } from "./types";

export type FetchWindow<T> = (offset: number, limit: number, signal: AbortSignal, around?: T) => Promise<ListWindow<T>>;

export class Windowed<T> {
  total = $state(0);
  /** False until the first window has arrived. */
  loaded = $state(false);
  busy = $state(false);
  problem = $state.raw<ProblemError | null>(null);

  private pages = $state.raw<ReadonlyMap<number, readonly T[]>>(new Map());
  private range: [number, number] = [0, 0];
  private pumping = false;
  private controller = new AbortController();

  constructor(
    private readonly fetchWindow: FetchWindow<T>,
    private readonly keyOf: (row: T) => string = String,
    readonly pageSize = 100,
  ) {}

  /** Return a row, or undefined while its page is not here. */
  row(index: number): T | undefined {
    return this.pages.get(Math.floor(index / this.pageSize))?.[index % this.pageSize];
  }

  /** Return the index of a row that is here, or -1. */
  indexOf(key: string): number {
    for (const [page, rows] of this.pages) {
      const index = rows.findIndex((row) => this.keyOf(row) === key);
      if (index >= 0) return page * this.pageSize + index;
    }
    return -1;
  }

  /** Fetch the pages of the rows first to last, unless they are here. */
  show(first: number, last: number): void {
    this.range = [first, last];
    void this.pump();
  }

  private missing(): number | null {
    const end = Math.min(this.range[1], Math.max(this.total - 1, 0));
    for (let page = Math.floor(this.range[0] / this.pageSize); page <= Math.floor(end / this.pageSize); page++) {
      if (!this.pages.has(page)) return page;
    }
    return null;
  }

  private async pump(): Promise<void> {
    if (this.pumping || this.busy || !this.loaded) return;
    this.pumping = true;
    try {
      for (let page = this.missing(); page !== null; page = this.missing()) {
        const { signal } = this.controller;
        const window = await this.fetchWindow(page * this.pageSize, this.pageSize, signal);
        if (signal.aborted) return;
        this.pages = new Map(this.pages).set(page, window.rows);
        this.total = window.total;
      }
      this.problem = null;
    } catch (error) {
      if (!isAbort(error)) this.problem = toProblem(error);
    } finally {
      this.pumping = false;
    }
  }

  /**
   * Fetch the visible rows again and replace all pages at once.
   * With an anchor (the first visible row) return how many rows it moved.
   */
  async reload(anchor?: T): Promise<number> {
    this.controller.abort();
    const controller = (this.controller = new AbortController());
    this.busy = true;
    let moved = 0;
    try {
      const before = anchor === undefined ? -1 : this.indexOf(this.keyOf(anchor));
      const fresh = new Map<number, readonly T[]>();
      let [first, last] = this.range;
      let total = 0;
      if (anchor !== undefined && before >= 0) {
        const around = await this.fetchWindow(first, this.pageSize, controller.signal, anchor);
        const index = around.rows.findIndex((row) => this.keyOf(row) === this.keyOf(anchor));
        if (index >= 0) moved = around.offset + index - before;
        total = around.total;
        first += moved;
        last += moved;
      }
      for (let page = Math.max(0, Math.floor(first / this.pageSize)); page <= Math.floor(last / this.pageSize); page++) {
        const window = await this.fetchWindow(page * this.pageSize, this.pageSize, controller.signal);
        total = window.total;
        fresh.set(page, window.rows);
        if ((page + 1) * this.pageSize >= total) break;
      }
      if (controller.signal.aborted) return 0;
      this.pages = fresh;
      this.total = total;
      this.loaded = true;
      this.problem = null;
    } catch (error) {
      if (controller !== this.controller) return 0;
      if (!isAbort(error)) this.problem = toProblem(error);
    } finally {
      if (controller === this.controller) this.busy = false;
    }
    void this.pump();
    return moved;
  }

  /** Start with a window that was fetched elsewhere; its offset must be the start of a page. */
  put(window: ListWindow<T>): void {
    this.pages = new Map([[Math.floor(window.offset / this.pageSize), window.rows]]);
    this.total = window.total;
    this.loaded = true;
  }

  /** Empty the list, to show other contents. */
  clear(): void {
    this.controller.abort();
    this.controller = new AbortController();
    this.pages = new Map();
    this.total = 0;
    this.loaded = false;
    this.busy = false;
    this.problem = null;
  }
}
