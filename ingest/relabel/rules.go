package relabel

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"

	"halite/ingest/hatracker"
	"halite/ingest/head"
)

// RulesMax bounds the number of rules.
const RulesMax = 1000

// firstDropped is the first ref that stands for a rule. Refs of series are lower.
const firstDropped = 1<<32 - 1<<16

// Dropped returns the ref of all series that the rule with an index drops.
func Dropped(rule int) (ref uint32) { return firstDropped + uint32(rule) }

// DroppedBy returns the index of the rule that drops the series with a ref. ok is false if the ref belongs to a stored
// series.
func DroppedBy(ref uint32) (rule int, ok bool) {
	return int(ref) - firstDropped, ref >= firstDropped
}

// Rules are relabelling rules in force. Their methods may be called concurrently.
type Rules struct {
	configs []*relabel.Config
	text    string
	// Known maps the hash of a series' labels as sent to the ref of the stored series, or to Dropped. Its tags come from Tag.
	Known *head.Registry
	// HA elects replicas; nil if the server stores the samples of all replicas.
	HA *hatracker.Tracker
	// replicas holds the replica of each tag, from 1. Only Tag changes it.
	replicas atomic.Pointer[[]*hatracker.Replica]
	tags     map[*hatracker.Replica]uint32
}

// New returns rules without known series. It returns nil if there is neither a config nor a tracker. The configs are valid.
func New(configs []*relabel.Config, ha *hatracker.Tracker) (*Rules, error) {
	if len(configs) == 0 && ha == nil {
		return nil, nil
	}
	if len(configs) > RulesMax {
		return nil, fmt.Errorf("%d relabelling rules, at most %d are allowed", len(configs), RulesMax)
	}
	text, err := yaml.Marshal(configs)
	if err != nil {
		return nil, fmt.Errorf("describe the relabelling rules: %w", err)
	}
	out := &Rules{configs: slices.Clone(configs), text: string(text), HA: ha}
	return out.Fresh(), nil
}

// Fresh returns the same rules without known series and replicas.
func (r *Rules) Fresh() *Rules {
	out := &Rules{configs: r.configs, text: r.text, HA: r.HA}
	if r.HA == nil {
		out.Known = head.NewRegistry()
		return out
	}
	out.Known, out.tags = head.NewTaggedRegistry(), map[*hatracker.Replica]uint32{}
	out.replicas.Store(&[]*hatracker.Replica{nil})
	return out
}

// Tracker returns HA, or nil if r is nil.
func (r *Rules) Tracker() *hatracker.Tracker {
	if r == nil {
		return nil
	}
	return r.HA
}

// Tag returns the tag of the series of a replica. The caller serializes the calls.
func (r *Rules) Tag(replica *hatracker.Replica) uint32 {
	tag := r.tags[replica]
	if tag == 0 {
		list := *r.replicas.Load()
		tag = uint32(len(list))
		r.tags[replica] = tag
		list = append(list[:tag:tag], replica)
		r.replicas.Store(&list)
	}
	return tag
}

// Replica returns the replica with a tag that is not 0.
func (r *Rules) Replica(tag uint32) *hatracker.Replica { return (*r.replicas.Load())[tag] }

// Equal reports whether two sets of rules are the same. Nil is the set without rules.
func (r *Rules) Equal(o *Rules) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.text == o.text && r.HA == o.HA
}

// Len is the number of rules.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.configs)
}

// SizeBytes is the memory of the known series.
func (r *Rules) SizeBytes() int64 {
	if r == nil {
		return 0
	}
	return r.Known.SizeBytes()
}

// Apply relabels the labels in b. If keep is false, the rule with the returned index drops the series.
func (r *Rules) Apply(b *labels.Builder) (rule int, keep bool) {
	for n, config := range r.configs {
		if !relabel.ProcessBuilder(b, config) {
			return n, false
		}
	}
	return 0, true
}
