package doctor

import (
	"fmt"
	"strings"
	"time"
)

// readiness says whether the server answers requests and accepts writes.
func readiness(f *Facts, _ *Options) []Verdict {
	if f.Ready {
		return ok("The server has been up for %s. It answers requests and accepts writes.", span(f.uptime()))
	}
	return []Verdict{{
		Level: Critical, Evidence: "The server is not ready: " + f.NotReady + ".",
		Advice:  "Read the log of the server. Senders keep their samples and send them again.",
		Command: "curl http://127.0.0.1:9480/-/ready",
	}}
}

func (f *Facts) uptime() time.Duration { return time.Duration(f.NowMs-f.StartMs) * time.Millisecond }

// diskFull extrapolates the use of the disk.
func diskFull(f *Facts, o *Options) []Verdict {
	if len(f.Disk) == 0 {
		return ok("The free space is unknown here: the data lies on another machine.")
	}
	first, last := f.Disk[0], f.Disk[len(f.Disk)-1]
	window := time.Duration(last.TsMs-first.TsMs) * time.Millisecond
	free := float64(last.FreeBytes)
	share := free / max(float64(last.TotalBytes), 1)
	evidence := fmt.Sprintf("%s of %s are free (%.0f %%).", byteText(free), byteText(float64(last.TotalBytes)), 100*share)
	v := Verdict{
		Level: OK,
		Advice: "Enlarge the disk, or keep samples for a shorter time. The second command shows how much space a retention " +
			"would free.",
		Command: lines("--storage.retention.raw=15d", "curl 'http://127.0.0.1:9480/api/v1/status/retention?raw=15d'"),
	}
	switch grown := float64(first.FreeBytes - last.FreeBytes); {
	case window < o.DiskWindowMin:
		evidence += fmt.Sprintf(" The server cannot say yet when the disk will be full: the server has watched it for %s and needs %s.",
			span(window), span(o.DiskWindowMin))
	case grown <= 0:
		evidence += fmt.Sprintf(" Within %s the free space did not shrink.", span(window))
	default:
		left := time.Duration(min(free/grown*window.Seconds(), (1000*24*time.Hour).Seconds())) * time.Second
		evidence += fmt.Sprintf(" Within %s the free space shrank by %s. At that rate the disk is full in %s.", span(window),
			byteText(grown), span(left))
		switch {
		case left <= o.DiskCritical:
			v.Level = Critical
		case left <= o.DiskWarn:
			v.Level = Warn
		}
	}
	switch {
	case share < o.DiskFreeCritical:
		v.Level = Critical
	case share < o.DiskFreeShare && v.Level == OK:
		v.Level = Warn
	}
	if v.Level == OK {
		return ok("%s", evidence)
	}
	v.Evidence = evidence
	return []Verdict{v}
}

// damage reports damaged data of all layers.
func damage(f *Facts, _ *Options) []Verdict {
	var found []string
	for _, x := range []struct {
		name, text string
		now        bool // a gauge; otherwise a counter since the start
	}{
		{damagedDays, "%s days of the series index are damaged", true},
		{corruptions, "stored blocks were found damaged %s times since the start", false},
		{corruptRollups, "%s cells of rollups are damaged", false},
		{unreadableRows, "%s rows of samples are unreadable", false},
		{logLosses, "the last start accepted %s damaged parts of the log", true},
	} {
		if n := f.Values[x.name]; n > 0 {
			found = append(found, fmt.Sprintf(x.text, count(n)))
		}
	}
	if len(found) == 0 {
		return ok("No damage has been found since the start.")
	}
	text := strings.Join(found, "; ")
	return []Verdict{{
		Level: Critical, Evidence: strings.ToUpper(text[:1]) + text[1:] + ".",
		Advice: "The command lists the damage with its series and hours, on a stopped server. With --url it reads a running one. " +
			"Restore a backup, or rebuild the index from the rows. Check the disk.",
		Command: "tsdb verify --storage.path=DIR",
	}}
}

// flushLag says whether the head reaches the tables.
func flushLag(f *Facts, o *Options) []Verdict {
	if !f.has(headRows) {
		return ok("This server has no head: each write goes to the tables at once.")
	}
	rows, flushed := f.Values[headRows], f.Increases[FlushedRows]
	failed := f.Increases[flushFailures] + f.Increases[checkpointFailures]
	since := time.Duration(f.NowMs-max(f.FlushedMs, f.StartMs)) * time.Millisecond
	evidence := fmt.Sprintf("%s rows (%s) wait in memory, the log has %s. %s rows were flushed within %s.",
		count(rows), byteText(f.Values[headBytes]), byteText(f.Values[logBytes]), count(flushed), span(f.Window))
	switch {
	case failed > 0:
		return []Verdict{{
			Level: Critical,
			Evidence: fmt.Sprintf("%s flushes or truncations of the log failed within %s. ", count(failed), span(f.Window)) +
				evidence,
			Advice:  "The samples are safe in the log, which grows. The log of the server names the failure.",
			Command: "journalctl -u halite -g flush",
		}}
	case rows > 0 && since >= o.FlushAge:
		return []Verdict{{
			Level:    Warn,
			Evidence: evidence + fmt.Sprintf(" Rows of closed hours are flushed each hour, but no flush happened for %s.", span(since)),
			Advice:   "Flush by hand, and read the log of the server.", Command: "curl -X POST http://127.0.0.1:9480/api/v1/admin/flush",
		}}
	}
	return ok("%s", evidence)
}

// compactionLag says whether compactions keep up with writes.
func compactionLag(f *Facts, o *Options) []Verdict {
	failed := 0.0
	for _, name := range []string{backgroundErrors, dayChunkFailures, indexFailures, packFailures} {
		failed += f.Increases[name]
	}
	if failed > 0 {
		return []Verdict{{
			Level: Warn, Evidence: fmt.Sprintf("%s compactions failed within %s.", count(failed), span(f.Window)),
			Advice:  "They run again. The log of the server names the failure; often the disk is full or has errors.",
			Command: "journalctl -u halite -g compact",
		}}
	}
	if !f.has(compactionDebt) {
		return ok("Compactions have not failed within %s. The tables compact themselves.", span(f.Window))
	}
	debt, stored, runs := f.Values[compactionDebt], f.Values[storeBytes], f.Values[readRuns]
	evidence := fmt.Sprintf("%s of %s wait for compaction. A read searches up to %s sorted runs. Writes stalled %s times within %s.",
		byteText(debt), byteText(stored), count(runs), count(f.Increases[writeStalls]), span(f.Window))
	if debt > o.DebtBytesMin && debt > o.DebtShare*stored || runs > o.ReadRuns || f.Increases[writeStalls] > 0 {
		return []Verdict{{
			Level: Warn, Evidence: evidence,
			Advice: "The disk or the processor does not keep up. Use a faster disk or more cores, write less, or let the server " +
				"write fewer and larger files with a larger memtable.",
			Command: "--storage.memtable-bytes=256MB",
		}}
	}
	return ok("%s", evidence)
}

// rollupLag says whether rollups follow the closed days.
func rollupLag(f *Facts, o *Options) []Verdict {
	switch {
	case !f.has(rollupAge):
		return ok("This server computes no rollups.")
	case f.has(rollupLease) && f.Values[rollupLease] == 0:
		return ok("Another server computes the rollups.")
	}
	lag := time.Duration(f.Values[rollupAge]) * time.Second
	failed := f.Increases[rollupFailures]
	evidence := fmt.Sprintf("The oldest day without rollups ended %s ago, %s days are pending, and %s passes failed within %s.",
		span(lag), count(f.Values[rollupDays]), count(failed), span(f.Window))
	level := OK
	switch {
	case lag >= o.RollupLagCritical:
		level = Critical
	case lag >= o.RollupLag || failed > 0:
		level = Warn
	}
	if level == OK {
		return ok("%s", evidence)
	}
	return []Verdict{{
		Level: level, Evidence: evidence,
		Advice: "Queries of these days read samples, which is slower but correct. Samples stay until the rollups exist. The log " +
			"names failures. A backfill delays the job on purpose.",
		Command: "journalctl -u halite -g rollup",
	}}
}

// sweepLag says whether sweeps remove expired data in time.
func sweepLag(f *Facts, o *Options) []Verdict {
	if !f.has(sweepTime) {
		return ok("This server sweeps no data.")
	}
	last, failed := f.Values[sweepTime], f.Increases[sweepFailures]
	since, evidence := f.uptime(), "No sweep has ended since the start. "
	if last > 0 {
		since = time.Duration(float64(f.NowMs)-1000*last) * time.Millisecond
		evidence = fmt.Sprintf("The last complete sweep ended %s ago. ", span(since))
	}
	evidence += fmt.Sprintf("%s sweeps failed within %s. %s deletions wait for cleaning.", count(failed), span(f.Window),
		count(f.Values[tombstones]))
	if failed == 0 && since < o.SweepLag {
		return ok("%s", evidence)
	}
	return []Verdict{{
		Level: Warn, Evidence: evidence,
		Advice:  "Expired data is hidden, but takes space. The log of the server names the failure.",
		Command: "journalctl -u halite -g sweep",
	}}
}

// clockJump says whether a jump of the server's clock keeps expired data from being dropped.
func clockJump(f *Facts, _ *Options) []Verdict {
	ahead := time.Duration(f.Values[clockAhead] * float64(time.Second))
	if ahead <= 0 {
		return ok("The clock has not jumped ahead.")
	}
	return []Verdict{{
		Level: Warn,
		Evidence: fmt.Sprintf("The clock jumped ahead by %s, or the server was stopped for that long. It drops no expired data.",
			span(ahead)),
		Advice: "If the clock is wrong, set it back within the time of --storage.retention.clock-jump. If it is right, do nothing: " +
			"the server drops expired data after it has run for that time.",
		Command: "timedatectl",
	}}
}
