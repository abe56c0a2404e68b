import { beforeEach, expect, test, vi } from "vitest";
import { AppBridge, type AppHost } from "../src/lib/app_bridge";
import type { Struct } from "../src/lib/types";

const sent: Struct[] = [];
const host = {
  post: (message: Struct) => void sent.push(message),
  facts: { hostInfo: { name: "host" }, hostCapabilities: {}, hostContext: { theme: "dark" } },
  call: vi.fn<AppHost["call"]>(),
  open: vi.fn<AppHost["open"]>(),
  resize: vi.fn<AppHost["resize"]>(),
};
let bridge: AppBridge;
const tell = (message: Struct) => bridge.receive({ jsonrpc: "2.0", ...message });

async function ask(method: string, params: Struct = {}): Promise<Struct> {
  await tell({ id: 1, method, params });
  return sent.pop()!;
}

async function greet(): Promise<void> {
  await ask("ui/initialize");
  await tell({ method: "ui/notifications/initialized" });
  sent.length = 0;
}

beforeEach(() => {
  vi.resetAllMocks();
  sent.length = 0;
  bridge = new AppBridge(host, { city: "Oslo" }, { content: [] });
});

test("an app gets the host, then the arguments, then the result, once", async () => {
  expect((await ask("ui/initialize")).result).toEqual({ protocolVersion: "2026-01-26", ...host.facts });
  await tell({ method: "ui/notifications/initialized" });
  await tell({ method: "ui/notifications/initialized" });
  expect(sent).toEqual([
    { jsonrpc: "2.0", method: "ui/notifications/tool-input", params: { arguments: { city: "Oslo" } } },
    { jsonrpc: "2.0", method: "ui/notifications/tool-result", params: { content: [] } },
  ]);
});

test("nothing is called or sent before the app is ready", async () => {
  await tell({ method: "ui/notifications/initialized" });
  expect(sent).toEqual([]);
  expect((await ask("tools/call", { name: "x" })).error).toMatchObject({ code: -32000 });
  expect(host.call).not.toHaveBeenCalled();
});

test("a call returns the result, or the reason why there is none", async () => {
  await greet();
  host.call.mockResolvedValueOnce({ content: [] });
  expect(await ask("tools/call", { name: "x", arguments: { a: 1 }, server: "other" })).toEqual({ jsonrpc: "2.0", id: 1, result: { content: [] } });
  expect(host.call).toHaveBeenCalledWith("x", { a: 1 });
  host.call.mockRejectedValueOnce(new Error("denied"));
  expect((await ask("tools/call", { name: "x" })).error).toEqual({ code: -32000, message: "denied" });
  for (const params of [{}, { name: 1 }, { name: "x", arguments: [] }]) expect((await ask("tools/call", params as Struct)).error).toMatchObject({ code: -32602 });
});

test("only web addresses without credentials can be opened, after the user agrees", async () => {
  await greet();
  for (const url of ["javascript:alert(1)", "file:///etc/passwd", "https://me:secret@a.example/", "vscode:x", "", 1])
    expect((await ask("ui/open-link", { url })).error).toMatchObject({ code: -32602 });
  expect(host.open).not.toHaveBeenCalled();
  host.open.mockResolvedValueOnce(false).mockResolvedValueOnce(true);
  expect((await ask("ui/open-link", { url: "https://a.example/" })).error).toMatchObject({ code: -32000 });
  expect((await ask("ui/open-link", { url: "https://a.example/" })).result).toEqual({});
});

test.each(["ui/message", "ui/update-model-context", "resources/read", "tools/list", "sampling/createMessage", "__proto__"])("%s is refused", async (method) => {
  await greet();
  expect((await ask(method)).error).toMatchObject({ code: -32601 });
});

test("only some requests wait for the user at a time", async () => {
  await greet();
  host.call.mockReturnValue(new Promise(() => undefined));
  for (let id = 0; id < 4; id++) void tell({ id, method: "tools/call", params: { name: "x" } });
  expect((await ask("tools/call", { name: "x" })).error).toMatchObject({ message: "Too many requests wait for the user" });
  expect(host.call).toHaveBeenCalledTimes(4);
});

test("other messages do nothing", async () => {
  await greet();
  const round: Struct = {};
  round.self = round;
  for (const data of [null, 1, "x", [], {}, { jsonrpc: "1.0", id: 1, method: "ping" }, { jsonrpc: "2.0", id: 1, method: "ping", more: "x".repeat(1_000_001) }, round]) await bridge.receive(data);
  await tell({ id: {}, method: "ping" });
  await tell({ id: 3, result: {} });
  expect(sent).toEqual([]);
});

test("the height of the frame has bounds", async () => {
  for (const height of [1e9, -5, 300.4, NaN, "9"]) await tell({ method: "ui/notifications/size-changed", params: { height } });
  expect(host.resize.mock.calls.flat()).toEqual([720, 48, 300]);
});

test("an app is told that it ends, and gets nothing afterwards", async () => {
  await greet();
  let ended = false;
  const closing = bridge.close().then(() => (ended = true));
  expect(sent.pop()).toMatchObject({ id: "teardown", method: "ui/resource-teardown" });
  await Promise.resolve();
  expect(ended).toBe(false);
  await tell({ id: "teardown", result: {} });
  await closing;
  await tell({ id: 9, method: "ping" });
  bridge.changed({ theme: "dark" });
  expect(sent).toEqual([]);
});
