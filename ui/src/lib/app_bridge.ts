// Messages between an app (MCP Apps) and the page: JSON-RPC in messages of its frame, and nothing else.

import type { Json, Struct } from "./types";

/** What the page does for an app. */
export interface AppHost {
  /** Send a message to the app. */
  post(message: Struct): void;
  /** Context of the host, and capabilities, for `ui/initialize`. */
  readonly facts: { hostInfo: Struct; hostCapabilities: Struct; hostContext: Struct };
  /** Ask the user, and call a tool of the app's own server. Raises: Error with the reason. */
  call(name: string, values: Struct): Promise<Struct>;
  /** Ask the user, and open a URL. Return false if the user refuses. */
  open(url: URL): Promise<boolean>;
  resize(height: number): void;
}

const VERSION = "2026-01-26";
const MAX_LENGTH = 1_000_000;
const MAX_WAITING = 4;
const HEIGHTS = { least: 48, most: 720 };
const DENIED = -32000;
const INVALID = -32602;
const UNKNOWN = -32601;

class Refusal extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

const isStruct = (value: unknown): value is Struct => typeof value === "object" && value !== null && !Array.isArray(value);

/** Return a message as plain JSON, or null if it is none, or is too long. */
function read(data: unknown): Struct | null {
  try {
    const text = JSON.stringify(data);
    const message: unknown = text.length > MAX_LENGTH ? null : JSON.parse(text);
    return isStruct(message) && message.jsonrpc === "2.0" ? message : null;
  } catch {
    return null;
  }
}

export class AppBridge {
  private state: "new" | "greeted" | "ready" | "closed" = "new";
  private waiting = 0;
  private tearing: (() => void) | null = null;

  constructor(
    private readonly host: AppHost,
    private readonly input: Struct,
    private readonly result: Struct,
  ) {}

  /** Handle a message of the app. */
  async receive(data: unknown): Promise<void> {
    const message = read(data);
    if (message === null || this.state === "closed") return;
    const { id, method } = message;
    const params = isStruct(message.params) ? message.params : {};
    if (typeof method !== "string") {
      if (id === "teardown") this.tearing?.();
    } else if (typeof id === "string" || typeof id === "number") await this.answer(id, method, params);
    else this.notified(method, params);
  }

  private async answer(id: string | number, method: string, params: Struct): Promise<void> {
    let answer: Struct;
    try {
      answer = { result: await this.request(method, params) };
    } catch (error) {
      const { code, message } = error instanceof Refusal ? error : new Refusal(DENIED, error instanceof Error ? error.message : String(error));
      answer = { error: { code, message } };
    }
    this.send({ id, ...answer });
  }

  private async request(method: string, params: Struct): Promise<Json> {
    if (method === "ui/initialize") {
      if (this.state === "new") this.state = "greeted";
      return { protocolVersion: VERSION, ...this.host.facts } as Struct;
    }
    if (method === "ping") return {};
    if (method === "ui/request-display-mode") return { mode: "inline" };
    if (method !== "tools/call" && method !== "ui/open-link") throw new Refusal(UNKNOWN, `${method.slice(0, 100)} is not available to apps here`);
    if (this.state !== "ready") throw new Refusal(DENIED, "Send ui/notifications/initialized first");
    if (this.waiting >= MAX_WAITING) throw new Refusal(DENIED, "Too many requests wait for the user");
    this.waiting++;
    try {
      return method === "tools/call" ? await this.call(params) : await this.open(params);
    } finally {
      this.waiting--;
    }
  }

  private call({ name, arguments: values = {} }: Struct): Promise<Struct> {
    if (typeof name !== "string" || !isStruct(values)) throw new Refusal(INVALID, "A call needs a name and an object of arguments");
    return this.host.call(name, values);
  }

  private async open({ url }: Struct): Promise<Struct> {
    const parsed = typeof url === "string" && URL.canParse(url) ? new URL(url) : null;
    if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password) throw new Refusal(INVALID, "Invalid URL");
    if (!(await this.host.open(parsed))) throw new Refusal(DENIED, "Link opening denied by user");
    return {};
  }

  private notified(method: string, params: Struct): void {
    if (method === "ui/notifications/initialized" && this.state === "greeted") {
      this.state = "ready";
      this.send({ method: "ui/notifications/tool-input", params: { arguments: this.input } });
      this.send({ method: "ui/notifications/tool-result", params: this.result });
    } else if (method === "ui/notifications/size-changed" && typeof params.height === "number") {
      this.host.resize(Math.round(Math.min(HEIGHTS.most, Math.max(HEIGHTS.least, params.height))));
    }
  }

  /** Tell the app about a change of the host's context. */
  changed(context: Struct): void {
    if (this.state === "ready") this.send({ method: "ui/notifications/host-context-changed", params: context });
  }

  /** Tell the app that it ends, and wait until it agrees, for a second at most. */
  async close(): Promise<void> {
    if (this.state === "ready") {
      await new Promise<void>((resolve) => {
        this.tearing = resolve;
        this.send({ id: "teardown", method: "ui/resource-teardown", params: { reason: "closed" } });
        setTimeout(resolve, 1000);
      });
    }
    this.state = "closed";
  }

  private send(message: Struct): void {
    if (this.state !== "closed") this.host.post({ jsonrpc: "2.0", ...message });
  }
}
