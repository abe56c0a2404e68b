import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ask, awaitOperation, deliver, operate, path, ProblemError } from "../src/lib/api";
import type { Operation } from "../src/lib/types";

const respond = (status: number, body: unknown, type = "application/json") =>
  Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { "content-type": type } }));
const operation = (id: string, state: Operation["state"], result: unknown = null): Operation => ({
  id, kind: "read", state, progress: null, result, error: null,
}); // prettier-ignore
const fetching = vi.fn<typeof fetch>();

beforeEach(() => {
  sessionStorage.setItem("carrel-token", "secret");
  vi.stubGlobal("fetch", fetching);
});
afterEach(() => {
  fetching.mockReset();
  vi.unstubAllGlobals();
});

test("a query leaves out empty values and repeats arrays", () => {
  expect(path("/api/tree", { open: ["a", "b"], q: "", offset: 0, around: null })).toBe("/api/tree?open=a&open=b&offset=0");
});

test("every request has the token in a header, and not in its URL", async () => {
  fetching.mockReturnValueOnce(respond(200, {}));
  await ask("GET", "/api/state");
  const [url, init] = fetching.mock.calls[0]!;
  expect((init!.headers as Record<string, string>).Authorization).toBe("Bearer secret");
  expect(url).not.toContain("secret");
});

test("a problem of the back end becomes an error with its detail", async () => {
  fetching.mockReturnValueOnce(respond(404, { title: "Not Found", status: 404, detail: "no such server" }, "application/problem+json"));
  await expect(ask("GET", "/api/item")).rejects.toMatchObject({ status: 404, message: "no such server" });
});

test("an unreachable back end is a problem with status 0", async () => {
  fetching.mockReturnValueOnce(Promise.reject(new TypeError("failed")));
  await expect(ask("GET", "/api/state")).rejects.toBeInstanceOf(ProblemError);
});

test("a 202 is awaited until its operation is done", async () => {
  fetching.mockReturnValueOnce(respond(202, { operation: "one" }));
  const result = ask("GET", "/api/contents");
  await vi.waitFor(() => expect(fetching).toHaveBeenCalled());
  deliver(operation("one", "running"));
  fetching.mockReturnValueOnce(respond(200, operation("one", "done", { text: "late" })));
  deliver(operation("one", "done")); // the event has no result
  expect(await result).toEqual({ text: "late" });
  expect(fetching).toHaveBeenLastCalledWith("/api/operations/one", expect.objectContaining({ method: "GET" }));
});

test("an operation that ends before the request learns its id is not lost", async () => {
  deliver(operation("early", "done", 42));
  expect(await awaitOperation("early")).toBe(42);
});

test("an abort cancels the operation", async () => {
  fetching.mockReturnValue(respond(204, null));
  const controller = new AbortController();
  const result = awaitOperation("slow", controller.signal);
  controller.abort();
  await expect(result).rejects.toMatchObject({ name: "AbortError" });
  expect(fetching).toHaveBeenCalledWith("/api/operations/slow", expect.objectContaining({ method: "DELETE" }));
});

test("arguments are sent as they were typed", async () => {
  fetching.mockReturnValueOnce(respond(201, operation("call", "done", { content: [] })));
  await operate({ kind: "call", server: "s", name: "t" }, '{"id": 12345678901234567890}', new AbortController().signal, () => undefined);
  expect(fetching.mock.calls[0]![1]!.body).toBe('{"kind":"call","server":"s","name":"t","arguments":{"id": 12345678901234567890}}');
});
