import { expect, test } from "vitest";
import { fieldsOf, initialText } from "../src/lib/schema";
import type { Struct } from "../src/lib/types";

const object = (properties: Struct, more: Struct = {}): Struct => ({ type: "object", properties, ...more });
const kinds = (schema: Struct) => fieldsOf(schema)?.map(({ kind }) => kind);

test("each type has its control", () => {
  const schema = object({
    a: { type: "string" },
    b: { type: "integer" },
    c: { type: "number" },
    d: { type: "boolean" },
    e: { enum: ["x", 1] },
    f: { type: "array", items: { enum: ["x", "y"] } },
    g: { type: "array", items: { type: "object" } },
    h: { type: ["string", "integer"] },
    i: { oneOf: [{ const: "x", title: "The x" }] },
  });
  expect(kinds(schema)).toEqual(["text", "integer", "number", "boolean", "choice", "choices", "json", "json", "choice"]);
});

test("references and nullable types are followed", () => {
  const schema = object(
    { a: { $ref: "#/$defs/size" }, b: { anyOf: [{ type: "integer" }, { type: "null" }], title: "B" }, c: { type: ["string", "null"] } },
    { $defs: { size: { enum: ["s", "l"] } } },
  );
  expect(kinds(schema)).toEqual(["choice", "integer", "text"]);
  expect(fieldsOf(schema)?.[1]?.label).toBe("B");
});

test("a reference to itself ends", () => {
  expect(kinds(object({ a: { $ref: "#/properties/a" } }))).toEqual(["json"]);
});

test("a choice between forms has no form", () => {
  expect(fieldsOf({ type: "object", anyOf: [object({ a: {} }), object({ b: {} })] })).toBeNull();
});

test("conditions on members leave the form as it is", () => {
  const schema = object({ a: { type: "string" }, b: { type: "integer" } }, { anyOf: [{ required: ["a"] }, { required: ["b"] }] });
  expect(kinds(schema)).toEqual(["text", "integer"]);
});

test("a schema without properties needs no arguments", () => {
  expect(fieldsOf({ type: "object" })).toEqual([]);
});

test("the arguments begin with the defaults", () => {
  const fields = fieldsOf(object({ a: { type: "integer", default: 3 }, b: { type: "string" } }, { required: ["b"] }));
  expect(JSON.parse(initialText(fields))).toEqual({ a: 3 });
  expect(fields?.map(({ required }) => required)).toEqual([false, true]);
});
