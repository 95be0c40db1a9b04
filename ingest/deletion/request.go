package deletion

import (
	"errors"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/presence"
	"halite/storage/tombstone"
)

// Errors of a deletion besides *tombstone.LimitError.
var (
	// ErrBadRequest means that the request is invalid.
	ErrBadRequest = errors.New("bad deletion")
	// ErrDeletesEverything means that a selector may match all series and Request.Everything is not set.
	ErrDeletesEverything = errors.New("a selector matches everything")
	// ErrTenant means that the write mode cannot drop tenants.
	ErrTenant = errors.New("mode direct drops no tenants, because other servers may write for them; delete the tenant's series " +
		"with delete_series and its own token")
	// ErrUnsupported means that the server has no tombstones.
	ErrUnsupported = errors.New("deletions are not supported here")
)

// Request names the samples to delete.
type Request struct {
	// Selectors name the series: a series must match all matchers of one selector.
	Selectors [][]*labels.Matcher
	// FromMs and ToMs are the first and last millisecond to delete. The deletion ignores times before 1970 or after the last
	// hour of row keys.
	FromMs, ToMs int64
	// Everything permits selectors that may match all series.
	Everything bool
}

// Clip checks a request and narrows it to times that can have samples.
func (r Request) Clip() (Request, error) {
	t := tombstone.Tombstone{Selectors: r.Selectors}
	switch err := t.Validate(); {
	case err != nil:
		return r, fmt.Errorf("%w: %w", ErrBadRequest, err)
	case r.Empty():
		return r, fmt.Errorf("%w: it ends at %d ms, before it begins at %d ms", ErrBadRequest, r.ToMs, r.FromMs)
	case !r.Everything && tombstone.Everything(r.Selectors):
		return r, fmt.Errorf("%w: %s", ErrDeletesEverything, tombstone.SelectorsText(r.Selectors))
	case len(tombstone.Append(nil, &tombstone.Tombstone{Selectors: r.Selectors})) > tombstone.BytesMax/2:
		return r, fmt.Errorf("%w: selectors of more than %d bytes", ErrBadRequest, tombstone.BytesMax/2)
	}
	r.FromMs, r.ToMs = max(r.FromMs, 0), min(r.ToMs, keyschema.TimeMaxMs)
	return r, nil
}

// Empty reports whether no sample can lie in the time range.
func (r Request) Empty() bool { return r.ToMs < r.FromMs }

// WholeMetrics lists the metrics of the selectors that consist of a metric name only.
func WholeMetrics(selectors [][]*labels.Matcher) (metrics []string) {
	for _, ms := range selectors {
		if len(ms) == 1 && ms[0].Name == model.MetricNameLabel && ms[0].Type == labels.MatchEqual {
			metrics = append(metrics, ms[0].Value)
		}
	}
	return metrics
}

// wholeHours returns the hours that a deletion covers completely. First is after Last if there is none.
func wholeHours(t *tombstone.Tombstone) presence.Span {
	return presence.Span{First: (t.FromMs + keyschema.HourMs - 1) / keyschema.HourMs, Last: (t.ToMs+1)/keyschema.HourMs - 1}
}
