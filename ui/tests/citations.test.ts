import { describe, expect, it } from "vitest";
import type { ChatEntry, ChatPart } from "../src/lib/chat-types";
import { linkCitations, sourcesOf, splitCitations } from "../src/lib/citations";

const part = (more: Partial<ChatPart>): ChatPart => ({ kind: "attachment", text: "", size: 0, key: null, number: null, lines: null, call: null, ...more });
const tea = { server: "notes", uri: "note://tea" };
const entries: ChatEntry[] = [
  { role: "user", parts: [part({ key: tea, number: 1, lines: [3, 9] }), part({ key: { server: "notes", uri: "note://teapot" } })] },
];

describe("citations", () => {
  it("finds numbers and URIs, with lines", () => {
    const found = splitCitations("Hot [1], see note://teapot#L4-L6, note://tea, lines 2-3 and [2].", sourcesOf(entries));
    expect(found.filter(({ cited }) => cited).map(({ text, cited }) => [text, cited!.key.uri, cited!.lines])).toEqual([
      ["[1]", "note://tea", [3, 9]],
      ["note://teapot#L4-L6", "note://teapot", [4, 6]],
      ["note://tea, lines 2-3", "note://tea", [2, 3]],
    ]);
    expect(found.map(({ text }) => text).join("")).toBe("Hot [1], see note://teapot#L4-L6, note://tea, lines 2-3 and [2].");
  });

  it("takes the last of equal numbers, and resources that the model has read", () => {
    const call = { id: "1", server: "", tool: "read_resource", arguments: '{"server":"other","uri":"x://y"}', state: "done", result: "", size: 0, progress: null, approval: null, message: null, rich: false } as const;
    const later: ChatEntry[] = [...entries, { role: "user", parts: [part({ key: { server: "other", uri: "x://z" }, number: 1 })] }, { role: "assistant", parts: [part({ kind: "call", call })] }];
    expect(sourcesOf(later).numbers.get(1)?.key.uri).toBe("x://z");
    expect(sourcesOf(later).uris.get("x://y")).toEqual({ server: "other", uri: "x://y" });
  });

  it("links texts, but neither code blocks nor links", () => {
    const element = document.createElement("div");
    element.append("See [1] ");
    for (const name of ["pre", "a", "code"]) element.append(Object.assign(document.createElement(name), { textContent: "[1]" }));
    linkCitations(element, sourcesOf(entries), (cited, text) => Object.assign(document.createElement("b"), { textContent: `${text}${cited.key.uri}` }));
    expect(element.textContent).toBe("See [1]note://tea [1][1][1]note://tea");
  });
});
