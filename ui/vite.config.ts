import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const backend = process.env.CARREL_STUDIO ?? "http://127.0.0.1:8123";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/carrel/studio/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": { target: backend, changeOrigin: true } } },
  resolve: process.env.VITEST ? { conditions: ["browser"] } : {},
  // One process, and one environment for all files: an own one for each takes three times as long.
  test: { environment: "jsdom", include: ["tests/**/*.test.ts"], isolate: false, maxWorkers: 1 },
});
