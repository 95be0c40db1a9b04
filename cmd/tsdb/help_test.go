package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

// TestHelpNamesChoices: if a flag accepts one of a few words, its help lists them, because the parser does not.
func TestHelpNamesChoices(t *testing.T) {
	app := kingpin.New("tsdb", "")
	addCommands(app)
	checked := 0
	for _, c := range app.Model().FlattenedCommands() {
		for _, f := range c.Flags {
			refusal := f.Value.Set("no such choice")
			if refusal == nil {
				continue
			}
			_, choices, ok := strings.Cut(refusal.Error(), "must be one of ")
			if !ok {
				continue
			}
			choices, _, _ = strings.Cut(choices, ", got")
			for choice := range strings.SplitSeq(choices, ",") {
				require.Contains(t, f.Help, choice, "%s --%s", c.FullCommand, f.Name)
			}
			checked++
		}
	}
	require.Greater(t, checked, 10)
}
