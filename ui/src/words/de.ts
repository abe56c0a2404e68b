import { en, type Dictionary } from "./en"; export const de: Dictionary = en;
