import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { router } from "./lib/router.svelte";
import { settings } from "./lib/settings.svelte";
import { studio } from "./lib/studio.svelte";
import { takeToken } from "./lib/token";

takeToken();
router.reread();
settings.apply();
void studio.start();
mount(App, { target: document.getElementById("app")! });
