package transfer

import (
	"fmt"
	"time"

	"halite/keyschema"
)

// Expired returns an error if the retention would drop samples of a source. raw is the retention of samples, histograms the
// retention of native histograms.
func Expired(s Size, raw, histograms keyschema.Age, now time.Time) error {
	if s.OldestMs < 0 {
		return nil // the first rejection stops the import
	}
	oldest := time.UnixMilli(s.OldestMs).UTC()
	for _, t := range []struct {
		age  keyschema.Age
		flag string
		has  bool
	}{{raw, "--storage.retention.raw", true}, {histograms, "--storage.retention.histograms", s.Histograms}} {
		if !t.has || s.OldestMs >= t.age.CutoffMs(now.UnixMilli()) {
			continue
		}
		return fmt.Errorf("%w: the oldest ones are from %s, but %s=%s keeps only samples from %s on: set the flag to "+
			"%dd or more, or leave out older samples with --skip-expired", ErrExpired, oldest.Format(time.RFC3339),
			t.flag, t.age, now.Add(-time.Duration(t.age)).UTC().Format(time.RFC3339), int(now.Sub(oldest)/(24*time.Hour))+1)
	}
	return nil
}
