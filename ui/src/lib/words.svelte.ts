// Translation: typed dictionaries, plurals, numbers and times in the language of the page.

import { de } from "../words/de";
import { en, type Dictionary, type Word } from "../words/en";
import { zh } from "../words/zh";
import { settings, type Language } from "./settings.svelte";

const dictionaries: Record<Language, Dictionary> = { en, de, zh };
type Values = Record<string, string | number>;

function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    return typeof value === "number" ? value.toLocaleString(locale()) : (value ?? "");
  });
}

export const locale = (): string => (settings.language === "zh" ? "zh-Hans" : settings.language);

/** Return a word in the language of the page. `one|other` is chosen by the value `n`. */
export function t(word: Word, values: Values = {}): string {
  const text = dictionaries[settings.language][word];
  const [one, other] = text.split(" | ");
  if (other === undefined) return fill(text, values);
  return fill(new Intl.PluralRules(locale()).select(Number(values.n)) === "one" ? one! : other, values);
}

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"] as const;

/** Format a size in bytes. */
export function bytes(size: number): string {
  if (size < 1000) return t("nBytes", { n: size });
  let unit = 0;
  for (; size >= 1000 && unit < UNITS.length - 1; unit++) size /= 1000;
  return new Intl.NumberFormat(locale(), {
    style: "unit",
    unit: UNITS[unit]!,
    unitDisplay: "short",
    maximumFractionDigits: size < 10 && unit ? 1 : 0,
  }).format(size);
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31536000],
  ["month", 2592000],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** Format a time as an age, or return null if it is not a time. */
export function age(time: string | null, now = Date.now()): string | null {
  const seconds = time ? (Date.parse(time) - now) / 1000 : NaN;
  if (Number.isNaN(seconds)) return null;
  const [unit, length] = STEPS.find(([, length]) => Math.abs(seconds) >= length) ?? STEPS[5]!;
  return new Intl.RelativeTimeFormat(locale(), { numeric: "auto", style: "short" }).format(Math.round(seconds / length), unit);
}

/** Join names as the language does: "a, b and c". */
export const list = (names: string[]): string => new Intl.ListFormat(locale() === "en" ? "en-GB" : locale()).format(names);

export const number = (value: number): string => value.toLocaleString(locale());
