import { flushSync } from "svelte";
import { expect, test, vi } from "vitest";
import { Windowed, type FetchWindow } from "../src/lib/windowed.svelte";

/** A list on a server, which tests change. */
function listOf(rows: string[]): { rows: string[]; calls: [number, number][]; fetch: FetchWindow<string> } {
  const list = {
    rows,
    calls: [] as [number, number][],
    fetch: async (offset: number, limit: number, _: AbortSignal, around?: string) => {
      list.calls.push([offset, limit]);
      const at = around === undefined ? -1 : list.rows.indexOf(around);
      const start = at < 0 ? offset : Math.max(0, at - 2);
      return { total: list.rows.length, offset: start, rows: list.rows.slice(start, start + limit), seq: 0 };
    },
  };
  return list;
}
const numbers = (count: number) => Array.from({ length: count }, (_, index) => `row ${index}`);

test("only the pages of shown rows are fetched", async () => {
  const list = listOf(numbers(100_000));
  const source = new Windowed<string>(list.fetch, String, 10);
  source.show(0, 9);
  await source.reload();
  source.show(50_000, 50_015);
  await vi.waitFor(() => expect(source.row(50_015)).toBe("row 50015"));
  expect(list.calls).toEqual([[0, 10], [50_000, 10], [50_010, 10]]);
  expect(source.total).toBe(100_000);
  expect(source.row(20)).toBeUndefined();
});

test("a reload with an anchor tells how far the anchor moved", async () => {
  const list = listOf(numbers(50));
  const source = new Windowed<string>(list.fetch, String, 10);
  source.show(0, 9);
  await source.reload();
  source.show(20, 29);
  await vi.waitFor(() => expect(source.row(20)).toBe("row 20"));
  list.rows = ["new a", "new b", "new c", ...list.rows];
  expect(await source.reload("row 20")).toBe(3);
  flushSync();
  expect(source.row(23)).toBe("row 20");
});

test("rows stay until the new ones are here", async () => {
  const list = listOf(["a", "b"]);
  const source = new Windowed<string>(list.fetch, String, 10);
  source.show(0, 5);
  await source.reload();
  list.rows = ["c"];
  const reloading = source.reload();
  expect(source.row(0)).toBe("a");
  await reloading;
  expect(source.row(0)).toBe("c");
  expect(source.total).toBe(1);
});

test("a failure is kept, and the next reload clears it", async () => {
  let fail = true;
  const source = new Windowed<string>(() => (fail ? Promise.reject(new Error("no")) : Promise.resolve({ total: 0, offset: 0, rows: [], seq: 0 })));
  await source.reload();
  expect(source.problem?.message).toBe("no");
  fail = false;
  await source.reload();
  expect(source.problem).toBeNull();
  expect(source.loaded).toBe(true);
});
