// SPDX-License-Identifier: Apache-2.0
// Heat map of stragglers: one row for each rank, time from left to right, each cell relative to the
// median of its column.
import type { Heat } from "./api";
import { colour, make, prepare } from "./dom";
import * as format from "./format";

function rgb(text: string): [number, number, number] {
  const digits = text.replace("#", "");
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16)) as [number, number, number];
}

function mix(from: number[], to: number[], share: number): number[] {
  return from.map((value, i) => Math.round(value + (to[i] - value) * share));
}

export class HeatMap {
  private readonly canvas = make("canvas", { role: "img" });
  private readonly caption = make("p", { class: "note", "aria-live": "polite" });
  private readonly section: HTMLElement;
  private heat: Heat | null = null;
  private origin = 0;

  constructor(container: HTMLElement) {
    this.section = container;
    this.hide();
    container.append(make("div", { class: "head" }, make("h2", {}, "Stragglers")), make("div", { class: "canvas" }, this.canvas), this.caption);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.describe());
    new ResizeObserver(() => this.draw()).observe(container);
  }

  // For a run with one rank, which cannot have stragglers.
  hide(): void {
    this.heat = null;
    this.section.hidden = true;
  }

  show(heat: Heat, origin: number): void {
    this.heat = heat;
    this.origin = origin;
    this.section.hidden = heat.ranks.length < 2 || heat.time.length === 0;
    this.draw();
    this.describe();
  }

  draw(): void {
    const heat = this.heat;
    if (!heat || this.section.hidden) {
      return;
    }
    const [rows, columns] = [heat.ranks.length, heat.time.length];
    const height = Math.min(360, Math.max(60, rows * (rows <= 32 ? 12 : 4)));
    const context = prepare(this.canvas, height);
    const [fast, even, slow, none] = ["heat-fast", "heat-even", "heat-slow", "cell-none"].map((name) => rgb(colour(name)));
    const image = new ImageData(columns, rows);
    heat.percent.forEach((row, r) =>
      row.forEach((percent, c) => {
        let point = none;
        if (percent !== null) {
          point = percent >= 100 ? (mix(even, slow, Math.min(1, (percent - 100) / 50)) as typeof none) : (mix(even, fast, Math.min(1, (100 - percent) / 50)) as typeof none);
        }
        image.data.set([point[0], point[1], point[2], 255], (r * columns + c) * 4);
      }),
    );
    // Draws one pixel per value, then scales it to the size of the canvas without smoothing.
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    small.getContext("2d")!.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = rows > height;
    context.drawImage(small, 0, 0, this.canvas.clientWidth, height);
  }

  private describe(): void {
    const heat = this.heat!;
    const slowest = heat.slowest.map((one) => `rank ${one.rank} ${one.percent} %`).join(", ");
    const text = `Own step time relative to the median of all ranks: blue is faster, orange is slower. Slowest: ${slowest || "none"}.`;
    this.caption.textContent = text;
    this.canvas.setAttribute("aria-label", `${heat.ranks.length} ranks over time. ${text}`);
  }

  private point(event: MouseEvent): void {
    const heat = this.heat;
    if (!heat) {
      return;
    }
    const row = Math.min(heat.ranks.length - 1, Math.floor((event.offsetY / this.canvas.clientHeight) * heat.ranks.length));
    const column = Math.min(heat.time.length - 1, Math.floor((event.offsetX / this.canvas.clientWidth) * heat.time.length));
    const percent = heat.percent[row]?.[column];
    this.caption.textContent = `rank ${heat.ranks[row]}, ${format.duration(heat.time[column] - this.origin)} after the start: ${percent === null || percent === undefined ? "unknown" : `${percent} % of the median`}`;
  }
}
