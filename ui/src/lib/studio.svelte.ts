// What the host knows, as the page needs it: servers, questions and events of lists and resources.

import { deliver, get, post, recover, toProblem, type ProblemError } from "./api";
import { EventStream, type LinkState } from "./stream";
import { token } from "./token";
import { keyText, type Key, type Kind, type QuestionView, type ServerStatus, type StudioState, type StreamEvent, type TaskView } from "./types";
import { ui } from "./ui.svelte";
import { t } from "./words.svelte";

type Listeners = {
  list: (kind: Kind | null) => void;
  resource: (key: Key | null, version: string | null) => void;
  wire: () => void;
  doctor: (server: string) => void;
  interface: (server: string) => void;
  chat: (id: string | null) => void;
};

class Studio {
  phase = $state<"loading" | "ready" | "unauthorised" | "unreachable">("loading");
  link = $state<LinkState>("connecting");
  servers = $state.raw<ServerStatus[]>([]);
  questions = $state.raw<QuestionView[]>([]);
  /** Tasks that were started here, the last one first. */
  tasks = $state.raw<TaskView[]>([]);
  version = $state("");
  /** Name of the current model; null: none. */
  model = $state<string | null>(null);
  searching = $state(false);
  /** Name of the session file that the timeline shows; null: the messages of the servers. */
  recording = $state<string | null>(null);
  problem = $state.raw<ProblemError | null>(null);
  /** Changes of what servers offer, since the page was opened. */
  interfaceChanges = $state(0);

  private stream: EventStream | null = null;
  private listeners: { [K in keyof Listeners]: Set<Listeners[K]> } = { list: new Set(), resource: new Set(), chat: new Set(), wire: new Set(), doctor: new Set(), interface: new Set() };
  private interests = new Map<string, Key[]>();
  private sentInterest = "";
  private sending = 0;

  /** Load the state and follow the events. */
  async start(): Promise<void> {
    if (!token()) {
      this.phase = "unauthorised";
      return;
    }
    try {
      const seq = await this.load();
      this.stream ??= new EventStream(seq, {
        event: (event) => this.take(event),
        link: (link) => this.linked(link),
        interest: (tab, keys) => this.interestOf(`tab ${tab}`, keys),
      });
      this.stream.showing(this.ownKeys());
    } catch (error) {
      this.problem = toProblem(error);
      this.phase = this.problem.status === 401 ? "unauthorised" : "unreachable";
    }
  }

  private async load(): Promise<number> {
    const state = await get<StudioState>("/api/state");
    this.servers = state.servers;
    this.questions = state.questions;
    this.tasks = state.tasks;
    this.version = state.version;
    this.model = state.model;
    this.searching = state.searching;
    if (state.recording !== null && state.recording !== this.recording) ui.drawer = "wire";
    this.recording = state.recording;
    this.phase = "ready";
    this.stream?.restart(state.seq);
    return state.seq;
  }

  server(name: string): ServerStatus | undefined {
    return this.servers.find((server) => server.name === name);
  }

  on<K extends keyof Listeners>(type: K, listener: Listeners[K]): () => void {
    this.listeners[type].add(listener);
    return () => this.listeners[type].delete(listener);
  }

  private linked(link: LinkState): void {
    if (link === "refused") this.phase = "unauthorised";
    if (link === "live" && this.link === "lost") {
      void recover();
      this.sentInterest = "";
      this.sendInterest();
    }
    if (link !== "connecting" || this.link !== "lost") this.link = link;
  }

  private take(event: StreamEvent): void {
    switch (event.type) {
      case "server": {
        const known = this.servers.some(({ name }) => name === event.server.name);
        this.servers = known
          ? this.servers.map((server) => (server.name === event.server.name ? event.server : server))
          : [...this.servers, event.server];
        break;
      }
      case "serverGone":
        this.servers = this.servers.filter(({ name }) => name !== event.name);
        break;
      case "list":
        this.listeners.list.forEach((listener) => listener(event.kind));
        break;
      case "resource":
        this.listeners.resource.forEach((listener) => listener(event.key, event.version));
        break;
      case "wire":
        this.listeners.wire.forEach((listener) => listener());
        break;
      case "doctor":
        this.listeners.doctor.forEach((listener) => listener(event.name));
        break;
      case "interface":
        this.interfaceChanges++;
        ui.say(t("interfaceChanged", { name: event.name }));
        this.listeners.interface.forEach((listener) => listener(event.name));
        break;
      case "operation":
        deliver(event.operation);
        break;
      case "question":
        this.questions = [...this.questions.filter(({ id }) => id !== event.question.id), event.question];
        break;
      case "questionClosed":
        this.questions = this.questions.filter(({ id }) => id !== event.id);
        break;
      case "task":
        this.tasks = this.tasks.some(({ id }) => id === event.task.id)
          ? this.tasks.map((task) => (task.id === event.task.id ? event.task : task))
          : [event.task, ...this.tasks];
        break;
      case "taskGone":
        this.tasks = this.tasks.filter(({ id }) => id !== event.id);
        break;
      case "chat":
        this.listeners.chat.forEach((listener) => listener(event.id));
        break;
      case "reset":
        void this.reset();
    }
  }

  private async reset(): Promise<void> {
    try {
      await this.load();
    } catch {
      return; // the stream reconnects, and its next reset loads the state again
    }
    await recover();
    this.listeners.list.forEach((listener) => listener(null));
    this.listeners.resource.forEach((listener) => listener(null, null));
    this.listeners.wire.forEach((listener) => listener());
    this.listeners.chat.forEach((listener) => listener(null));
  }

  private ownKeys(): Key[] {
    return [...this.interests].filter(([name]) => !name.startsWith("tab ")).flatMap(([, keys]) => keys);
  }

  private interestOf(name: string, keys: Key[]): void {
    if (keys.length) this.interests.set(name, keys);
    else this.interests.delete(name);
    this.sendInterest();
  }

  /** Say which keys a region shows; the host reports changes of these resources. */
  interest(region: string, keys: Key[]): void {
    this.interestOf(region, keys);
    this.stream?.showing(this.ownKeys());
  }

  /** Send the keys of all regions, once for all changes of a moment: one preview closes when another one opens. */
  private sendInterest(): void {
    clearTimeout(this.sending);
    this.sending = window.setTimeout(() => this.postInterest());
  }

  private postInterest(): void {
    const keys = new Map([...this.interests.values()].flat().map((key) => [keyText(key), key]));
    const text = JSON.stringify({ keys: [...keys.values()] });
    if (text === this.sentInterest) return;
    this.sentInterest = text;
    post("/api/interest", text).catch(() => (this.sentInterest = ""));
  }
}

export const studio = new Studio();
