import { expect, test } from "vitest";
import { formatAuthor, parseAuthor } from "../src/lib/author_route";
import { formatRoute, parseRoute } from "../src/lib/route";

const url = (path: string): URL => new URL(path, "http://127.0.0.1");

test.each([
  "/wire",
  "/wire?server=a+b&method=tools%2Fcall&target=x&only=invalid&text=%C3%A4&message=7",
  "/wire/compare?a=2025-06-18&b=2026-07-28&message=3",
  "/doctor/my%20server%2Fx",
])("the address %s is restored", (path) => {
  expect(formatAuthor(parseAuthor(url(path))!)).toBe(path);
  expect(formatRoute(parseRoute(url(path)))).toBe(path);
});

test("unknown values are ignored", () => {
  expect(formatAuthor(parseAuthor(url("/wire?only=odd&message=-1&x=y"))!)).toBe("/wire");
  expect(parseAuthor(url("/browse"))).toBeNull();
  expect(parseAuthor(url("/doctor/"))).toBeNull();
});
