package tools

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokenFaultNamesFlag: the access file has lists where the command has repeated flags.
func TestTokenFaultNamesFlag(t *testing.T) {
	err := createToken(&tokenConfig{name: "a", scopes: []string{"all"}}, t.Output())
	require.EqualError(t, err, `--scope: scope "all" is unknown; known are read, write, admin`)
}
