import { expect, test, vi } from "vitest";
import { EventParser, EventStream, type LinkState } from "../src/lib/stream";

const STREAM = ': ready\n\ndata: {"seq":1}\n\ndata: a\ndata: b\n\n: idle\n\ndata:c\r\n\r\n';
const EVENTS = ['{"seq":1}', "a\nb", "c"];

test("a stream is split into its events, whole and character by character", () => {
  expect(new EventParser().feed(STREAM)).toEqual(EVENTS);
  const parser = new EventParser();
  expect([...STREAM].flatMap((char) => parser.feed(char))).toEqual(EVENTS);
});

test("an event without its empty line is kept for the next chunk", () => {
  const parser = new EventParser();
  expect(parser.feed("data: half")).toEqual([]);
  expect(parser.feed(" and half\n")).toEqual([]);
  expect(parser.feed("\n")).toEqual(["half and half"]);
});

const frames = (...events: object[]): Response =>
  new Response(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""), { headers: { "content-type": "text/event-stream" } });

test("a stream that ends is opened again after the last event, and old events are not taken twice", async () => {
  const gone = { type: "serverGone" };
  const fetching = vi
    .fn<typeof fetch>()
    .mockResolvedValueOnce(frames({ ...gone, seq: 5, name: "old" }, { ...gone, seq: 6, name: "a" }, { ...gone, seq: 7, name: "b" }))
    .mockResolvedValueOnce(frames({ ...gone, seq: 7, name: "b" }, { type: "reset", seq: 3 }))
    .mockResolvedValue(new Response("{}", { status: 401 }));
  vi.stubGlobal("fetch", fetching);
  const seen: string[] = [];
  const links: LinkState[] = [];
  new EventStream(5, {
    event: (event) => void seen.push(event.type === "serverGone" ? event.name : event.type),
    link: (link) => void links.push(link),
    interest: () => undefined,
  });
  await vi.waitFor(() => expect(links.at(-1)).toBe("refused"), { timeout: 30_000 });
  expect(seen).toEqual(["a", "b", "reset"]);
  expect(fetching.mock.calls.map(([url]) => url)).toEqual(["/api/events?since=5", "/api/events?since=7", "/api/events?since=7"]);
  expect(links).toEqual(["connecting", "live", "lost", "connecting", "live", "lost", "connecting", "refused"]);
  vi.unstubAllGlobals();
}, 40_000);
