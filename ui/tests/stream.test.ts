import { expect, test } from "vitest";
import { EventParser } from "../src/lib/stream";

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
