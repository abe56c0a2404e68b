import { expect, test } from "vitest";
import { preferred, settings } from "../src/lib/settings.svelte";
import { age, bytes, t } from "../src/lib/words.svelte";
import { de } from "../src/words/de";
import { en, type Word } from "../src/words/en";
import { zh } from "../src/words/zh";

const holes = (text: string): string[] => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!))].sort();

test.each(["de", "zh"] as const)("the words of %s have the same holes as the English ones", (language) => {
  const words = { de, zh }[language];
  for (const word of Object.keys(en) as Word[]) expect([word, holes(words[word])]).toEqual([word, holes(en[word])]);
});

test("plurals, numbers and times follow the language", () => {
  settings.setLanguage("en");
  expect([t("nResources", { n: 1 }), t("nResources", { n: 17_000 })]).toEqual(["1 resource", "17,000 resources"]);
  expect(bytes(1)).toBe("1 byte");
  settings.setLanguage("de");
  expect(t("nResources", { n: 17_000 })).toBe("17.000 Ressourcen");
  expect(age("2026-01-01T00:00:00Z", Date.parse("2026-01-03T00:00:00Z"))).toBe("vorgestern");
  settings.setLanguage("zh");
  expect(t("nResources", { n: 2 })).toBe("2 个资源");
  expect(document.documentElement.lang).toBe("zh-Hans");
  settings.setLanguage(null);
});

test("the page takes the first language of the browser that it has", () => {
  expect(preferred(["fr-FR", "de-AT", "en"])).toBe("de");
  expect(preferred(["zh-TW"])).toBe("zh");
  expect(preferred(["fr"])).toBe("en");
});
