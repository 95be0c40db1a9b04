package api

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// namesOf is an index of one metric that has one time and one job.
type namesOf struct {
	Index
	tsMs int64
	job  string
}

func (c namesOf) LabelValues(_ context.Context, _ string, mintMs, maxtMs int64, _ int, matchers ...*labels.Matcher,
) ([]string, error) {
	for _, m := range matchers {
		if m.Name != "job" || !m.Matches(c.job) {
			return nil, nil
		}
	}
	if c.tsMs < mintMs || c.tsMs > maxtMs {
		return nil, nil
	}
	return []string{"m"}, nil
}

// TestLandingPageSaysWhatIsMissing: as long as nobody has sent samples it says so, with what to do about it.
func TestLandingPageSaysWhatIsMissing(t *testing.T) {
	now := time.UnixMilli(1_763_000_000_000)
	for _, c := range []struct {
		ago     time.Duration
		job     string
		arrives bool
	}{
		{time.Minute, "node", true}, {2 * time.Hour, "node", false}, {time.Minute, "halite", false},
	} {
		f := newFixture(t, func(o *Options) {
			o.Index = namesOf{tsMs: now.Add(-c.ago).UnixMilli(), job: c.job}
			o.OwnJob, o.Now = "halite", func() time.Time { return now }
		})
		page := body(t, f.get("/"))
		if c.arrives {
			require.Contains(t, page, "samples are arriving")
			require.NotContains(t, page, "No samples")
			continue
		}
		require.Contains(t, page, "No samples have arrived in the past hour but its own")
		require.Contains(t, page, "/api/v1/write</pre>")
	}
}
