package opentsdb

import (
	"context"
	"fmt"
	"math"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/tsuid"
	"halite/query/opentsdb/request"
	"halite/query/read"
)

// UnknownNameError means that a query names a metric, a tag or a value that no series has. Its text is OpenTSDB's.
type UnknownNameError struct {
	// Kind is metrics, tagk or tagv.
	Kind, Name string
}

func (e *UnknownNameError) Error() string {
	return fmt.Sprintf("No such name for '%s': '%s'", e.Kind, e.Name)
}

// unknownIDError means that no metric has the given UID.
type unknownIDError struct{ id tsuid.UID }

func unknownID(id tsuid.UID) error { return &unknownIDError{id} }

func (e *unknownIDError) Error() string {
	return fmt.Sprintf("No such unique ID for 'metrics': %s", e.id)
}

// mixedMetricsError means that tsuids belong to several metrics.
type mixedMetricsError struct{ one, other tsuid.UID }

func (e *mixedMetricsError) Error() string {
	return fmt.Sprintf("One or more TSUIDs did not share the same metric [%s] [%s]", e.one, e.other)
}

// checkNames returns an UnknownNameError if the sub-query has a name that no series has. It looks up only names that the
// selected series lack, so look-ups are rare.
func (e *Engine) checkNames(ctx context.Context, s *request.SubQuery, found *read.Selection) error {
	if found.Len() == 0 {
		if err := e.checkName(ctx, "metrics", s.Metric, model.MetricNameLabel, s.Metric); err != nil {
			return err
		}
	}
	for _, f := range s.Filters {
		missing := map[string]bool{}
		for _, v := range f.Literals {
			missing[v] = true
		}
		for i := 0; i < found.Len() && len(missing) > 0; i++ {
			delete(missing, found.Labels(i).Get(f.Key))
		}
		if found.Len() == 0 || len(missing) > 0 {
			if err := e.checkKey(ctx, f.Key); err != nil {
				return err
			}
		}
		for _, v := range f.Literals {
			if missing[v] {
				if err := e.checkName(ctx, "tagv", v, f.Key, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkName returns an UnknownNameError of a kind and a name if no series has the value in the label.
func (e *Engine) checkName(ctx context.Context, kind, name, label, value string) error {
	is := labels.MustNewMatcher(labels.MatchEqual, label, value)
	found, err := e.opts.Names.LabelValues(ctx, label, 0, math.MaxInt64, 1, is)
	if err != nil {
		return read.Classify("look up a name", err)
	}
	if len(found) == 0 {
		return badRequest(&UnknownNameError{Kind: kind, Name: name})
	}
	return nil
}

// checkKey returns an UnknownNameError if no series has the tag.
func (e *Engine) checkKey(ctx context.Context, key string) error {
	found, err := e.opts.Names.LabelValues(ctx, key, 0, math.MaxInt64, 1)
	if err != nil {
		return read.Classify("look up a name", err)
	}
	if len(found) == 0 {
		return badRequest(&UnknownNameError{Kind: "tagk", Name: key})
	}
	return nil
}
