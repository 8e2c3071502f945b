// SPDX-License-Identifier: Apache-2.0
// Formats numbers for display.

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) {
    return "–";
  }
  if (value === 0) {
    return "0";
  }
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) {
    return value.toExponential(3);
  }
  if (Number.isInteger(value)) {
    return String(value);
  }
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(5)));
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) {
    return "–";
  }
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) {
    return "–";
  }
  const sign = seconds < 0 ? "-" : "";
  const size = Math.abs(seconds);
  if (size < 1) {
    return `${sign}${Number((size * 1000).toPrecision(3))} ms`;
  }
  if (size < 60) {
    return `${sign}${Number(size.toPrecision(3))} s`;
  }
  const two = (part: number) => String(Math.floor(part)).padStart(2, "0");
  if (size < 3600) {
    return `${sign}${Math.floor(size / 60)}:${two(size % 60)} min`;
  }
  return `${sign}${Math.floor(size / 3600)}:${two((size % 3600) / 60)} h`;
}

export function clock(time: number | null | undefined): string {
  return time ? new Date(time * 1000).toLocaleTimeString("en-GB") : "–";
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`;
}
