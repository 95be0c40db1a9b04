package read

import (
	"bytes"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// neighbours determines from the matchers of a selection which adjacent series in the table are all selected. If the
// matchers use only the leading promoted tags of a rule, then either all series that share these tags are selected, or none.
// The rows of such series are one range. It must not be used if series were omitted for other reasons.
type neighbours struct {
	names   []string // labels of the matchers, without the metric
	equal   []string // labels with one selected value
	divided bool     // the selection has several batches
}

func newNeighbours(matchers []*labels.Matcher) *neighbours {
	c := &neighbours{}
	for _, m := range matchers {
		if m.Name == labelMetric || m.Type == labels.MatchRegexp && m.Value == ".*" {
			continue
		}
		if !slices.Contains(c.names, m.Name) {
			c.names = append(c.names, m.Name)
		}
		if m.Type == labels.MatchEqual {
			c.equal = append(c.equal, m.Name)
		}
	}
	return c
}

// depth is the number of leading promoted tags that the matchers use. It is 0 if they also use other labels, or no labels.
// It is also 0 if a batch may lack neighbours. Batches are divided in the order of labels, which is the order of row keys
// only among series that share all promoted tags.
func (c *neighbours) depth(rule *keyschema.Rule) int {
	if c == nil {
		return 0
	}
	depth := 0
	for _, name := range c.names {
		at := slices.Index(rule.Promoted, name)
		if at < 0 {
			return 0
		}
		depth = max(depth, at+1)
	}
	if c.divided && depth < len(rule.Promoted) {
		return 0
	}
	return depth
}

// leadOf is the length of a row prefix up to the last promoted tag that the matchers use. All series with this lead are selected.
// It is 0 if the prefix has no such lead.
func (c *neighbours) leadOf(rule *keyschema.Rule, prefix []byte, tags []keyschema.Tag) int {
	depth := c.depth(rule)
	if depth == 0 {
		return 0
	}
	for _, name := range rule.Promoted[:depth] {
		if !slices.ContainsFunc(tags, func(t keyschema.Tag) bool { return t.Name == name && t.Value != "" }) {
			return 0
		}
	}
	salted, _ := keyschema.CutFields(prefix, 2)
	at := len(salted)
	for range depth {
		if prefix[at] == '$' {
			return 0 // the tags did not fit; a hash replaces them
		}
		at += bytes.IndexAny(prefix[at:], ",#") + 1
	}
	return at - 1
}
