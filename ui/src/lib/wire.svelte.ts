// The filter and the selection of the timeline, which stay while other parts of the page have the address.

import { WHOLE_WIRE, type WireRoute } from "./author_route";
import type { WireRow } from "./author_types";
import { router } from "./router.svelte";
import { studio } from "./studio.svelte";
import { locale, t } from "./words.svelte";

class Wire {
  route = $state.raw<WireRoute>(WHOLE_WIRE);
  follow = $state(true);

  /** Take the filter and the selection from the address, if it has them. */
  restore(): void {
    if (router.current.author?.kind !== "wire") return;
    this.route = router.current.author;
    if (this.route.message !== null) this.follow = false;
  }

  /** Change the filter or the selection, and the address. */
  go(change: Partial<WireRoute>, replace = false): void {
    this.route = { ...this.route, ...change };
    router.go({ author: this.route }, replace);
  }
}

export const wire = new Wire();

/** Return what a message is about, in words. */
export function aboutOf(row: WireRow): string {
  if (row.kind === "batch") return t("batch");
  if (row.kind === "other") return t("notMessage");
  const about = [row.method ?? "?", row.target].filter(Boolean).join(" ");
  return row.kind === "response" ? t("responseTo", { name: about }) : about;
}

/** Return the time of a message, to the millisecond; in a session file, the time since its start. */
export const clock = (time: number): string =>
  studio.recording !== null ? elapsed(time) :
  new Date(time * 1000).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

function elapsed(time: number): string {
  const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  return `+${two(time / 60)}:${two(time % 60)}.${String(Math.floor((time % 1) * 1000)).padStart(3, "0")}`;
}

/** Return a duration with as many digits as it needs. */
export const milliseconds = (value: number): string =>
  t("milliseconds", { n: value >= 100 ? Math.round(value) : Math.round(value * 10) / 10 });
