import { expect, test } from "vitest";
import { formatRoute, parseRoute } from "../src/lib/route";

const parse = (path: string) => parseRoute(new URL(path, "http://127.0.0.1:8123"));

test.each([
  "/browse",
  "/browse?tab=tools&q=type%3Aimage+-draft&as=list&sort=size",
  "/s/docs/r/file%3A%2F%2F%2Fa%2Fb%20c%23d.md?view=text#L120-L140",
  "/s/my%20server/r/notes%3A%2F%2F%E6%97%A7%E4%B9%A6?view=changes",
  "/s/docs/t/add?args=%7B%22a%22%3A1%7D",
  "/s/docs/x/file%3A%2F%2F%2F%7B%2Bpath%7D",
  "/s/docs/p/summary",
  "/context?question=Who%3F&budget=2000",
  "/servers",
])("the address %s is restored", (address) => {
  expect(formatRoute(parse(address))).toBe(address);
});

test("a resource's address gives its server, URI and lines", () => {
  const { selection, lines, view } = parse("/s/docs/r/file%3A%2F%2F%2Fa.md?view=text#L7");
  expect(selection).toEqual({ kind: "resource", server: "docs", uri: "file:///a.md" });
  expect(lines).toEqual([7, 7]);
  expect(view).toBe("text");
});

test("unknown parts of an address are ignored", () => {
  const route = parse("/s/%E0%A4%A/z/?view=nonsense&sort=evil&budget=-1#Lx");
  expect(route).toMatchObject({ selection: { kind: "none" }, view: null, sort: "name", budget: null, lines: null });
});
