// SPDX-License-Identifier: Apache-2.0
// All ranks as cells of one canvas, which is fast even for thousands of ranks.
import type { Snapshot, Workers } from "./api";
import { colour, make, prepare } from "./dom";
import * as format from "./format";

type Quantity = "utilisation" | "memory" | "power" | "cores" | "behind";

const kNames: Record<Quantity, string> = {
  utilisation: "GPU utilization",
  memory: "memory",
  power: "power",
  cores: "busy cores",
  behind: "steps behind",
};

export class RankGrid {
  private readonly canvas = make("canvas", { tabindex: "0", role: "application", "aria-describedby": "rank-caption" });
  private readonly caption = make("p", { id: "rank-caption", "aria-live": "polite" });
  private readonly note = make("p", { class: "note" });
  private readonly choice = make("select", { "aria-label": "Quantity shown in the cells" });
  private workers: Workers | null = null;
  private chosen = 0;
  private columns = 1;
  private cell = 20;

  constructor(container: HTMLElement, open: (rank: number) => void) {
    for (const [key, name] of Object.entries(kNames)) {
      this.choice.append(make("option", { value: key }, name));
    }
    const head = make("div", { class: "head" }, make("h2", {}, "Ranks"), this.choice);
    container.append(head, make("div", { class: "canvas" }, this.canvas), this.caption, this.note);
    this.choice.addEventListener("change", () => this.draw());
    this.canvas.addEventListener("mousemove", (event) => this.pick(event));
    this.canvas.addEventListener("click", (event) => {
      this.pick(event);
      this.open(open);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event, open));
    new ResizeObserver(() => this.draw()).observe(container);
  }

  show(snapshot: Snapshot): void {
    const isFirst = this.workers === null;
    this.workers = snapshot.workers;
    const hasGpus = this.workers.utilisation.some((value) => value !== null);
    if (isFirst && !hasGpus && this.workers.cores.some((value) => value !== null)) {
      this.choice.value = "cores";
    }
    this.note.textContent = hasGpus ? "" : `no GPU${snapshot.no_gpus ? `: ${snapshot.no_gpus}` : ""}`;
    this.draw();
  }

  // 0 to 1, or null if unknown.
  private share(i: number): number | null {
    const workers = this.workers!;
    const ratio = (value: number | null, maximum: number | null) =>
      value === null || !maximum ? null : Math.min(1, value / maximum);
    switch (this.choice.value as Quantity) {
      case "utilisation":
        return workers.utilisation[i];
      case "memory":
        return ratio(workers.memory_bytes[i], workers.memory_total_bytes[i] ?? this.maximum(workers.memory_bytes));
      case "power":
        return ratio(workers.power_watts[i], this.maximum(workers.power_watts));
      case "cores":
        return ratio(workers.cores[i], this.maximum(workers.cores));
      case "behind":
        return Math.min(1, workers.behind[i] / 10);
    }
  }

  private maximum(values: (number | null)[]): number {
    return values.reduce<number>((maximum, value) => Math.max(maximum, value ?? 0), 0);
  }

  draw(): void {
    const workers = this.workers;
    if (!workers) {
      return;
    }
    const count = workers.rank.length;
    const width = this.canvas.parentElement!.clientWidth || 300;
    this.cell = count <= 64 ? 44 : count <= 256 ? 26 : 16;
    this.columns = Math.max(1, Math.floor(width / this.cell));
    const context = prepare(this.canvas, Math.max(1, Math.ceil(count / this.columns)) * this.cell);
    const [low, high, none] = [colour("cell-low"), colour("cell-high"), colour("cell-none")];
    const [text, warn, line] = [colour("text"), colour("mark-restart"), colour("text")];
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = "11px system-ui, sans-serif";
    for (let i = 0; i < count; i++) {
      const x = (i % this.columns) * this.cell;
      const y = Math.floor(i / this.columns) * this.cell;
      const share = this.share(i);
      const size = this.cell - 2;
      context.globalAlpha = 1;
      context.fillStyle = share === null ? none : low;
      context.fillRect(x + 1, y + 1, size, size);
      if (share !== null) {
        context.globalAlpha = share;
        context.fillStyle = high;
        context.fillRect(x + 1, y + 1, size, size);
        context.globalAlpha = 1;
      }
      if (workers.straggler[i] !== null) {
        context.strokeStyle = warn;
        context.lineWidth = 2;
        context.strokeRect(x + 2, y + 2, size - 2, size - 2);
      }
      if (this.cell >= 26) {
        context.fillStyle = text;
        context.fillText(String(workers.rank[i]), x + this.cell / 2, y + this.cell / 2);
      }
      if (i === this.chosen) {
        context.strokeStyle = line;
        context.lineWidth = 1.5;
        context.strokeRect(x + 0.75, y + 0.75, this.cell - 1.5, this.cell - 1.5);
      }
    }
    this.canvas.setAttribute("aria-label", `${count} ranks, ${kNames[this.choice.value as Quantity]}; arrow keys choose one, Enter shows its log`);
    this.describe();
  }

  private describe(): void {
    const workers = this.workers!;
    const i = this.chosen;
    if (i >= workers.rank.length) {
      this.caption.textContent = "No rank has reported yet.";
      return;
    }
    const parts = [`rank ${workers.rank[i]}`];
    const add = (value: unknown, text: string) => value !== null && value !== undefined && parts.push(text);
    if (workers.host[i]) {
      parts.push(`on ${workers.host[i]}`);
    }
    parts.push(workers.step[i] < 0 ? "no step yet" : `step ${workers.step[i]}`);
    parts.push(workers.gpu[i] === null ? "no GPU" : `GPU ${workers.gpu[i]}`);
    add(workers.utilisation[i], `utilization ${format.percent(workers.utilisation[i])}`);
    const total = workers.memory_total_bytes[i];
    add(workers.memory_bytes[i], `memory ${format.bytes(workers.memory_bytes[i])}${total ? ` of ${format.bytes(total)}` : ""}`);
    add(workers.power_watts[i], `${format.number(workers.power_watts[i])} W`);
    add(workers.temperature[i], `${format.number(workers.temperature[i])} °C`);
    add(workers.cores[i], `${format.number(workers.cores[i])} cores busy`);
    add(workers.straggler[i], `straggler: ${workers.straggler[i]}`);
    if (workers.ended[i]) {
      parts.push("ended");
    }
    const text = parts.join(" · ");
    if (this.caption.textContent !== text) {
      this.caption.textContent = text;
    }
  }

  private pick(event: MouseEvent): void {
    const column = Math.floor(event.offsetX / this.cell);
    const i = Math.floor(event.offsetY / this.cell) * this.columns + column;
    if (this.workers && column < this.columns && i < this.workers.rank.length && i !== this.chosen) {
      this.chosen = i;
      this.draw();
    }
  }

  private open(open: (rank: number) => void): void {
    const rank = this.workers?.rank[this.chosen];
    if (rank !== undefined) {
      open(rank);
    }
  }

  private key(event: KeyboardEvent, open: (rank: number) => void): void {
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    const move = moves[event.key];
    if (event.key === "Enter") {
      this.open(open);
    } else if (move !== undefined && this.workers) {
      event.preventDefault();
      this.chosen = Math.min(this.workers.rank.length - 1, Math.max(0, this.chosen + move));
      this.draw();
    }
  }
}
