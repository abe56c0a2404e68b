// URLs for authors of servers: the timeline with its filter and selection, a comparison of two revisions, the doctor.

export type Only = "" | "invalid" | "errors";

export interface WireRoute {
  kind: "wire";
  server: string;
  method: string;
  target: string;
  only: Only;
  text: string;
  /** Number of the selected message. */
  message: number | null;
}

export type AuthorRoute =
  | WireRoute
  | { kind: "compare"; a: string; b: string; message: number | null }
  | { kind: "doctor"; server: string };

export const WHOLE_WIRE: WireRoute = { kind: "wire", server: "", method: "", target: "", only: "", text: "", message: null };

function messageOf(query: URLSearchParams): number | null {
  const number = Number(query.get("message"));
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

/** Parse an address of this kind, or return null. */
export function parseAuthor({ pathname, searchParams: query }: URL): AuthorRoute | null {
  const get = (name: string): string => query.get(name) ?? "";
  if (pathname === "/wire") {
    const only = get("only");
    return {
      kind: "wire",
      server: get("server"),
      method: get("method"),
      target: get("target"),
      only: only === "invalid" || only === "errors" ? only : "",
      text: get("text"),
      message: messageOf(query),
    };
  }
  if (pathname === "/wire/compare") return { kind: "compare", a: get("a"), b: get("b"), message: messageOf(query) };
  const match = /^\/doctor\/(.+)$/.exec(pathname);
  if (!match) return null;
  try {
    return { kind: "doctor", server: decodeURIComponent(match[1]!) };
  } catch {
    return { kind: "doctor", server: match[1]! };
  }
}

/** Format an address; empty values are left out. */
export function formatAuthor(route: AuthorRoute): string {
  if (route.kind === "doctor") return `/doctor/${encodeURIComponent(route.server)}`;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(route)) if (value && name !== "kind") query.set(name, String(value));
  const text = query.toString();
  return (route.kind === "wire" ? "/wire" : "/wire/compare") + (text ? `?${text}` : "");
}
