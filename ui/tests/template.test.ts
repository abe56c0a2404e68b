import { expect, test } from "vitest";
import { expand, variablesOf } from "../src/lib/template";

// Examples of RFC 6570, sections 3.2.2 to 3.2.9.
const VALUES = { var: "value", hello: "Hello World!", path: "/foo/bar", x: "1024", y: "768", empty: "", list: ["red", "green", "blue"] };

test.each([
  ["{var}", "value"],
  ["{hello}", "Hello%20World%21"],
  ["{var:3}", "val"],
  ["{x,y}", "1024,768"],
  ["{+hello}", "Hello%20World!"],
  ["{+path}/here", "/foo/bar/here"],
  ["{#path,x}", "#/foo/bar,1024"],
  ["X{.list*}", "X.red.green.blue"],
  ["{/list}", "/red,green,blue"],
  ["{/list*}", "/red/green/blue"],
  ["{;x,y,empty}", ";x=1024;y=768;empty"],
  ["{?x,y,empty}", "?x=1024&y=768&empty="],
  ["{?list*}", "?list=red&list=green&list=blue"],
  ["?fixed=yes{&x}", "?fixed=yes&x=1024"],
  ["{undefined}", ""],
  ["{?undefined,x}", "?x=1024"],
])("the template %s expands to %s", (template, uri) => {
  expect(expand(template, VALUES)).toBe(uri);
});

test("variables are found once, in their order", () => {
  expect(variablesOf("db://{db}/{table}{?limit,db}").map(({ name }) => name)).toEqual(["db", "table", "limit"]);
});
