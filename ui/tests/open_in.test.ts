import { expect, test } from "vitest";
import { configurationText, cursorLink, vscodeLink } from "../src/lib/open_in";

const entry = { command: "carrel", args: ["serve", "./Bücher & more"], env: { TOKEN: "" } };

test("the link for VS Code has the name and the entry as JSON", () => {
  const link = vscodeLink("bücher", entry);
  expect(link).toMatch(/^vscode:mcp\/install\?[\w%.~!*'()-]+$/);
  expect(JSON.parse(decodeURIComponent(link.split("?")[1]!))).toEqual({ name: "bücher", ...entry });
});

test("the link for Cursor has the entry as base64 of UTF-8", () => {
  const link = new URL(cursorLink("a&b", entry));
  expect(link.protocol).toBe("cursor:");
  expect(link.searchParams.get("name")).toBe("a&b");
  const bytes = Uint8Array.from(atob(link.searchParams.get("config")!), (each) => each.charCodeAt(0));
  expect(JSON.parse(new TextDecoder().decode(bytes))).toEqual(entry);
});

test("the configuration has the entry by name", () => {
  expect(JSON.parse(configurationText("notes", entry))).toEqual({ mcpServers: { notes: entry } });
});
