import { expect, test } from "vitest";
import { parseCsv, separatorOf } from "../src/lib/csv";
import { linesOf } from "../src/lib/document.svelte";
import { renderMarkdown } from "../src/lib/html";
import { asTable, nextRows, parseJson, RawNumber } from "../src/lib/json";
import { tokenLines } from "../src/lib/tokens";

test("quoted fields of CSV have separators, quotes and line ends in them", () => {
  expect(parseCsv('a,b\n"1,2","say ""yes""\nor no"\r\n,\n', ",")).toEqual([["a", "b"], ["1,2", 'say "yes"\nor no'], ["", ""]]);
  expect(separatorOf("a;b;c,d\n")).toBe(";");
  expect(separatorOf("a,b", "text/tab-separated-values")).toBe("\t");
});

test("JSON lines are an array, and an array of objects is a table", () => {
  expect(asTable(parseJson('{"a":1}\n{"b":[2]}\n'))).toEqual([["a", "b"], ["1", ""], ["", "[2]"]]);
  expect(asTable(parseJson("[1]"))).toBeNull();
  expect(() => parseJson("{")).toThrow(SyntaxError);
});

test("a page of a database table is a table, with the URI of the next page", () => {
  const page = { table: "orders", next: "db://orders?after=2", columns: [{ name: "id" }], rows: [{ id: 1 }, { id: 2 }] };
  expect(asTable(page)).toEqual([["id"], ["1"], ["2"]]);
  expect(nextRows(page)).toBe("db://orders?after=2");
  expect(nextRows({ next: "x" })).toBeNull();
  expect(asTable({ columns: [], rows: [] })).toBeNull();
});

test("a value of a table that is a number keeps its digits", () => {
  expect(asTable([{ id: new RawNumber("12345678901234567890") }])).toEqual([["id"], ["12345678901234567890"]]);
});

test("highlighted code becomes tokens of lines, without HTML", () => {
  const html = '<span class="hljs-string">&quot;a\n&lt;b&gt;&quot;</span> x';
  expect(tokenLines(html)).toEqual([[["hljs-string", '"a']], [["hljs-string", '<b>"'], ["", " x"]]]);
});

test("hexadecimal digits are split into lines of 16 bytes", () => {
  expect(linesOf({ text: null, hex: "0".repeat(40) })).toEqual(["0".repeat(32), "0".repeat(8)]);
});

test("Markdown has no elements of its own HTML, no sources and no live links", () => {
  const html = String(
    renderMarkdown(
      '<script>alert(1)</script><img src=x onerror=alert(1)>\n\n![a](https://example.org/x.png) [l](https://example.org) [j](javascript:alert(1))\n\n<iframe src="x"></iframe>',
    ),
  );
  const page = new DOMParser().parseFromString(html, "text/html");
  expect(page.querySelectorAll("script, img, iframe, [src], [href], [onerror]")).toHaveLength(0);
  expect(page.querySelector("[data-image]")?.getAttribute("data-image")).toBe("https://example.org/x.png");
  expect([...page.querySelectorAll("[data-href]")].map((link) => link.getAttribute("data-href"))).toEqual(["https://example.org"]);
});

test("front matter is not rendered", () => {
  expect(String(renderMarkdown("---\ntitle: x\n---\n# Y\n"))).toBe("<h1>Y</h1>\n");
});

test("items of task lists begin with a box", () => {
  const text = new DOMParser().parseFromString(String(renderMarkdown("- [x] done\n- [ ] open\n- [y] other\n\n[x] text")), "text/html").body.textContent;
  expect(text?.match(/\S.*/g)).toEqual(["☑ done", "☐ open", "[y] other", "[x] text"]);
});

test("comments in Markdown are not shown, and what looks like one in code is", () => {
  const text = "<!-- hidden -->\n\n# Title <!-- also -->here\n\n<!--\nover\n\nlines\n-->\n\n- a <!-- b --> c\n\n```\n<!-- shown -->\n```\n\n<!-- open\n";
  const html = String(renderMarkdown(text));
  expect(html).not.toMatch(/hidden|also|over|lines/);
  expect(html).toContain("Title here");
  expect(html).toMatch(/a\s+c/);
  expect(html).toContain("shown");
  expect(html).toContain("open");
});
