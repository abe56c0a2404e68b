// URLs of the page: they select what is shown; they never connect, call or send.

import { formatAuthor, parseAuthor, type AuthorRoute } from "./author_route";

export type Kinds = "resources" | "templates" | "tools" | "prompts" | "skills";

/** What is selected: nothing, a resource, a template, a tool or a prompt of a server. */
export type Selection =
  | { kind: "none" }
  | { kind: "resource"; server: string; uri: string }
  | { kind: "template" | "tool" | "prompt" | "skill"; server: string; name: string };

export interface Route {
  /** View for authors of servers, which has an address of its own. */
  author: AuthorRoute | null;
  selection: Selection;
  /** Region that a page of one column shows; null: the region of the selection. */
  region: "servers" | "picker" | "preview" | "context" | "chat" | null;
  /** Conversation that the chat shows; empty: a new one. */
  chat: string;
  tab: Kinds;
  as: "tree" | "list";
  sort: "name" | "recency" | "priority" | "size";
  q: string;
  view: "rendered" | "text" | "changes" | "wire" | null;
  lines: [number, number] | null;
  args: string | null;
  question: string;
  budget: number | null;
}

const LETTERS = { r: "resource", x: "template", t: "tool", p: "prompt", k: "skill" } as const;
const TABS = { resource: "resources", template: "templates", tool: "tools", prompt: "prompts", skill: "skills", none: "resources" } as const;

const oneOf = <T extends string>(value: string | null, values: readonly T[], fallback: T): T =>
  values.includes(value as T) ? (value as T) : fallback;

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseLines(hash: string): [number, number] | null {
  const match = /^#L(\d+)(?:-L?(\d+))?$/.exec(hash);
  if (!match) return null;
  const first = Math.max(1, Number(match[1]));
  return [first, Math.max(first, Number(match[2] ?? first))];
}

function parseSelection(pathname: string): Selection {
  const match = /^\/s\/([^/]+)\/([rxtpk])\/(.+)$/.exec(pathname);
  if (!match) return { kind: "none" };
  const server = decode(match[1]!);
  const name = decode(match[3]!);
  const kind = LETTERS[match[2] as keyof typeof LETTERS];
  return kind === "resource" ? { kind, server, uri: name } : { kind, server, name };
}

/** Parse the address. Unknown parts are ignored. */
export function parseRoute(url: URL): Route {
  const query = url.searchParams;
  const selection = parseSelection(url.pathname);
  const chat = /^\/chat(?:\/([^/]+))?$/.exec(url.pathname);
  const region = chat ? "chat" : ({ "/context": "context", "/servers": "servers", "/browse": "picker" }[url.pathname] ?? null);
  const view = oneOf(query.get("view"), ["rendered", "text", "changes", "wire", ""] as const, "");
  const budget = Number(query.get("budget"));
  return {
    author: parseAuthor(url),
    selection,
    region: region as Route["region"],
    chat: decode(chat?.[1] ?? ""),
    tab: oneOf(query.get("tab"), ["resources", "templates", "tools", "prompts", "skills"] as const, TABS[selection.kind]),
    as: oneOf(query.get("as"), ["tree", "list"] as const, "tree"),
    sort: oneOf(query.get("sort"), ["name", "recency", "priority", "size"] as const, "name"),
    q: query.get("q") ?? "",
    view: view || null,
    lines: parseLines(url.hash),
    args: query.get("args"),
    question: query.get("question") ?? "",
    budget: Number.isInteger(budget) && budget > 0 ? budget : null,
  };
}

function pathOf({ selection, region }: Route): string {
  if (region === "context" || region === "servers") return `/${region}`;
  if (region === "picker" || selection.kind === "none") return "/browse";
  const letter = Object.entries(LETTERS).find(([, kind]) => kind === selection.kind)![0];
  const name = selection.kind === "resource" ? selection.uri : selection.name;
  return `/s/${encodeURIComponent(selection.server)}/${letter}/${encodeURIComponent(name)}`;
}

/** Format the address of a route; defaults are left out. */
export function formatRoute(route: Route): string {
  if (route.author) return formatAuthor(route.author);
  if (route.region === "chat") return route.chat ? `/chat/${encodeURIComponent(route.chat)}` : "/chat";
  const path = pathOf(route);
  const query = new URLSearchParams();
  if (route.view) query.set("view", route.view);
  if (route.tab !== (path.startsWith("/s/") ? TABS[route.selection.kind] : "resources")) query.set("tab", route.tab);
  if (route.q) query.set("q", route.q);
  if (route.as !== "tree") query.set("as", route.as);
  if (route.sort !== "name") query.set("sort", route.sort);
  if (route.args !== null) query.set("args", route.args);
  if (route.question) query.set("question", route.question);
  if (route.budget) query.set("budget", String(route.budget));
  const [first, last] = route.lines ?? [0, 0];
  const hash = first ? (last > first ? `#L${first}-L${last}` : `#L${first}`) : "";
  const text = query.toString();
  return path + (text ? `?${text}` : "") + hash;
}

/** Address of a resource, to link to it. */
export function resourceHref(route: Route, server: string, uri: string, lines: [number, number] | null = null): string {
  return formatRoute({ ...route, author: null, selection: { kind: "resource", server, uri }, region: null, lines, view: null, args: null });
}
