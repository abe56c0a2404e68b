// Types of the HTTP interface.

export type Key = { server: string; uri: string };
export type Kind = "resource" | "template" | "tool" | "prompt" | "skill";
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Struct = { [name: string]: Json };

export interface StudioState {
  version: string;
  seq: number;
  servers: ServerStatus[];
  questions: QuestionView[];
  tasks: TaskView[];
  /** Name of the current model. */
  model: string | null;
  searching: boolean;
  /** Name of the session file that the timeline shows. */
  recording: string | null;
}

export interface Check {
  step: "dns" | "tcp" | "tls" | "http" | "version" | "authorization" | "program" | "initialize";
  ok: boolean | null;
  detail: string;
}

export interface ServerStatus {
  name: string;
  title: string | null;
  icon: string | null;
  description: string | null;
  state: "idle" | "connecting" | "ready" | "failed" | "disabled" | "closed";
  reason: string | null;
  /** Kind of the failure that `reason` describes in English. */
  cause: "config" | "login" | "authorization" | "timeout" | "unreachable" | "lost" | "refused" | "protocol" | null;
  revision: string | null;
  software: string | null;
  transport: "stdio" | "http" | "memory";
  latency: number | null;
  instructions: string | null;
  counts: { resources: number | null; templates: number | null; tools: number | null; prompts: number | null };
  checklist: Check[];
  stderr: boolean;
  /** The server may make a task of any call. */
  tasks: boolean;
}

export interface Row {
  key: Key;
  kind: Kind;
  name: string;
  title: string;
  description: string | null;
  mimeType: string | null;
  size: number | null;
  lastModified: string | null;
  priority: number | null;
  audience: string[] | null;
  /** A picture that the server gives, as a data URI. */
  icon: string | null;
}

export interface Item {
  key: Key;
  kind: Kind;
  icon: string | null;
  /** The entry as on the wire. */
  item: Struct;
}

export interface TreeRow {
  id: string;
  level: number;
  label: string;
  kind: "server" | "folder" | "resource";
  server: string;
  uri: string | null;
  expandable: boolean;
  row: Row | null;
  count: number | null;
  message: string | null;
  directory: "unread" | "reading" | "read" | "partial" | "failed" | null;
}

/** Text of a page of a document, as Markdown. Pages count from 1. */
export interface DocumentPage {
  page: number;
  pages: number;
  text: string;
}

/** Why a skill or a file of it cannot be used; `detail` is English. */
export interface SkillProblem {
  difference: "size" | "digest" | "frontmatter" | "contents" | "unlisted" | "entry" | "other";
  detail: string;
}

export interface SkillFile {
  path: string;
  uri: string;
  size: number;
  digest: string;
  state: "listed" | "verified" | "wrong";
  problem: SkillProblem | null;
}

export interface Skill {
  key: Key;
  name: string;
  description: string;
  frontmatter: Struct;
  dynamic: boolean;
  fingerprint: string | null;
  instructions: string | null;
  problem: SkillProblem | null;
  files: SkillFile[];
}

/** Place of a resource in the tree: nodes to open, and its row then; null if it is not in the tree. */
export interface HandOver {
  entry: Struct | null;
  blank: string[];
}

export interface App {
  uri: string;
  url: string;
  origin: string;
  csp: Struct;
  origins: string[];
  refused: string[];
}

export interface Place {
  open: string[];
  index: number | null;
}

export interface ListWindow<T> {
  total: number;
  offset: number;
  rows: T[];
  seq: number;
}

export interface TextView {
  key: Key;
  version: string;
  title: string;
  mimeType: string;
  kind: "text" | "markdown" | "json" | "csv" | "code" | "image" | "audio" | "video" | "pdf" | "html" | "document" | "svg" | "binary" | "folder";
  language: string | null;
  size: number;
  lines: number | null;
  first: number;
  text: string | null;
  hex: string | null;
  parts: { uri: string; mimeType: string; size: number }[];
  annotations: Struct | null;
  changed: boolean;
  reads: Row[];
}

export interface Hunk {
  first: [number, number];
  lines: { kind: " " | "+" | "-"; text: string; old: number | null; new: number | null }[];
}

export interface Changes {
  from: string;
  to: string;
  hunks: Hunk[];
  /** False if the texts are too long to compare all of them. */
  complete?: boolean;
}

export interface ContentHit {
  row: Row;
  score: number;
  link: string;
  line: number | null;
  snippet: string;
  marks: [number, number][];
}

export interface Problem {
  type?: string;
  title: string;
  status: number;
  detail?: string | null;
}

export interface Operation {
  id: string;
  kind: "read" | "call" | "get" | "context" | "search" | "complete" | "chat" | "models";
  state: "running" | "done" | "failed" | "cancelled";
  progress: { progress: number; total: number | null; message: string | null } | null;
  result: unknown;
  error: Problem | null;
}

export interface QuestionView {
  id: string;
  server: string;
  kind: "form" | "url" | "sampling";
  message: string;
  schema: Struct | null;
  url: string | null;
  host: string | null;
  sampling: SamplingView | null;
}

/** Sampling request as the user has edited it: the texts of all messages, or the answer. */
export interface SamplingEdit {
  texts: string[];
  systemPrompt: string | null;
  maxTokens: number;
  answer: string | null;
}

/** Sampling request: to be run, or with its answer to be sent. */
export interface SamplingView {
  messages: { role: string; text: string; others: string[] }[];
  systemPrompt: string | null;
  maxTokens: number;
  tools: string[];
  model: string | null;
  answer: string | null;
  calls: string[];
}

export interface TaskView {
  id: string;
  server: string;
  tool: string;
  arguments: Struct;
  status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  message: string | null;
  created: string;
  updated: string;
  error: Problem | null;
}

/** Why an item is in a packed context. */
export interface Reason {
  pinned: boolean;
  open: boolean;
  matched: boolean;
  words: string[];
  more: boolean;
  inName: boolean;
  inHeading: boolean;
  lines: number;
  beside: boolean;
  whole: boolean;
  small: boolean;
}

export interface PackItem {
  server: string;
  uri: string;
  link: string;
  title: string;
  lines: [number, number] | null;
  tokens: number;
  score: number;
  reason: string;
  why: Reason;
  text: string;
  stale: boolean;
}

export interface Pack {
  question: string;
  budget: number;
  tokens: number;
  tokenizer: string;
  items: PackItem[];
  leftOut: { uri: string; reason: string }[];
  complete: boolean;
  /** Servers whose resources were not all searched. */
  unread: string[];
  text: string;
  /** Tokens that a model took that has helped to choose. */
  modelTokens: number;
}

export interface Chip {
  text: string;
  field: string | null;
  value: string;
  negated: boolean;
  start: number;
  end: number;
  problem: string | null;
}

export type StreamEvent = { seq: number } & (
  | { type: "server"; server: ServerStatus }
  | { type: "serverGone"; name: string }
  | { type: "list"; server: string; kind: Kind }
  | { type: "resource"; key: Key; version: string }
  | { type: "operation"; operation: Operation }
  | { type: "question"; question: QuestionView }
  | { type: "questionClosed"; id: string }
  | { type: "task"; task: TaskView }
  | { type: "taskGone"; id: string }
  | { type: "wire" }
  | { type: "doctor" | "interface"; name: string }
  | { type: "chat"; id: string }
  | { type: "reset" }
);

export const keyText = (key: Key): string => `${key.server} ${key.uri}`;
