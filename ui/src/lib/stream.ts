// The event stream: fetch with the token, reconnect, one stream per browser (the tab with the lock reads and broadcasts).

import { send, ProblemError } from "./api";
import type { StreamEvent } from "./types";

/** `refused`: the token belongs to an earlier launch. */
export type LinkState = "connecting" | "live" | "lost" | "refused";
type Message = { event: StreamEvent } | { link: LinkState };

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
  private delay = 250;

  constructor(
    seq: number,
    private readonly onEvent: (event: StreamEvent) => void,
    private readonly onLink: (link: LinkState) => void,
  ) {
    this.seq = seq;
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if ("event" in data) this.take(data.event);
      else this.onLink(data.link);
    };
    if (navigator.locks) void navigator.locks.request("carrel-studio-events", () => this.lead());
    else void this.lead();
  }

  /** Continue after a new state: events up to `seq` are part of it. */
  restart(seq: number): void {
    this.seq = seq;
  }

  private take(event: StreamEvent): void {
    if (event.type !== "reset") {
      if (event.seq <= this.seq) return;
      this.seq = event.seq;
    }
    this.onEvent(event);
  }

  private tell(message: Message): void {
    this.channel.postMessage(message);
    if ("event" in message) this.take(message.event);
    else this.onLink(message.link);
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
