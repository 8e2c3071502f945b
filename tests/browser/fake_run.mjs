// SPDX-License-Identifier: Apache-2.0
// Writes fake run directories in the format of workers and agents (docs/events.md).
import fs from "node:fs";
import path from "node:path";

export class FakeRun {
  constructor(root, { workers = 2, started = 1700000000, gpus = true } = {}) {
    Object.assign(this, { root, workers, started, gpus });
    fs.mkdirSync(path.join(root, "events"), { recursive: true });
    fs.mkdirSync(path.join(root, "logs", "attempt-0"), { recursive: true });
    fs.writeFileSync(path.join(root, "plan.json"), "{}");
    this.state("running");
    for (let rank = 0; rank < workers; rank++) {
      this.event(rank, { event: "start", time: started, rank, workers, strategy: "ddp", transport: "gloo", global_batch: 64, steps: 1000 });
    }
  }

  file(...names) {
    return path.join(this.root, ...names);
  }

  state(phase, extra = {}) {
    const state = {
      format: 1, run_id: path.basename(this.root), state: phase, host: "node-a",
      machine: "elsewhere", pid: 4711, pid_start_time: 1,
      attempt: 0, nodes: [{ name: "node-a", workers: this.workers, interface: "", address: "" }],
      world_size: this.workers, grace_seconds: 30, started: this.started, updated: Date.now() / 1000,
      ended: null, exit_code: null, slurm_job: "", ...extra,
    };
    fs.writeFileSync(this.file("state.json"), JSON.stringify(state));
  }

  event(rank, event) {
    fs.appendFileSync(this.file("events", `rank-${rank}.jsonl`), JSON.stringify(event) + "\n");
  }

  // A step event; the loss falls, with some noise.
  stepOf(rank, step, seconds = 0.25) {
    const loss = 2.5 * Math.exp(-step / 300) + 0.1 + 0.05 * Math.sin(step * 1.7);
    return {
      event: "step", time: this.started + step * seconds, rank, step, epoch: Math.floor(step / 100), loss,
      learning_rate: 0.1 * (1 + Math.cos((Math.PI * step) / 1000)) / 2, samples_per_second: 5000 + 200 * Math.sin(step / 9),
      data_seconds: 0.02, compute_seconds: 0.15 + (rank === 1 ? 0.05 : 0) + 0.005 * Math.sin(step + rank), exchange_seconds: 0.05, checkpoint_seconds: 0,
    };
  }

  step(rank, step, change = {}) {
    const event = { ...this.stepOf(rank, step), ...change };
    this.event(rank, event);
    return event;
  }

  evaluation(step, accuracy) {
    this.event(0, { event: "evaluation", time: this.started + step * 0.25, rank: 0, step, loss: 1 - accuracy, accuracy, samples: 1000 });
  }

  checkpoint(step) {
    this.event(0, { event: "checkpoint", time: this.started + step * 0.25, rank: 0, step, directory: "checkpoints", seconds: 0.1 });
  }

  sample(node, ranks, time, load = 0.9) {
    const gpus = this.gpus ? ranks.map((_, i) => ({ index: i, uuid: `GPU-${node}-${i}`, name: "Fake GPU", bus_id: "", utilisation: load - 0.03 * i, memory_bytes: 30e9, memory_total_bytes: 80e9, power_watts: 400 + i, temperature: 60 })) : [];
    const sample = {
      event: "node", time, node, host: `node-${node}`, cores: 3.5, granted: 8, memory_bytes: 4e9, memory_limit_bytes: 64e9, interfaces: [], gpus,
      no_gpus: this.gpus ? "" : "no driver", workers: ranks.map((rank, i) => ({ rank, pid: 100 + rank, cores: 1.5, memory_bytes: 2e9, read_bytes: 0, written_bytes: 0, gpus: this.gpus ? [i] : [] })),
    };
    fs.appendFileSync(this.file("events", `node-${node}.jsonl`), JSON.stringify(sample) + "\n");
  }

  say(rank, text, attempt = 0) {
    fs.mkdirSync(this.file("logs", `attempt-${attempt}`), { recursive: true });
    fs.appendFileSync(this.file("logs", `attempt-${attempt}`, `rank-${rank}.log`), text + "\n");
  }
}
