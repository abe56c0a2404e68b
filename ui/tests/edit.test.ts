import { expect, test } from "vitest";
import { memberText, problemOf, setMember } from "../src/lib/edit";

const TYPED = '{ "big": 12345678901234567890,\n  "nested": {"a": [1, "}"]},\n  "text": "a \\" b" }';

test("a change of one member leaves everything else as it was typed", () => {
  expect(setMember(TYPED, "nested", "true")).toBe('{ "big": 12345678901234567890,\n  "nested": true,\n  "text": "a \\" b" }');
  expect(setMember(TYPED, "text", '"c"')).toContain("12345678901234567890");
});

test("members are added and removed", () => {
  expect(setMember("{}", "a", "1")).toBe('{\n  "a": 1\n}');
  expect(JSON.parse(setMember('{"a": 1}', "b", "[2]"))).toEqual({ a: 1, b: [2] });
  expect(JSON.parse(setMember(TYPED, "big", null))).toEqual({ nested: { a: [1, "}"] }, text: 'a " b' });
  expect(JSON.parse(setMember(TYPED, "text", null))).not.toHaveProperty("text");
  expect(setMember('{"a": 1}', "a", null)).toBe("{}");
  expect(setMember("{}", "a", null)).toBe("{}");
});

test("the text of a member is returned, and of two members with a name the last", () => {
  expect(memberText(TYPED, "big")).toBe("12345678901234567890");
  expect(memberText(TYPED, "nested")).toBe('{"a": [1, "}"]}');
  expect(memberText('{"a": 1, "a": 2}', "a")).toBe("2");
  expect(memberText(TYPED, "none")).toBeNull();
});

test("only a JSON object is valid", () => {
  expect(problemOf("{}")).toBeNull();
  expect(problemOf("[1]")?.word).toBe("notObject");
  expect(problemOf('{"a": }')?.word).toBe("invalidJson");
});
