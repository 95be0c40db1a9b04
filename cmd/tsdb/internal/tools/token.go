package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"halite/api/auth"
	"halite/cmd/tsdb/internal/program"
)

// tokenConfig holds the flags of `tsdb token create`.
type tokenConfig struct {
	tenants []string
	name    string
	scopes  []string
	match   string
}

// AddToken declares `tsdb token create`.
func AddToken(app *kingpin.Application) program.Commands {
	cmd := app.Command("token", "Create tokens for --web.access-file, see docs/security.md.")
	create := cmd.Command("create", "Print a new bearer token, and its entry for the access file.")
	c := &tokenConfig{}
	create.Flag("name", "Name of the token, for logs.").Required().StringVar(&c.name)
	create.Flag("scope", "Scope of the token: read, write or admin; may be repeated.").Required().StringsVar(&c.scopes)
	create.Flag("match", `Selector such as {team="a"} that restricts the reads of the token.`).StringVar(&c.match)
	create.Flag("tenant", "Tenant that the token acts for; may be repeated. Then a request names some of them in X-Scope-OrgID.").
		StringsVar(&c.tenants)
	return program.Commands{create.FullCommand(): func(_ context.Context, w io.Writer) error { return createToken(c, w) }}
}

func createToken(c *tokenConfig, w io.Writer) error {
	token, entry, err := auth.NewToken(c.name, c.scopes, c.match, c.tenants...)
	if err != nil {
		// Repeated flags are lists in the access file.
		return errors.New("--" + strings.NewReplacer("scopes:", "scope:", "tenants:", "tenant:").Replace(err.Error()))
	}
	_, err = fmt.Fprintf(w, "# The token. Nothing stores it: give it to its user now.\n%s\n\n# Its entry in the file of "+
		"--web.access-file:\n%s", token, entry)
	return err
}
