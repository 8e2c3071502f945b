// SPDX-License-Identifier: Apache-2.0
// The log of a rank: its newest lines, or the lines that contain a search term.
import * as api from "./api";
import { make } from "./dom";
import * as format from "./format";

const kMaxLines = 2000;

export class LogPane {
  private readonly rank = make("input", { type: "number", min: "0", value: "0", "aria-label": "Rank" });
  private readonly attempt = make("select", { "aria-label": "Attempt" });
  private readonly search = make("input", { type: "search", placeholder: "search", "aria-label": "Search the log" });
  private readonly follow = make("input", { type: "checkbox", checked: "" });
  private readonly lines = make("pre", { tabindex: "0", "aria-label": "Log lines" });
  private readonly status = make("p", { class: "note", role: "status" });
  private run = "";
  private next: number | null = null;
  private requestNumber = 0; // of the current request; responses to older ones are dropped

  constructor(container: HTMLElement) {
    this.attempt.append(make("option", { value: "" }, "newest attempt"));
    const head = make("div", { class: "head" });
    head.append(make("h2", {}, "Log"), make("label", {}, "rank ", this.rank), this.attempt, this.search, make("label", {}, this.follow, " follow"));
    container.append(head, this.lines, this.status);
    let pause = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(pause);
      pause = window.setTimeout(() => void this.reload(), 200);
    });
    this.rank.addEventListener("change", () => void this.reload());
    this.attempt.addEventListener("change", () => void this.reload());
  }

  open(run: string, rank?: number): void {
    if (run === this.run && rank === undefined) {
      return;
    }
    this.run = run;
    this.rank.value = String(rank ?? 0);
    void this.reload();
  }

  // Appends lines that have been written since the last request.
  async more(): Promise<void> {
    if (this.next !== null) {
      await this.request(this.next);
    } else {
      await this.reload();
    }
  }

  private async reload(): Promise<void> {
    this.next = null;
    await this.request(undefined);
  }

  private async request(after: number | undefined): Promise<void> {
    const requestNumber = ++this.requestNumber;
    try {
      const page = await api.logs({
        run: this.run,
        rank: Number(this.rank.value) || 0,
        attempt: this.attempt.value === "" ? undefined : Number(this.attempt.value),
        search: this.search.value || undefined,
        after,
      });
      if (requestNumber === this.requestNumber) {
        this.show(page, after !== undefined);
      }
    } catch (fault) {
      if (requestNumber === this.requestNumber) {
        this.lines.replaceChildren();
        this.status.textContent = fault instanceof Error ? fault.message : String(fault);
      }
    }
  }

  private show(page: api.LogPage, isMore: boolean): void {
    const known = [...this.attempt.options].map((option) => option.value).join();
    const wanted = ["", ...page.attempts.map(String)];
    if (known !== wanted.join()) {
      const chosen = this.attempt.value;
      this.attempt.replaceChildren(...wanted.map((value) => make("option", { value }, value === "" ? "newest attempt" : `attempt ${value}`)));
      this.attempt.value = chosen;
    }
    this.rank.max = String(Math.max(0, page.ranks - 1));
    if (!isMore) {
      this.lines.replaceChildren();
    }
    this.lines.append(...page.lines.map((line) => this.line(line)));
    while (this.lines.childElementCount > kMaxLines) {
      this.lines.firstElementChild!.remove();
    }
    this.next = page.next;
    if (this.follow.checked && (page.lines.length > 0 || !isMore)) {
      this.lines.scrollTop = this.lines.scrollHeight;
    }
    const shown = this.lines.childElementCount;
    const what = this.search.value ? `${shown} lines that contain “${this.search.value}”` : `${shown} lines`;
    const part = page.searched_from > 0 && this.search.value ? `, in the last ${format.bytes(page.size - page.searched_from)}` : "";
    this.status.textContent = `rank ${page.rank}, attempt ${page.attempt}: ${what}${part}; total ${format.bytes(page.size)}`;
  }

  private line(line: api.LogLine): HTMLElement {
    const element = make("div", { class: "line", "data-offset": String(line.offset) });
    const word = this.search.value.toLowerCase();
    let rest = line.text;
    while (word) {
      const at = rest.toLowerCase().indexOf(word);
      if (at < 0) {
        break;
      }
      element.append(rest.slice(0, at), make("mark", {}, rest.slice(at, at + word.length)));
      rest = rest.slice(at + word.length);
    }
    element.append(rest, "\n");
    return element;
  }
}
