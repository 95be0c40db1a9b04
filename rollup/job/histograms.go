package job

import (
	"bytes"
	"fmt"
	"slices"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/rollup/cell"
	"halite/rollup/histograms"
	"halite/rollup/store"
	"halite/storage"
)

// histogramPass encodes and decodes the native histograms that states keep.
type histogramPass struct {
	qualifier []byte // of their cells
	encoder   cell.HistogramEncoder
	decoder   cell.HistogramDecoder
}

// histogramsOf returns the histograms to keep of a series and day. Hours with rows are reduced again. Hours whose rows retention
// has dropped keep the stored histograms, unless they were deleted. See keepOrphans.
func (p *dayPass) histogramsOf(sampled *sampledDay, key []byte, stored *storedDay) ([]histchunk.Sample, error) {
	hours := sampled.histograms
	for h := range hours {
		if sampled.damaged>>h&1 != 0 {
			hours[h] = histograms.Hour{}
		}
	}
	if dropped := store.AllHours &^ sampled.foundHistograms &^ stored.gone; dropped != 0 && len(stored.histograms) > 0 {
		kept, err := p.histograms.decoder.Decode(key, p.histograms.qualifier, stored.histograms, p.day*dayMs, nil)
		if err != nil {
			p.j.store.ReportCorrupt(key, err)
		}
		for h, samples := range byHour(kept) {
			if dropped>>h&1 != 0 {
				hours[h] = histograms.Stored(p.notDeleted(samples, stored.horizon))
			}
		}
	}
	return histograms.Join(hours[:])
}

// byHour divides the ascending histograms of a day.
func byHour(samples []histchunk.Sample) (hours [keyschema.DayHours][]histchunk.Sample) {
	from := 0
	for i := range samples {
		h := keyschema.HourOf(samples[i].TsMs) % keyschema.DayHours
		if i+1 == len(samples) || keyschema.HourOf(samples[i+1].TsMs)%keyschema.DayHours != h {
			hours[h], from = samples[from:i+1], i+1
		}
	}
	return hours
}

// notDeleted omits the histograms that deletions after the horizon removed.
func (p *dayPass) notDeleted(samples []histchunk.Sample, horizon uint64) (kept []histchunk.Sample) {
	for _, s := range samples {
		if !p.invalidated.Deletes(s.TsMs, horizon) {
			kept = append(kept, s)
		}
	}
	return kept
}

// appendHistograms appends the entry that stores the histograms. Without any, it replaces a stored cell by an empty one.
func (p *dayPass) appendHistograms(
	entries []storage.Entry, key []byte, kept []histchunk.Sample, stored *storedDay,
) ([]storage.Entry, error) {
	if len(kept) == 0 && len(stored.histograms) == 0 {
		return entries, nil
	}
	var value []byte
	if len(kept) > 0 {
		var err error
		value = p.alloc(func(dst []byte) []byte {
			dst, err = p.histograms.encoder.Append(dst, key, p.histograms.qualifier, p.day*dayMs, kept)
			return dst
		})
		if err != nil {
			return nil, fmt.Errorf("row %s: histograms: %w", key, err)
		}
		if len(value) > storage.CellBytesMax {
			p.j.metrics.unreadable.Inc()
			p.j.opts.Logger.Error("native histograms of a day exceed a cell; they get no rollup state", "row", string(key),
				"bytes", len(value), "max", storage.CellBytesMax)
			value = nil
		}
	}
	return append(entries, p.setCell(p.histograms.qualifier, value)), nil
}

// compareHistograms compares the stored histograms of a day with the histograms computed from its rows. The caller omits
// days with dirty hours, because their neighbours will also change.
func (v *verifier) compareHistograms(day int64, key []byte, sampled *sampledDay, stored *storedDay) error {
	report := func(h int, err error) error {
		v.out.Different++
		return v.report(Difference{
			Prefix: string(stored.prefix), Unit: store.Hours, Bucket: day*keyschema.DayHours + int64(h), Err: err,
		})
	}
	var all []histchunk.Sample
	var err error
	if len(stored.histograms) > 0 {
		qualifier := store.HistogramsQualifier(store.DayOfMonth(day))
		if all, err = v.histograms.Decode(key, qualifier, stored.histograms, day*dayMs, nil); err != nil {
			return report(0, err)
		}
	}
	computed, err := histograms.Join(sampled.histograms[:])
	if err != nil {
		return report(0, err)
	}
	orphan := false // an earlier hour has lost its rows; they decide which histograms the next hour keeps
	was, is := byHour(all), byHour(computed)
	for h := range was {
		switch {
		case sampled.foundHistograms>>h&1 == 0:
			if len(was[h]) > 0 {
				v.out.Orphans++
				orphan = true
			}
			continue
		case !orphan && !sameHistograms(was[h], is[h]):
			err := fmt.Errorf("native histograms differ: stored %d, computed %d", len(was[h]), len(is[h]))
			if err := report(h, err); err != nil {
				return err
			}
		}
		orphan = false
	}
	return nil
}

// sameHistograms compares bit by bit.
func sameHistograms(a, b []histchunk.Sample) bool {
	return slices.EqualFunc(a, b, func(a, b histchunk.Sample) bool {
		return bytes.Equal(histchunk.AppendRecord(nil, a), histchunk.AppendRecord(nil, b))
	})
}
