package config

import (
	"time"
)

// HA names the labels of HA pairs. ClusterLabel and ReplicaLabel are required.
type HA struct {
	ClusterLabel string `yaml:"cluster_label"`
	ReplicaLabel string `yaml:"replica_label"`
	// Failover is 30 s if it is nil.
	Failover *Duration `yaml:"failover,omitempty"`
	// MaxClusters is 1,000 if it is nil.
	MaxClusters *int `yaml:"max_clusters,omitempty"`
}

func (h *HA) validate(fault func(field, format string, args ...any)) {
	for _, f := range []struct{ field, label string }{
		{"ha.cluster_label", h.ClusterLabel}, {"ha.replica_label", h.ReplicaLabel},
	} {
		switch f.label {
		case "":
			fault(f.field, "the label is missing")
		case "__name__":
			fault(f.field, "the metric name cannot be a label of an HA pair")
		}
	}
	if h.ClusterLabel == h.ReplicaLabel {
		fault("ha.replica_label", "it is the same as cluster_label")
	}
	if h.Failover != nil && *h.Failover < Duration(time.Second) {
		fault("ha.failover", "%s is shorter than 1s", time.Duration(*h.Failover))
	}
	if h.MaxClusters != nil && *h.MaxClusters < 1 {
		fault("ha.max_clusters", "%d is not above 0", *h.MaxClusters)
	}
}
