// The event stream: fetch with the token, reconnect, one stream per browser (the tab with the lock reads and broadcasts).

import { send, ProblemError } from "./api";
import type { Key, StreamEvent } from "./types";

/** `refused`: the token belongs to an earlier launch. */
export type LinkState = "connecting" | "live" | "lost" | "refused";
type Message = { event: StreamEvent } | { link: LinkState } | { hello: string } | { interest: Key[]; tab: string };

export interface Listener {
  event(event: StreamEvent): void;
  link(link: LinkState): void;
  /** Another tab shows other resources now. */
  interest(tab: string, keys: Key[]): void;
}

/** Split a text/event-stream into the data of its events. Chunks may end anywhere. */
export class EventParser {
  private rest = "";
  private data: string[] = [];

  feed(chunk: string): string[] {
    const lines = (this.rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const events: string[] = [];
    for (const line of lines) {
      if (line.startsWith("data:")) this.data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line === "" && this.data.length) {
        events.push(this.data.join("\n"));
        this.data = [];
      }
    }
    return events;
  }
}

export class EventStream {
  private seq: number;
  private readonly channel = new BroadcastChannel("carrel-studio-events");
  private readonly tab = String(Math.random());
  private interest: Key[] = [];
  /** State of the stream, in the tab that reads it. */
  private leading: LinkState | null = null;
  private delay = 250;

  constructor(
    seq: number,
    private readonly listener: Listener,
  ) {
    this.seq = seq;
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => this.receive(data);
    this.channel.postMessage({ hello: this.tab });
    addEventListener("pagehide", () => this.channel.postMessage({ interest: [], tab: this.tab }));
    if (navigator.locks) void navigator.locks.request("carrel-studio-events", () => this.lead());
    else void this.lead();
  }

  /** Continue after a new state: events up to `seq` are part of it. */
  restart(seq: number): void {
    this.seq = seq;
  }

  /** Tell the other tabs which resources this tab shows: the host has one list for all. */
  showing(keys: Key[]): void {
    this.interest = keys;
    this.channel.postMessage({ interest: keys, tab: this.tab });
  }

  private receive(message: Message): void {
    if ("event" in message) this.take(message.event);
    else if ("link" in message) this.listener.link(message.link);
    else if ("interest" in message) this.listener.interest(message.tab, message.interest);
    else {
      if (this.leading) this.channel.postMessage({ link: this.leading });
      this.showing(this.interest);
    }
  }

  private take(event: StreamEvent): void {
    if (event.type !== "reset") {
      if (event.seq <= this.seq) return;
      this.seq = event.seq;
    }
    this.listener.event(event);
  }

  private tell(message: Message): void {
    this.channel.postMessage(message);
    if ("link" in message) this.leading = message.link;
    this.receive(message);
  }

  private async lead(): Promise<void> {
    for (;;) {
      this.tell({ link: "connecting" });
      try {
        await this.read();
      } catch (error) {
        if (error instanceof ProblemError && error.status === 401) {
          this.tell({ link: "refused" });
          return;
        }
      }
      this.tell({ link: "lost" });
      await new Promise((resolve) => setTimeout(resolve, this.delay));
      this.delay = Math.min(this.delay * 2, 5000);
    }
  }

  private async read(): Promise<void> {
    const response = await send("GET", `/api/events?since=${this.seq}`);
    if (!response.body) return;
    this.tell({ link: "live" });
    this.delay = 250;
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const data of parser.feed(value)) this.tell({ event: JSON.parse(data) as StreamEvent });
    }
  }
}
