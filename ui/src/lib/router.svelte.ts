// The current route, as reactive state.

import { formatRoute, parseRoute, type Route } from "./route";

class Router {
  current = $state.raw<Route>(parseRoute(new URL(location.href)));

  constructor() {
    addEventListener("popstate", () => {
      this.current = parseRoute(new URL(location.href));
    });
  }

  /** Show a changed route. `replace` makes no new entry in the history. */
  go(change: Partial<Route>, replace = false): void {
    this.current = { ...this.current, author: null, ...change };
    const href = formatRoute(this.current);
    if (href === location.pathname + location.search + location.hash) return;
    if (replace) history.replaceState(null, "", href);
    else history.pushState(null, "", href);
  }

  /** Read the address again, after the token was removed from it. */
  reread(): void {
    this.current = parseRoute(new URL(location.href));
  }

  select(server: string, uri: string, lines: [number, number] | null = null, view: Route["view"] = null): void {
    this.go({ selection: { kind: "resource", server, uri }, region: null, lines, view, args: null });
  }
}

export const router = new Router();
export const href = (change: Partial<Route>): string => formatRoute({ ...router.current, author: null, ...change });

/** Follow a link of the page without loading it; modified clicks stay with the browser. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.currentTarget as HTMLAnchorElement;
  event.preventDefault();
  const route = parseRoute(new URL(link.href));
  router.go(route.author?.kind === "wire" ? { author: route.author } : route); // the timeline is below the selection
}
