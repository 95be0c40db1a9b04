package main

import (
	"fmt"
	"slices"
	"time"

	"halite/keyschema"
)

// ages are those of metrics about which no schema rule says anything.
func (c *serveConfig) ages() keyschema.Ages {
	raw := time.Duration(c.retentionRaw)
	hours, days := c.rollups.retention(raw)
	return keyschema.AgesOf(raw, hours, days)
}

// retentionOf gives each metric its ages, by rule or by flag.
func retentionOf(c *serveConfig, schema *keyschema.Schema) (*keyschema.Retention, error) {
	retention, err := schema.Retention(c.ages())
	if err != nil {
		return nil, fmt.Errorf("--storage.schema-rules: %w", err)
	}
	return retention, nil
}

// sameRetention reports whether two sets of rules keep everything equally long.
func sameRetention(a, b *keyschema.Retention) bool { return slices.Equal(a.Rules(), b.Rules()) }
