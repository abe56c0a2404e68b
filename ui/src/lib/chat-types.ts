// Types of the HTTP interface for conversations.

import type { Key, Problem, Struct } from "./types";

export interface ChatApproval {
  id: string;
  digest: string;
  /** The tool is another one than was always approved. */
  changed: boolean;
  description: string | null;
  annotations: Struct;
}

export interface ChatCall {
  id: string;
  server: string;
  tool: string;
  /** JSON. */
  arguments: string;
  state: "waiting" | "asked" | "running" | "done" | "error" | "rejected" | "cancelled";
  result: string;
  size: number;
  /** Number of the message that has the result; null while there is none. */
  message: number | null;
  /** The result has more than text. */
  rich: boolean;
  progress: { progress: number; total: number | null; message: string | null } | null;
  approval: ChatApproval | null;
}

/** A call with all of its result. */
export interface CallOutcome {
  arguments: Struct;
  result: Struct;
}

export interface ChatPart {
  kind: "text" | "thinking" | "attachment" | "media" | "call" | "notice";
  text: string;
  size: number;
  key: Key | null;
  /** Number by which an answer cites an item of a context. */
  number: number | null;
  lines: [number, number] | null;
  call: ChatCall | null;
}

export interface ChatEntry {
  role: "user" | "assistant";
  parts: ChatPart[];
}

export interface ChatView {
  id: string;
  title: string;
  model: string;
  running: boolean;
  revision: number;
  /** Number of the first of the entries. */
  first: number;
  /** Number of entries that stay as they are while the revision is the same. */
  stable: number;
  entries: ChatEntry[];
  tokens: number;
  cost: number | null;
  /** Used part of the context window in percent. */
  share: number;
  retry: boolean;
  error: Problem | null;
}

export interface ChatSummary {
  id: string;
  title: string;
  model: string;
  changed: string;
  running: boolean;
}

export interface ModelList {
  current: string | null;
  models: string[];
  problems: string[];
}
