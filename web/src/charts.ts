// SPDX-License-Identifier: Apache-2.0
// The curves: one chart per quantity, one line and one band per run. All charts share one zoom.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import type { Mark, Series } from "./api";
import { colour, make } from "./dom";
import * as format from "./format";

export type Axis = "step" | "time";

export interface Curve {
  label: string; // "run-a", or "run-a evaluation"
  hue: number; // index of the colour in the theme
  isPoints: boolean;
  origin: number; // start time of its run
  series: Series;
}

export interface MarkLine {
  at: number;
  kind: string;
  text: string;
}

// Steps go back when a run resumes from a checkpoint. A line has one value for each step, so
// repeated steps replace the earlier ones.
export function ascending(series: Series, axis: Axis, origin: number): [number[], Series] {
  if (axis === "time") {
    return [series.time.map((time) => time - origin), series];
  }
  const kept: number[] = [];
  series.step.forEach((step, i) => {
    while (kept.length > 0 && series.step[kept[kept.length - 1]] >= step) {
      kept.pop();
    }
    kept.push(i);
  });
  if (kept.length === series.step.length) {
    return [series.step, series];
  }
  const pick = <T>(values: T[]) => kept.map((i) => values[i]);
  const shorter = {
    ...series,
    step: pick(series.step),
    time: pick(series.time),
    mean: pick(series.mean),
    min: pick(series.min),
    max: pick(series.max),
  };
  return [shorter.step, shorter];
}

export function marksOn(marks: Mark[], axis: Axis, origin: number): MarkLine[] {
  return marks
    .filter((mark) => mark.kind !== "start")
    .filter((mark) => axis === "time" || mark.step !== null)
    .map((mark) => ({
      at: axis === "time" ? mark.time - origin : (mark.step as number),
      kind: mark.kind,
      text: mark.text,
    }));
}

// The zoom of all charts; null shows everything.
export class Zoom {
  private range: { min: number; max: number } | null = null;
  private readonly charts = new Set<Chart>();

  add(chart: Chart): void {
    this.charts.add(chart);
  }

  current(): { min: number; max: number } | null {
    return this.range;
  }

  set(range: { min: number; max: number } | null): void {
    this.range = range && range.max > range.min ? range : null;
    for (const chart of this.charts) {
      chart.show();
    }
  }

  // The union of the ranges of all charts, which share one axis.
  extent(): { min: number; max: number } | null {
    let all: { min: number; max: number } | null = null;
    for (const chart of this.charts) {
      const own = chart.extent();
      if (own) {
        all = all ? { min: Math.min(all.min, own.min), max: Math.max(all.max, own.max) } : own;
      }
    }
    return all;
  }

  // Applies the zoom to new data.
  refresh(): void {
    this.set(this.range);
  }

  // Arguments are relative to the visible range: pan(0.2) moves by a fifth, scale(0.5) shows half.
  pan(share: number): void {
    const seen = this.range ?? this.extent();
    if (seen) {
      const distance = (seen.max - seen.min) * share;
      this.set({ min: seen.min + distance, max: seen.max + distance });
    }
  }

  scale(factor: number, at?: number): void {
    const seen = this.range ?? this.extent();
    if (seen) {
      const middle = at ?? (seen.min + seen.max) / 2;
      this.set({ min: middle - (middle - seen.min) * factor, max: middle + (seen.max - middle) * factor });
    }
  }
}

const kHeight = 200;

export class Chart {
  readonly element: HTMLElement;
  private readonly container: HTMLElement;
  private readonly table: HTMLElement;
  private readonly details: HTMLDetailsElement;
  private plot: uPlot | null = null;
  private shape = "";
  private curves: Curve[] = [];
  private lines: MarkLine[] = [];
  private data: uPlot.AlignedData = [[]];
  private axis: Axis = "step";

  constructor(
    readonly title: string,
    private readonly zoom: Zoom,
  ) {
    this.container = make("div", { class: "plot" });
    this.table = make("div", { class: "values" });
    this.details = make("details", {}, make("summary", {}, "Values"), this.table);
    this.details.addEventListener("toggle", () => this.list());
    this.element = make("figure", { "data-chart": title, tabindex: "0", role: "group", "aria-label": title });
    this.element.append(make("figcaption", {}, title), this.container, this.details);
    this.element.addEventListener("keydown", (event) => this.key(event));
    zoom.add(this);
    new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: kHeight })).observe(this.container);
  }

  // Draws the curves; `anew` creates the plot again after a change of colours.
  draw(curves: Curve[], lines: MarkLine[], axis: Axis, anew = false): void {
    this.curves = curves;
    this.lines = lines;
    this.element.hidden = curves.length === 0;
    if (this.element.hidden) {
      return;
    }
    const tables = curves.map((curve): uPlot.AlignedData => {
      const [x, series] = ascending(curve.series, axis, curve.origin);
      return curve.isPoints ? [x, series.mean] : [x, series.min, series.max, series.mean];
    });
    this.data = tables.length === 1 ? tables[0] : uPlot.join(tables);
    this.axis = axis;
    const shape = JSON.stringify([axis, curves.map((curve) => [curve.label, curve.hue, curve.isPoints])]);
    if (!this.plot || anew || shape !== this.shape) {
      this.plot?.destroy();
      this.shape = shape;
      this.plot = new uPlot(this.options(), this.data, this.container);
    } else {
      this.plot.setData(this.data, false);
    }
    this.list();
  }

  // Applies the current zoom.
  show(): void {
    const range = this.zoom.current() ?? this.zoom.extent();
    if (this.plot && range) {
      this.plot.setScale("x", range);
    }
  }

  extent(): { min: number; max: number } | null {
    const x = this.data[0];
    if (this.element.hidden || x.length === 0) {
      return null;
    }
    const [min, max] = [x[0], x[x.length - 1]];
    return max > min ? { min, max } : { min: min - 0.5, max: max + 0.5 };
  }

  private width(): number {
    return Math.max(200, this.container.clientWidth);
  }

  private label(x: number): string {
    return this.axis === "time" ? format.duration(x) : String(Math.round(x));
  }

  private options(): uPlot.Options {
    const series: uPlot.Series[] = [
      { label: this.axis === "time" ? "since start" : "step", value: (_, x) => (x === null ? "–" : this.label(x)) },
    ];
    const bands: uPlot.Band[] = [];
    for (const curve of this.curves) {
      const stroke = colour(`run-${curve.hue % 8}`);
      const value = (_: uPlot, y: number | null) => format.number(y);
      if (curve.isPoints) {
        series.push({ label: curve.label, stroke, width: 1.5, dash: [5, 4], spanGaps: true, value, points: { show: true, size: 7, fill: stroke } });
        continue;
      }
      const edge = { class: "edge", stroke: "transparent", width: 0, spanGaps: true, points: { show: false }, value };
      series.push({ ...edge, label: `${curve.label} min` }, { ...edge, label: `${curve.label} max` });
      bands.push({ series: [series.length - 1, series.length - 2], fill: `${stroke}30` });
      series.push({ label: curve.label, stroke, width: 1.8, spanGaps: true, points: { show: false }, value });
    }
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "11px system-ui, sans-serif" };
    return {
      width: this.width(),
      height: kHeight,
      series,
      bands,
      scales: { x: { time: false } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => this.label(tick)) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => format.number(tick)) },
      ],
      cursor: { sync: { key: "lockstep", setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      legend: { live: true },
      plugins: [this.marks(), this.gestures()],
    };
  }

  // Draws vertical lines at marks.
  private marks(): uPlot.Plugin {
    return {
      hooks: {
        drawAxes: (plot) => {
          const { ctx, bbox } = plot;
          const ratio = devicePixelRatio || 1;
          ctx.save();
          ctx.lineWidth = ratio;
          const last: Record<string, number> = {};
          for (const line of this.lines) {
            const x = Math.round(plot.valToPos(line.at, "x", true)) + 0.5;
            // Marks of one kind within two pixels are drawn as one line.
            if (x < bbox.left || x > bbox.left + bbox.width || Math.abs(x - (last[line.kind] ?? -9)) < 2 * ratio) {
              continue;
            }
            last[line.kind] = x;
            ctx.strokeStyle = colour(`mark-${line.kind}`);
            ctx.setLineDash(line.kind === "restart" ? [] : [3 * ratio, 3 * ratio]);
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
          }
          ctx.restore();
        },
      },
    };
  }

  private gestures(): uPlot.Plugin {
    return {
      hooks: {
        ready: (plot) => {
          plot.over.addEventListener("mousedown", (event) => this.pan(plot, event), true);
          plot.over.addEventListener("dblclick", () => this.zoom.set(null));
          plot.over.addEventListener(
            "wheel",
            (event) => {
              if (event.ctrlKey) {
                event.preventDefault();
                this.zoom.scale(event.deltaY > 0 ? 1.25 : 0.8, plot.posToVal(event.offsetX, "x"));
              }
            },
            { passive: false },
          );
        },
        setSelect: (plot) => {
          if (plot.select.width > 4) {
            const { left, width } = plot.select;
            this.zoom.set({ min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") });
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          }
        },
      },
    };
  }

  private pan(plot: uPlot, event: MouseEvent): void {
    const { min, max } = plot.scales.x;
    if (!event.shiftKey || min === undefined || max === undefined || min === null || max === null) {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    const each = (max - min) / plot.over.clientWidth;
    const move = (now: MouseEvent) => {
      const distance = (event.clientX - now.clientX) * each;
      this.zoom.set({ min: min + distance, max: max + distance });
    };
    const up = () => {
      document.removeEventListener("mousemove", move);
      document.removeEventListener("mouseup", up);
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", up);
  }

  private key(event: KeyboardEvent): void {
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.zoom.pan(-0.2),
      ArrowRight: () => this.zoom.pan(0.2),
      "+": () => this.zoom.scale(0.5),
      "-": () => this.zoom.scale(2),
    };
    const act = acts[event.key];
    if (act && event.target === this.element) {
      event.preventDefault();
      act();
    }
  }

  // The newest values of each run as a table.
  private list(): void {
    if (!this.details.open) {
      return;
    }
    const kRows = 12;
    const tables = this.curves.map((curve) => {
      const { series } = curve;
      const first = Math.max(0, series.step.length - kRows);
      const rows = series.step.slice(first).map((step, i) =>
        make(
          "tr",
          {},
          make("td", {}, String(step)),
          make("td", {}, format.duration(series.time[first + i] - curve.origin)),
          make("td", { "data-value": String(series.mean[first + i]) }, format.number(series.mean[first + i])),
        ),
      );
      const head = make("tr", {}, make("th", {}, "step"), make("th", {}, "since start"), make("th", {}, "value"));
      return make("table", { "data-curve": curve.label }, make("caption", {}, curve.label), make("thead", {}, head), make("tbody", {}, ...rows));
    });
    this.table.replaceChildren(...tables);
  }
}
