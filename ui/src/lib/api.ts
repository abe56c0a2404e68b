// Requests to the back end, and waiting for operations that a peer has to answer first.

import { token } from "./token";
import type { Operation, Problem } from "./types";

/** Error response of the back end, or a failure to reach it (status 0). */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
    this.name = "ProblemError";
  }

  get status(): number {
    return this.problem.status;
  }
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";

/** Convert any thrown value to a ProblemError, so that components show one kind of error. */
export function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return new ProblemError({ title: error instanceof Error ? error.message : String(error), status: 0 });
}

type Query = Record<string, string | number | null | undefined | string[]>;

/** Build a path with a query. Leave out null, undefined and empty values; repeat the name for arrays. */
export function path(base: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) value.forEach((item) => search.append(name, item));
    else if (value !== null && value !== undefined && value !== "") search.append(name, String(value));
  }
  const text = search.toString();
  return text ? `${base}?${text}` : base;
}

/** Send a request with the token. `body` is an object, JSON text, or a file with its type. Raises: ProblemError; AbortError. */
export async function send(method: string, url: string, body?: object | string | Blob, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Authorization: `Bearer ${token() ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = body instanceof Blob ? body.type : "application/json";
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? null : typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body),
      signal: signal ?? null,
      cache: "no-store",
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ProblemError({ title: "unreachable", status: 0 });
  }
  if (!response.ok) throw new ProblemError(await readProblem(response));
  return response;
}

async function readProblem(response: Response): Promise<Problem> {
  const fallback = { title: response.statusText || `HTTP ${response.status}`, status: response.status };
  if (!/json/.test(response.headers.get("content-type") ?? "")) return fallback;
  try {
    return { ...fallback, ...((await response.json()) as Partial<Problem>) };
  } catch {
    return fallback;
  }
}

interface Waiter {
  settle: (operation: Operation) => unknown;
  progress: ((operation: Operation) => void) | undefined;
}

const waiters = new Map<string, Waiter>();
const finished = new Map<string, Operation>();

/** Deliver an operation from the event stream to the request that waits for it. */
export function deliver(operation: Operation): void {
  const waiter = waiters.get(operation.id);
  if (operation.state === "running") return waiter?.progress?.(operation);
  if (waiter) return void waiter.settle(operation);
  finished.set(operation.id, operation);
  for (const id of finished.keys()) {
    if (finished.size <= 100) break;
    finished.delete(id);
  }
}

/** Fetch every operation that a request waits for: the stream may have lost its event. */
export async function recover(): Promise<void> {
  for (const id of [...waiters.keys()]) {
    try {
      deliver((await (await send("GET", `/api/operations/${id}`)).json()) as Operation);
    } catch (error) {
      const problem = toProblem(error);
      if (problem.status === 404) deliver({ id, kind: "read", state: "failed", progress: null, result: null, error: problem.problem });
    }
  }
}

/** Wait for the result of an operation. Raises: ProblemError; AbortError, after the operation was cancelled. */
export function awaitOperation<T>(id: string, signal?: AbortSignal, progress?: (operation: Operation) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const done = () => {
      waiters.delete(id);
      clearInterval(poll);
      signal?.removeEventListener("abort", cancel);
    };
    const settle = async (operation: Operation) => {
      done();
      finished.delete(id);
      try {
        // An event has no result, which may be long.
        if (operation.state === "done" && operation.result === null) operation = (await (await send("GET", `/api/operations/${id}`)).json()) as Operation;
      } catch (error) {
        return reject(toProblem(error));
      }
      if (operation.state === "done") resolve(operation.result as T);
      else reject(new ProblemError(operation.error ?? { title: operation.state, status: 0 }));
    };
    const cancel = () => {
      done();
      send("DELETE", `/api/operations/${id}`).catch(() => undefined);
      reject(new DOMException("cancelled", "AbortError"));
    };
    const poll = setInterval(() => void recover(), 5000);
    waiters.set(id, { settle, progress });
    const early = finished.get(id);
    if (early) return void settle(early);
    if (signal?.aborted) return cancel();
    signal?.addEventListener("abort", cancel);
  });
}

/** Send a request and return its JSON result; if the answer is 202, wait for the operation. */
export async function ask<T>(method: string, url: string, body?: object | string, signal?: AbortSignal): Promise<T> {
  const response = await send(method, url, body, signal);
  if (response.status === 204) return undefined as T;
  const result = (await response.json()) as unknown;
  if (response.status !== 202) return result as T;
  return awaitOperation<T>((result as { operation: string }).operation, signal);
}

export const get = <T>(url: string, signal?: AbortSignal): Promise<T> => ask<T>("GET", url, undefined, signal);
export const post = <T>(url: string, body: object | string, signal?: AbortSignal): Promise<T> => ask<T>("POST", url, body, signal);

/** Start a call, get or read; return its result. `argumentsText` is JSON and is sent as it is. */
export async function operate<T>(
  fields: { kind: "call" | "get" | "read"; server: string; name?: string; uri?: string },
  argumentsText: string,
  signal: AbortSignal,
  progress: (operation: Operation) => void,
): Promise<T> {
  const body = `${JSON.stringify(fields).slice(0, -1)},"arguments":${argumentsText}}`;
  // Not aborted by the signal: what was started is cancelled by its id.
  const operation = (await (await send("POST", "/api/operations", body)).json()) as Operation;
  if (operation.state !== "running") deliver(operation);
  else progress(operation);
  return awaitOperation<T>(operation.id, signal, progress);
}
