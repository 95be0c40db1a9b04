#!/usr/bin/env bash
# Compares tsdb with Prometheus and VictoriaMetrics and writes the first tables of benchmarks.md.
#
#   docs/benchmarks.sh            # prints the tables
#   docs/benchmarks.sh --write    # replaces them in docs/benchmarks.md
#
# It builds tsdb, starts each server on an empty directory and a loopback port, and runs `tsdb loadtest compare`. A peer that is not
# installed is left out. PROMETHEUS and VICTORIA_METRICS name other binaries. HOSTS scales the load (100 series a host).
set -euo pipefail
cd "$(dirname "$0")/.."

hosts=${HOSTS:-1000}
prometheus=${PROMETHEUS:-$(command -v prometheus || true)}
victoria=${VICTORIA_METRICS:-$(command -v victoria-metrics || true)}
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
go build -o "$work/tsdb" ./cmd/tsdb

wait_ready() { # url
  for _ in $(seq 300); do
    curl -fs -o /dev/null "$1" && return
    sleep 0.1
  done
  echo "no response from $1" >&2
  exit 1
}

start_servers() { # directory; sets the array targets
  local dir=$1
  targets=()
  mkdir -p "$dir"
  if [ -n "$prometheus" ]; then
    # The probe of freshness writes samples of now, so the load comes out of order.
    echo 'storage: {tsdb: {out_of_order_time_window: 90d}}' >"$dir/prometheus.yml"
    "$prometheus" --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/prometheus" --web.listen-address=127.0.0.1:19090 \
      --web.enable-remote-write-receiver --web.enable-admin-api --storage.tsdb.retention.time=90d --log.level=warn 2>"$dir/prometheus.log" &
    pids+=($!)
    targets+=(--target "name=Prometheus;write=http://127.0.0.1:19090/api/v1/write;query=http://127.0.0.1:19090;pid=$!;dir=$dir/prometheus;flush=http://127.0.0.1:19090/api/v1/admin/tsdb/snapshot")
  fi
  if [ -n "$victoria" ]; then
    "$victoria" -storageDataPath="$dir/victoria" -httpListenAddr=127.0.0.1:18428 -retentionPeriod=90d -loggerLevel=WARN 2>"$dir/victoria.log" &
    pids+=($!)
    targets+=(--target "name=VictoriaMetrics;write=http://127.0.0.1:18428/api/v1/write;query=http://127.0.0.1:18428;pid=$!;dir=$dir/victoria;flush=http://127.0.0.1:18428/internal/force_merge;params=nocache=1")
  fi
  "$work/tsdb" serve --storage.path="$dir/halite" --web.listen-address=127.0.0.1:19480 --web.enable-admin-api >"$dir/halite.log" 2>&1 &
  pids+=($!)
  targets+=(--target "name=Halite;write=http://127.0.0.1:19480/api/v1/write;query=http://127.0.0.1:19480;pid=$!;dir=$dir/halite;flush=http://127.0.0.1:19480/api/v1/admin/flush")
  [ -z "$prometheus" ] || wait_ready http://127.0.0.1:19090/-/ready
  [ -z "$victoria" ] || wait_ready http://127.0.0.1:18428/health
  wait_ready http://127.0.0.1:19480/-/ready
  for pid in "${pids[@]}"; do
    kill -0 "$pid" || { echo "a server did not start; is its port in use? See the logs in $dir" >&2; exit 1; }
  done
}

stop_servers() {
  kill "${pids[@]}" 2>/dev/null || true
  wait
  pids=()
}

# all_tables keeps the tables of a report, without the paths of queries.
all_tables() { grep '^|' | sed -E 's/ \(\/api[^|]*\)//g; s/^\| query \|/\n&/'; }

# above_bound keeps the range queries above 0.8 × the better peer, the look-ups, and the geometric means.
above_bound() {
  awk -F'|' '
    /^\| range 6h \| [A-Z]/ { part = "range"; header = $0; next }
    /^\| instant, one series \| [A-Z]/ { part = "" }
    /^\| look-up \| [A-Z]/ { part = "look-up"; print ""; print; next }
    /^\| geometric mean to/ { part = "means"; print ""; print; next }
    part == "range" && /^\|---/ { header = header "\n" $0; next }
    part == "range" && /^\| `/ && $(NF - 1) > 0.8 { if (header) { print header; header = "" } print }
    part == "range" { next }
    part != "" && /^\|/ { print }'
}

compare() { # title, filter of the report, flags of `tsdb loadtest compare`
  local title=$1 filter=$2
  shift 2
  start_servers "$work/$title"
  printf '\n### %s\n\n`tsdb loadtest compare %s`\n\n' "$title" "$*"
  # The exit code is 1 when a server lost or changed a sample, and the table says which one.
  "$work/tsdb" loadtest compare --quiet "$@" "${targets[@]}" >"$work/report" || true
  "$filter" <"$work/report"
  stop_servers
}

tables() {
  printf '%s, commit %s, %s cores (%s), %s.\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" "$(nproc)" \
    "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(go env GOVERSION)"
  [ -z "$prometheus" ] || printf 'Peer: %s.\n' "$("$prometheus" --version 2>&1 | sed -n 's/ (branch.*//p' | head -n 1)"
  [ -z "$victoria" ] || printf 'Peer: VictoriaMetrics %s.\n' "${VICTORIA_VERSION:-$(dpkg-query -W -f '${Version}' victoria-metrics 2>/dev/null || echo '(unknown version)')}"
  compare recent all_tables --hosts "$hosts" --from 51m --to 1m --settle 30s
  compare month all_tables --hosts 3 --interval 60s --from 719h --to 1h --settle 30s
  compare functions above_bound --hosts 63 --services 1 --from 6h10m --to 1m --queries all --query-repeats 3
}

if [ "${1:-}" != --write ]; then
  tables
  exit
fi
tables >"$work/tables"
awk -v tables="$work/tables" '
  /<!-- begin: docs\/benchmarks.sh -->/ { print; while ((getline line < tables) > 0) print line; skip = 1 }
  /<!-- end: docs\/benchmarks.sh -->/ { skip = 0 }
  !skip || /<!-- end/ { if (!/<!-- begin/) print }
' docs/benchmarks.md >"$work/page"
cp "$work/page" docs/benchmarks.md
