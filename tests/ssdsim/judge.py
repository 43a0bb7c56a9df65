#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Summarise the log of a simulated drive between two moments: the ground truth that tests and the
demo judge by. The lines of the log are described in README.md.

Exit status: 0 summary printed; 2 usage, unreadable log, or no flush between the two moments."""

import argparse
import json
import sys

# Stalled flushes closer than this belong to one burst.
BURST_GAP = 2.0
# A burst shorter than this is not worth counting as a stall that somebody feels.
LONG_BURST = 3.0


def parse_line(line):
    """The fields of one line: t in seconds, other numbers as int, the rest as text."""
    event = {}
    for field in line.split():
        key, separator, value = field.partition("=")
        if not separator:
            raise ValueError(f"field without a value: {field}")
        if key == "t":
            event[key] = float(value)
        else:
            event[key] = int(value) if value.lstrip("-").isdigit() else value
    if "t" not in event or "ev" not in event:
        raise ValueError("no t= or ev=")
    return event


def read_log(path):
    """All events, in order of t. The last line may be cut off while the drive still runs."""
    events = []
    with open(path, encoding="utf-8") as log:
        for number, line in enumerate(log, 1):
            if not line.endswith("\n"):
                break
            try:
                events.append(parse_line(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    return sorted(events, key=lambda event: event["t"])


def quantile(ordered, share):
    """The value that `share` of the values do not exceed (nearest rank)."""
    return ordered[max(0, min(len(ordered) - 1, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def find_bursts(stalls):
    """Runs of stalled flushes (events) with no gap over BURST_GAP."""
    runs = []
    for stall in stalls:
        begin, end = stall["t"], stall["t"] + stall["dur_us"] / 1e6
        if runs and begin - runs[-1][1] <= BURST_GAP:
            runs[-1][1] = max(end, runs[-1][1])
            runs[-1][2] += 1
        else:
            runs.append([begin, end, 1, stall.get("real", 0) / 1000])
    return [{"from": round(begin, 3), "real": real, "seconds": round(end - begin, 3), "flushes": count}
            for begin, end, count, real in runs]


def summarise(events, factor, median_us=None):
    """The summary of events that were already picked. `median_us` replaces their own median as the
    usual flush, to compare a time with an earlier one."""
    flushes = [event for event in events if event["ev"] == "flush"]
    if not flushes:
        raise ValueError("no flush between the two moments")
    lengths = sorted(flush["dur_us"] for flush in flushes)
    own_median = quantile(lengths, 0.5)
    limit = factor * (own_median if median_us is None else median_us)
    stalls = [flush for flush in flushes if flush["dur_us"] > limit]
    planned = sorted(flush["plan_us"] for flush in flushes)
    planned_median = quantile(planned, 0.5)
    planned_limit = factor * (planned_median if median_us is None else median_us)
    bursts = find_bursts(stalls)
    long_bursts = [burst for burst in bursts if burst["seconds"] >= LONG_BURST]
    starts = [burst["from"] for burst in long_bursts]
    trims = [event for event in events if event["ev"] == "trim"]
    ends = [event for event in events if event["ev"] == "gc-end"]
    return {
        "from": events[0]["t"],
        "to": events[-1]["t"],
        "flushes": len(flushes),
        "flushes_with_data": sum(1 for flush in flushes if flush["pages"] > 0),
        "median_us": own_median,
        "p99_us": quantile(lengths, 0.99),
        "worst_us": lengths[-1],
        "mean_us": round(sum(lengths) / len(lengths)),
        "limit_us": round(limit),
        "stalled": len(stalls),
        "stalled_share": round(len(stalls) / len(flushes), 6),
        # The same by what the model asked for, without what a busy host adds.
        "planned_median_us": planned_median,
        "planned_worst_us": planned[-1],
        "planned_stalled": sum(1 for length in planned if length > planned_limit),
        "bursts": bursts,
        "long_bursts": len(long_bursts),
        "burst_periods": [round(later - earlier, 3)
                          for earlier, later in zip(starts, starts[1:])],
        "collections": len(ends),
        "collection_seconds": [round(event["dur_us"] / 1e6, 3) for event in ends],
        "pages_programmed": sum(event.get("pages", 0) for event in events
                                if event["ev"] in ("flush", "fua")),
        "pages_moved": sum(event.get("moved", 0) for event in events
                           if event["ev"] in ("flush", "fua", "write")),
        "blocks_erased": sum(event.get("erased", 0) for event in events
                             if event["ev"] in ("flush", "fua", "write")),
        "fua_writes": sum(1 for event in events if event["ev"] == "fua"),
        "trims": len(trims),
        "trimmed_bytes": sum(trim["len"] for trim in trims),
        "unmapped_bytes": sum(trim["pages"] * 4096 for trim in trims),
        "hangs": sum(1 for event in events if event["ev"] == "hang-start"),
    }


def print_table(summary):
    """The summary for people."""
    print(f"time           {summary['from']:.1f} s to {summary['to']:.1f} s")
    print(f"flushes        {summary['flushes']} ({summary['flushes_with_data']} with data)")
    print(f"usual          {summary['median_us'] / 1000:.2f} ms (median), "
          f"mean {summary['mean_us'] / 1000:.2f} ms, p99 {summary['p99_us'] / 1000:.2f} ms, "
          f"worst {summary['worst_us'] / 1000:.2f} ms")
    print(f"stalled        {summary['stalled']} over {summary['limit_us'] / 1000:.2f} ms "
          f"({100 * summary['stalled_share']:.2f} %); "
          f"{summary['planned_stalled']} asked for by the model")
    for burst in summary["bursts"]:
        if burst["seconds"] >= LONG_BURST:
            print(f"  burst        from {burst['from']:.1f} s for {burst['seconds']:.1f} s, "
                  f"{burst['flushes']} flushes")
    print(f"collection     {summary['collections']} episodes, {summary['pages_moved']} pages moved, "
          f"{summary['blocks_erased']} blocks erased")
    print(f"trims          {summary['trims']}, {summary['trimmed_bytes']} bytes asked, "
          f"{summary['unmapped_bytes']} bytes unmapped")


def main():
    parser = argparse.ArgumentParser(description="Summarise the log of a simulated drive.")
    parser.add_argument("log")
    parser.add_argument("--from", dest="begin", type=float, metavar="T",
                        help="first moment, in seconds of the log's t (default: its start)")
    parser.add_argument("--to", dest="end", type=float, metavar="T",
                        help="last moment (default: its end)")
    parser.add_argument("--real", action="store_true",
                        help="the moments are seconds since 1970 instead")
    parser.add_argument("--over", type=float, default=4.0, metavar="FACTOR",
                        help="a flush is stalled over FACTOR times the usual one (default 4)")
    parser.add_argument("--median-us", type=float, metavar="US",
                        help="the usual flush (default: the median of those summarised)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    def moment(event):
        return event["real"] / 1000.0 if options.real else event["t"]

    try:
        events = [event for event in read_log(options.log)
                  if event["ev"] != "start"
                  and (options.begin is None or moment(event) >= options.begin)
                  and (options.end is None or moment(event) <= options.end)]
        summary = summarise(events, options.over, options.median_us)
    except (OSError, ValueError, KeyError) as error:
        print(f"judge.py: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(summary, indent=1))
    else:
        print_table(summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
