// Reasons in the language of the page: why an item is in a context, why a resource is left out, why a connection fails.

import type { Check, Chip, Reason, ServerStatus } from "./types";
import { settings } from "./settings.svelte";
import { list, locale, t } from "./words.svelte";
import type { Word } from "../words/en";

/** Why resources are left out: what the host says, and the words of the page. */
const LEFT_OUT: Record<string, Word> = {
  "over the budget": "leftOver",
  excluded: "leftExcluded",
  "for the user only, not for models": "leftForUser",
  "cannot be read as text": "leftNoText",
  "pinned, but has no text": "leftNoText",
  "pinned, but cannot be read": "leftUnreadable",
  "the nearest, but not relevant": "leftNearest",
};
const DUPLICATE = "near-duplicate of ";

/** Return why an item is in the context. Pins are not mentioned. */
export function whyChosen(reason: Reason): string {
  const parts = [reason.open && t("whyOpen"), reason.matched && match(reason), reason.beside && t("whyBeside")];
  if (reason.whole) parts.push(t(reason.small ? "whySmall" : "whyWhole"));
  return parts.filter(Boolean).join(t("comma"));
}

function match({ words, more, inName, inHeading, lines }: Reason): string {
  if (!words.length) return t("whyFound");
  const quoted = words.map((word) => t("quoted", { word }));
  const all = new Intl.ListFormat(locale(), { type: "unit" }).format(quoted);
  const places = [inName && t("whyName"), inHeading && t("whyHeading"), lines && t("whyLines", { n: lines })];
  return t("whyMatches", {
    words: more ? t("whyMore", { words: all }) : all,
    places: list(places.filter((place): place is string => Boolean(place))),
  });
}

/** Return why a resource is left out. A reason that the page does not know stays as it is. */
export function whyLeftOut(reason: string): string {
  if (reason.startsWith(DUPLICATE)) return t("leftDuplicate", { uri: reason.slice(DUPLICATE.length) });
  const word = LEFT_OUT[reason];
  return word ? t(word) : reason;
}

/** Return why a server is not available, in one line: in English as the host says, or else the kind of the failure. */
export function whyFailed({ reason, cause }: ServerStatus): string {
  if (cause && settings.language !== "en") return t(`cause_${cause}`);
  return reason?.split("\n")[0] ?? "";
}

const NO_PROGRAM = /^there is no program (.+)$/;

/** Return the outcome of a step of connecting. Texts of the system and of the server stay as they are. */
export function whyStepFailed({ step, ok, detail }: Check, server: ServerStatus): string {
  if (ok === null) return t("checkSkipped");
  if (ok || settings.language === "en") return detail;
  const program = NO_PROGRAM.exec(detail)?.[1];
  if (program) return t("noProgram", { name: program });
  if (detail === "it took too long") return t("cause_timeout");
  return step === "initialize" && server.cause ? t(`cause_${server.cause}`) : detail;
}

const EXPLAINED = ["audience", "priority", "changed", "size"] as const;

/** Return what is wrong with a term of a filter, or null. */
export function whyInvalid({ field, problem }: Chip): string | null {
  if (!problem || settings.language === "en") return problem;
  const known = EXPLAINED.find((name) => name === field);
  return problem === "the value is missing" || !known ? t("filterMissing") : t(`filter_${known}`);
}
