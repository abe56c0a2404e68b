// Conversations with a model: the list, the one that is shown, and what goes with the next message.

import { get, post, ask, send, path, toProblem, type ProblemError } from "./api";
import { basket } from "./basket.svelte";
import type { ChatView, ChatApproval, ChatSummary, ModelList } from "./chat-types";
import { router } from "./router.svelte";
import { studio } from "./studio.svelte";
import type { Key } from "./types";
import { ui } from "./ui.svelte";

class Chats {
  list = $state.raw<ChatSummary[]>([]);
  words = $state("");
  current = $state.raw<ChatView | null>(null);
  problem = $state.raw<ProblemError | null>(null);
  sending = $state(false);
  draft = $state("");
  /** The message takes the place of the last one. */
  replacing = $state(false);
  attachments = $state.raw<Key[]>([]);
  /** What is in the context goes with the next message. */
  withContext = $state(false);
  models = $state.raw<ModelList | null>(null);
  private loading = false;
  private again = false;

  constructor() {
    studio.on("chat", (id) => {
      if (id === null || id === this.current?.id) void this.refresh();
      if (!this.current?.running || id !== this.current.id) void this.find();
    });
  }

  /** Load the conversations that match the words of the search. */
  async find(): Promise<void> {
    const words = this.words;
    try {
      const { chats } = await get<{ chats: ChatSummary[] }>(path("/api/chats", { q: words }));
      if (words === this.words) this.list = chats;
    } catch (error) {
      this.problem = toProblem(error);
    }
  }

  /** Show a conversation; an empty id begins a new one. */
  async open(id: string): Promise<void> {
    if (id === (this.current?.id ?? "")) return;
    this.problem = null;
    this.replacing = false;
    this.current = null;
    if (!id) return;
    try {
      const chat = await get<ChatView>(`/api/chats/${encodeURIComponent(id)}`);
      if (router.current.chat === id) this.current = chat;
    } catch (error) {
      this.problem = toProblem(error);
    }
  }

  /** Load what is new in the conversation; one request at a time. */
  async refresh(): Promise<void> {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    do {
      this.again = false;
      const known = this.current;
      if (!known) break;
      try {
        this.take(await get<ChatView>(path(`/api/chats/${encodeURIComponent(known.id)}`, { first: known.stable, revision: known.revision })));
      } catch (error) {
        const problem = toProblem(error);
        if (problem.status === 404 && this.current?.id === known.id) router.go({ chat: "" }, true);
      }
    } while (this.again);
    this.loading = false;
  }

  private take(chat: ChatView): void {
    const known = this.current;
    if (known && known.id !== chat.id) return;
    this.current = chat.first && known ? { ...chat, first: 0, entries: [...known.entries.slice(0, chat.first), ...chat.entries] } : chat;
  }

  /** Send the draft with what is attached. */
  async send(): Promise<void> {
    const text = this.draft.trim();
    if (!text || this.sending || this.current?.running) return;
    this.sending = true;
    this.problem = null;
    try {
      if (!this.current) {
        this.current = await post<ChatView>("/api/chats", {});
        router.go({ region: "chat", chat: this.current.id }, true);
      }
      const context = this.withContext ? basket.body : null;
      const body = { text, attachments: this.attachments, context, replace: this.replacing };
      const chat = await post<ChatView>(`/api/chats/${encodeURIComponent(this.current.id)}/messages`, body);
      this.draft = "";
      this.attachments = [];
      this.withContext = this.replacing = false;
      this.take(chat);
      void this.find();
    } catch (error) {
      this.problem = toProblem(error);
    }
    this.sending = false;
  }

  /** Put the last message into the draft, to send it again. */
  edit(): void {
    const last = this.current?.entries.findLast(({ role }) => role === "user");
    this.draft = last?.parts.filter(({ kind }) => kind === "text").map(({ text }) => text).join("\n") ?? "";
    this.replacing = true;
  }

  stop = (): Promise<void> => this.change("POST", "/stop", {});
  retry = (): Promise<void> => this.change("POST", "/retry", {});
  rename = (title: string): Promise<void> => this.change("PATCH", "", { title });

  decide(approval: ChatApproval, decision: "yes" | "always" | "no", reason = ""): Promise<void> {
    return this.change("POST", `/calls/${encodeURIComponent(approval.id)}`, { decision, digest: approval.digest, reason });
  }

  async useModel(model: string): Promise<void> {
    this.current ??= await post<ChatView>("/api/chats", {});
    await this.change("PATCH", "", { model });
    if (!this.problem) studio.model = this.current.model;
    if (router.current.chat !== this.current.id) router.go({ region: "chat", chat: this.current.id }, true);
  }

  private async change(method: string, place: string, body: object): Promise<void> {
    if (!this.current) return;
    this.problem = null;
    try {
      const chat = await ask<ChatView | undefined>(method, `/api/chats/${encodeURIComponent(this.current.id)}${place}`, body);
      if (chat) this.take(chat);
    } catch (error) {
      this.problem = toProblem(error);
    }
    await this.refresh();
    await this.find();
  }

  async delete(id: string): Promise<void> {
    try {
      await send("DELETE", `/api/chats/${encodeURIComponent(id)}`);
      if (this.current?.id === id) {
        this.current = null;
        router.go({ chat: "" }, true);
      }
    } catch (error) {
      this.problem = toProblem(error);
    }
    await this.find();
  }

  async loadModels(): Promise<void> {
    try {
      this.models = await get<ModelList>("/api/models");
    } catch (error) {
      this.problem = toProblem(error);
    }
  }

  /** Attach a resource to the next message, and show the chat. */
  attach(key: Key): void {
    if (!this.attachments.some(({ server, uri }) => server === key.server && uri === key.uri)) {
      this.attachments = [...this.attachments, { server: key.server, uri: key.uri }];
    }
    this.show();
  }

  /** Attach what is in the context to the next message, and show the chat. */
  attachContext(): void {
    this.withContext = true;
    this.show();
  }

  private show(): void {
    ui.drawer = "chat";
    router.go({ region: "chat", chat: this.current?.id ?? "" });
  }
}

export const chats = new Chats();
