// SPDX-License-Identifier: Apache-2.0
// The time of a step by phase, mean over all ranks.
import type { Snapshot, Workers } from "./api";
import { make } from "./dom";
import * as format from "./format";

const kPhases: [keyof Workers, string][] = [
  ["data_seconds", "data"],
  ["compute_seconds", "compute"],
  ["exchange_seconds", "exchange"],
  ["checkpoint_seconds", "checkpoint"],
];

function mean(values: (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}

export function showSplit(container: HTMLElement, snapshot: Snapshot): void {
  const parts = kPhases
    .map(([column, name]) => ({ name, seconds: mean(snapshot.workers[column] as (number | null)[]) }))
    .filter((part): part is { name: string; seconds: number } => part.seconds !== null && part.seconds > 0);
  const sum = parts.reduce((all, part) => all + part.seconds, 0);
  container.hidden = parts.length === 0;
  const bar = make("div", { class: "bar", "aria-hidden": "true" });
  const legend = make("ul", { class: "legend" });
  for (const part of parts) {
    const share = part.seconds / sum;
    const piece = make("span", { class: `phase ${part.name}` });
    piece.style.flexGrow = String(share);
    bar.append(piece);
    legend.append(
      make("li", { "data-phase": part.name, "data-value": String(part.seconds) }, make("span", { class: `dot ${part.name}` }), `${part.name} ${format.duration(part.seconds)} (${format.percent(share)})`),
    );
  }
  container.replaceChildren(make("div", { class: "head" }, make("h2", {}, "Step time")), bar, legend);
}
