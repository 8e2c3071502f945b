// SPDX-License-Identifier: Apache-2.0
// The page: requests new data from the launcher and passes it to the views.
import * as api from "./api";
import { type Axis, Chart, type Curve, marksOn, Zoom } from "./charts";
import { byId, make } from "./dom";
import * as format from "./format";
import { RankGrid } from "./grid";
import { HeatMap } from "./heat";
import { LogPane } from "./logs";
import { showSplit } from "./split";
import "./style.css";

// The charts with their series; series of evaluations are drawn as points.
const kCharts: [string, string[]][] = [
  ["loss", ["loss", "evaluation/loss"]],
  ["learning rate", ["learning_rate"]],
  ["samples per second", ["samples_per_second"]],
  ["accuracy", ["evaluation/accuracy", "evaluation/top5"]],
  ["gradient norm", ["gradient_norm"]],
];

interface Shown {
  entry: api.RunEntry;
  hue: number;
  snapshot: api.Snapshot | null;
  marks: api.Mark[];
  series: Map<string, api.Series>;
}

class Page {
  private readonly zoom = new Zoom();
  private readonly charts = new Map<string, Chart>();
  private readonly chosen: string[] = []; // additional series selected by the user
  private readonly grid: RankGrid;
  private readonly heat = new HeatMap(byId("heat"));
  private readonly logs = new LogPane(byId("logs"));
  private readonly more = make("select", { "aria-label": "Show another series" });
  private runs: Shown[] = [];
  private axis: Axis = "step";
  private isBusy = false;
  private isStale = false;

  constructor() {
    this.grid = new RankGrid(byId("ranks"), (rank) => {
      this.logs.open(this.first().entry.id, rank);
      byId("logs").scrollIntoView({ block: "nearest" });
    });
    const container = byId("charts");
    for (const [title] of kCharts) {
      container.append(this.chart(title).element);
    }
    this.more.addEventListener("change", () => this.add(this.more.value));
    container.append(this.more);
    this.listen();
  }

  async start(): Promise<void> {
    const { runs } = await api.runs();
    this.runs = runs.map((entry, hue) => ({ entry, hue, snapshot: null, marks: [], series: new Map() }));
    const boxes = this.runs.map((run, i) => {
      const box = make("input", { type: "checkbox", "data-run": run.entry.id, ...(i < 6 ? { checked: "" } : {}) });
      box.addEventListener("change", () => void this.refresh());
      return make("label", { class: `run hue-${run.hue % 8}`, title: run.entry.directory }, box, ` ${run.entry.name}`);
    });
    byId("runs").replaceChildren(...boxes);
    await this.refresh();
    this.watch();
  }

  // Reads new data of the visible runs. Only one refresh runs at once; a call during it makes it
  // start again afterwards.
  async refresh(): Promise<void> {
    if (this.isBusy) {
      this.isStale = true;
      return;
    }
    this.isBusy = true;
    try {
      do {
        this.isStale = false;
        await Promise.all(this.visible().map((run) => this.read(run)));
        this.draw();
        await this.readFirst();
      } while (this.isStale);
    } catch (fault) {
      this.say(fault instanceof Error ? fault.message : String(fault), "lost");
    } finally {
      this.isBusy = false;
    }
  }

  private async read(run: Shown): Promise<void> {
    const id = run.entry.id;
    const [snapshot, { marks }] = await Promise.all([api.snapshot(id), api.marks(id)]);
    const wanted = [...kCharts.flatMap(([, names]) => names), ...this.chosen].filter((name) => snapshot.series.includes(name));
    const found = await Promise.all(wanted.map((name) => api.series(id, name)));
    run.snapshot = snapshot;
    run.marks = marks;
    run.series = new Map(found.map((series) => [series.name, series]));
  }

  private async readFirst(): Promise<void> {
    const run = this.first();
    if (!run?.snapshot) {
      return;
    }
    this.logs.open(run.entry.id);
    await this.logs.more();
    if (run.snapshot.run.world_size > 1) {
      this.heat.show(await api.heat(run.entry.id), run.snapshot.run.started ?? 0);
    } else {
      this.heat.hide();
    }
  }

  private visible(): Shown[] {
    const boxes = [...document.querySelectorAll<HTMLInputElement>("#runs input")];
    const shown = this.runs.filter((_, i) => boxes[i]?.checked);
    return shown.length > 0 ? shown : this.runs.slice(0, 1);
  }

  private first(): Shown {
    return this.visible()[0];
  }

  private chart(title: string): Chart {
    let chart = this.charts.get(title);
    if (!chart) {
      chart = new Chart(title, this.zoom);
      this.charts.set(title, chart);
    }
    return chart;
  }

  private add(name: string): void {
    if (name && !this.chosen.includes(name)) {
      this.chosen.push(name);
      this.more.before(this.chart(name).element);
      void this.refresh();
    }
    this.more.value = "";
  }

  draw(anew = false): void {
    const runs = this.visible();
    const marks = runs.flatMap((run) => marksOn(run.marks, this.axis, this.origin(run))).sort((one, other) => one.at - other.at);
    const usual = new Set(kCharts.flatMap(([, names]) => names));
    for (const [title, names] of [...kCharts, ...this.chosen.map((name): [string, string[]] => [name, [name]])]) {
      const curves: Curve[] = [];
      for (const run of runs) {
        for (const name of names) {
          const series = run.series.get(name);
          if (series && series.step.length > 0) {
            const isPoints = name.startsWith("evaluation/");
            const label = isPoints ? `${run.entry.name} ${name.replace("evaluation/", names.length > 1 && title === "accuracy" ? "" : "evaluation ")}` : run.entry.name;
            curves.push({ label, hue: run.hue + (name.endsWith("top5") ? 4 : 0), isPoints, origin: this.origin(run), series });
          }
        }
      }
      this.chart(title).draw(curves, marks, this.axis, anew);
    }
    this.zoom.refresh();
    const others = [...new Set(runs.flatMap((run) => run.snapshot?.series ?? []))].filter((name) => !usual.has(name) && !this.chosen.includes(name));
    const options = ["", ...others].map((name) => make("option", { value: name }, name || "another series …"));
    if (options.length !== this.more.options.length) {
      this.more.replaceChildren(...options);
    }
    this.more.hidden = others.length === 0;
    const snapshot = this.first()?.snapshot;
    if (snapshot) {
      this.overview(snapshot);
      showSplit(byId("split"), snapshot);
      this.grid.show(snapshot);
      document.title = `${snapshot.run.name}: ${snapshot.run.status}`;
    }
    if (anew) {
      this.heat.draw();
    }
  }

  private origin(run: Shown): number {
    return run.snapshot?.run.started ?? run.series.get("loss")?.time[0] ?? 0;
  }

  private overview(snapshot: api.Snapshot): void {
    const { run, latest } = snapshot;
    const tile = (name: string, text: string, value?: number | string | null) =>
      make("div", { class: "tile", "data-tile": name, "data-value": String(value ?? text) }, make("span", {}, name), make("strong", {}, text));
    const steps = latest.steps ? ` of ${latest.steps}` : "";
    const tiles = [tile("state", run.exit_code ? `${run.status} (${run.exit_code})` : run.status)];
    tiles.push(tile("step", latest.step === null ? "–" : `${latest.step}${steps}`, latest.step));
    const plain: [string, string][] = [
      ["loss", "loss"],
      ["learning rate", "learning_rate"],
      ["samples/s", "samples_per_second"],
      ["accuracy", "accuracy"],
    ];
    for (const [name, field] of plain) {
      tiles.push(tile(name, format.number(latest[field]), latest[field]));
    }
    tiles.push(tile("step time", format.duration(latest.step_seconds), latest.step_seconds));
    if (latest.seconds_left !== null) {
      tiles.push(tile("time left", format.duration(latest.seconds_left), latest.seconds_left));
    }
    tiles.push(tile("ranks", `${run.world_size}${run.nodes > 1 ? ` on ${run.nodes} nodes` : ""}`, run.world_size));
    tiles.push(tile("restarts", String(latest.restarts ?? 0), latest.restarts));
    tiles.push(tile("checkpoint", latest.checkpoint_step === null ? "–" : `step ${latest.checkpoint_step}`, latest.checkpoint_step));
    tiles.push(tile("last update", format.clock(run.updated), run.updated));
    byId("overview").replaceChildren(...tiles);
  }

  // Listens to server-sent events; the browser reconnects automatically.
  private watch(): void {
    const news = new EventSource("/api/events");
    news.addEventListener("open", () => this.say("live", "live"));
    news.addEventListener("error", () => this.say("not connected", "lost"));
    news.addEventListener("message", () => void this.refresh());
  }

  private say(text: string, kind: string): void {
    const live = byId("live");
    live.textContent = text;
    live.className = kind;
  }

  private listen(): void {
    const click = (id: string, act: () => void) => byId(id).addEventListener("click", act);
    click("reset", () => this.zoom.set(null));
    click("left", () => this.zoom.pan(-0.2));
    click("right", () => this.zoom.pan(0.2));
    click("in", () => this.zoom.scale(0.5));
    click("out", () => this.zoom.scale(2));
    click("theme", () => this.toggleTheme());
    byId<HTMLSelectElement>("axis").addEventListener("change", (event) => {
      this.axis = (event.target as HTMLSelectElement).value as Axis;
      this.zoom.set(null);
      this.draw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(true));
    document.addEventListener("keydown", (event) => {
      const isText = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (!isText && event.key === "0") {
        this.zoom.set(null);
      } else if (!isText && event.key === "t") {
        this.toggleTheme();
      }
    });
  }

  private toggleTheme(): void {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // Without local storage the theme changes, but is not remembered.
    }
    this.draw(true);
  }
}

function begin(): void {
  // The cookie contains the token now, so it is removed from the address bar and the history.
  if (location.search) {
    history.replaceState(null, "", location.pathname);
  }
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "dark" || theme === "light") {
      document.documentElement.dataset.theme = theme;
    }
  } catch {
    // Without local storage the theme of the system is used.
  }
  new Page().start().catch((fault: unknown) => {
    byId("live").textContent = fault instanceof Error ? fault.message : String(fault);
  });
}

begin();
