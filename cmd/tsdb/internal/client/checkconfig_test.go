package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/config"
)

// TestValueChanges: only what differs is listed.
func TestValueChanges(t *testing.T) {
	parse := func(src string) *config.Config {
		c, err := config.Parse("f", []byte(src))
		require.NoError(t, err)
		return c
	}
	const rules = "query_rules: [{id: a, query: x, action: refuse, reason: r}, {id: b, query: up, action: slow_lane, reason: r}]\n"
	const relabelling = "relabel_configs: [{regex: 'pod|uid', action: labeldrop}]\n"
	before := parse("limits: {series: {max: 5}, query_time: {max: 1m}}\n" + rules)
	for after, want := range map[string][]string{
		"limits: {series: {max: 5}, query_time: {max: 1m}}\n" + rules: nil,
		"limits: {series: {max: 6}, query_time: {max: 60s}}\n" + rules: {
			"- limits.series: {max: 5}, at once", "+ limits.series: {max: 6}, at once"},
		"limits: {series: {max: 5}, query_time: {max: 1m}}\n" + rules + relabelling: {
			"+ relabel_configs: {regex: pod|uid, action: labeldrop}, at once"},
		"limits: {series: {max: 5}, query_time: {max: 1m}}": {
			"- query_rules: {id: a, query: x, action: refuse, reason: r}, at once",
			"- query_rules: {id: b, query: up, action: slow_lane, reason: r}, at once"},
		"limits: {series: {max: 5}, query_time: {max: 1m}}\nquery_rules:\n" +
			"- {id: b, query: up, action: slow_lane, reason: r}\n- {id: a, query: x, action: refuse, reason: r}": {
			"the order of rules changes, at once"},
	} {
		changes, err := valueChanges(before, parse(after))
		require.NoError(t, err)
		require.Equal(t, want, changes, after)
	}
}
