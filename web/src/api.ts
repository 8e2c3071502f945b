// SPDX-License-Identifier: Apache-2.0
// The responses of the launcher; docs/dashboard.md describes every field.

export interface RunEntry {
  id: string;
  name: string;
  directory: string;
  status: string;
}

export interface Snapshot {
  run: {
    id: string;
    name: string;
    directory: string;
    status: string;
    host: string | null;
    attempt: number;
    world_size: number;
    nodes: number;
    started: number | null;
    updated: number | null;
    ended: number | null;
    exit_code: number | null;
    slurm_job: string | null;
  };
  latest: Record<string, number | null>;
  output: Record<string, number>; // values from the output of rank 0, by name
  workers: Workers;
  no_gpus: string;
  series: string[]; // names of the series of the run as a whole
}

// By column, because there may be thousands of ranks.
export interface Workers {
  rank: number[];
  host: string[];
  gpu: (string | null)[]; // "0: NVIDIA H200"
  step: number[];
  behind: number[];
  step_seconds: (number | null)[];
  data_seconds: (number | null)[];
  compute_seconds: (number | null)[];
  exchange_seconds: (number | null)[];
  checkpoint_seconds: (number | null)[];
  utilisation: (number | null)[];
  memory_bytes: (number | null)[]; // of its GPU; resident memory if it has none
  memory_total_bytes: (number | null)[];
  power_watts: (number | null)[];
  temperature: (number | null)[];
  cores: (number | null)[];
  straggler: (string | null)[]; // the reason; null if the rank is not a straggler
  ended: boolean[];
}

export interface Series {
  name: string;
  step: number[];
  time: number[];
  mean: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
}

export interface Mark {
  kind: string; // "start", "restart", "evaluation", "checkpoint", "end"
  time: number;
  step: number | null;
  text: string;
}

export interface Heat {
  what: string; // the series that is compared
  ranks: number[];
  time: number[]; // the end of each column
  percent: (number | null)[][]; // by rank, then by column, relative to the median of the column
  slowest: { rank: number; percent: number }[];
}

export interface LogLine {
  offset: number;
  text: string;
}

export interface LogPage {
  rank: number;
  attempt: number;
  attempts: number[];
  ranks: number;
  lines: LogLine[];
  next: number; // offset of the next page
  size: number; // of the file, in bytes
  searched_from: number; // offset; 0: the whole file was searched
}

export class Refused extends Error {}

async function get<T>(path: string, parameters: Record<string, string | number | undefined> = {}): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) {
      query.set(name, String(value));
    }
  }
  const text = query.toString();
  const answer = await fetch(text ? `${path}?${text}` : path, { credentials: "same-origin" });
  if (!answer.ok) {
    throw new Refused((await answer.text()).trim());
  }
  return (await answer.json()) as T;
}

export const runs = () => get<{ runs: RunEntry[] }>("/api/runs");
export const snapshot = (run: string) => get<Snapshot>("/api/snapshot", { run });
export const marks = (run: string) => get<{ marks: Mark[] }>("/api/marks", { run });
export const heat = (run: string) => get<Heat>("/api/heat", { run });
export const series = (run: string, name: string) => get<Series>("/api/series", { run, name });

export interface LogRequest {
  run: string;
  rank: number;
  attempt?: number;
  search?: string;
  after?: number;
}
export const logs = (request: LogRequest) => get<LogPage>("/api/logs", { ...request });
