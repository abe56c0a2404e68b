// Types of the HTTP interface for authors of servers.

import type { Hunk, Kind, Problem } from "./types";

export interface WireRow {
  number: number;
  time: number;
  server: string;
  connection: number;
  direction: "sent" | "received";
  kind: "request" | "response" | "notification" | "batch" | "other";
  method: string | null;
  id: string | number | null;
  target: string | null;
  revision: string | null;
  counterpart: number | null;
  duration: number | null;
  bytes: number;
  error: string | null;
  invalid: string[];
  status: number | null;
}

export interface WireWindow {
  total: number;
  offset: number;
  rows: WireRow[];
  last: number;
  all: number;
  dropped: number;
  servers: string[];
  methods: string[];
  /** Name of the session file that is shown; null: the messages of the servers. */
  recording: string | null;
}

export interface HTTPView {
  method: string;
  status: number;
  sent: { [name: string]: string };
  received: { [name: string]: string };
}

export interface WireDetail {
  row: WireRow;
  text: string;
  http: HTTPView | null;
  counterpart: WireRow | null;
  counterpartText: string | null;
  draft: string | null;
  /** Number of the response to the request before with the same method and target. */
  before: number | null;
  changes: Hunk[] | null;
}

export interface ResendResult {
  sent: WireRow | null;
  received: WireRow | null;
  text: string | null;
  failure: string | null;
  hunks: Hunk[] | null;
}

/** Request that clients of two revisions can send; `fixed`: the only revision by the configuration. */
export interface ComparableRequest {
  number: number;
  server: string;
  method: string;
  target: string | null;
  revisions: string[];
  old: string;
  new: string;
  fixed: string | null;
}

export interface ComparedMessage {
  row: WireRow;
  text: string;
}

export interface Comparison {
  revisions: [string, string];
  failures: [string | null, string | null];
  pairs: { old: ComparedMessage | null; new: ComparedMessage | null; hunks: Hunk[] | null }[];
}

export interface FindingView {
  rule: string;
  severity: "error" | "warning" | "advice";
  title: string;
  locations: string[];
  count: number;
  advice: string;
  specification: string;
}

export interface DoctorView {
  server: string;
  state: "none" | "running" | "done" | "failed" | "cancelled";
  done: string[];
  current: string | null;
  findings: FindingView[];
  checks: { [kind: string]: number };
  timing: { [kind: string]: number };
  notes: string[];
  revision: string;
  score: number | null;
  error: Problem | null;
}

export interface ItemChange {
  kind: Kind;
  name: string;
  change: "added" | "removed" | "changed";
  hunks: Hunk[];
}

export interface InterfaceChange {
  server: string;
  time: number;
  items: ItemChange[];
  more: number;
}
