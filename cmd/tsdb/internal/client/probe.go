package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/program"
)

// probeBytesMax bounds the bytes of a response that a probe reads.
const probeBytesMax = 4 << 10

// probe holds the flags of `tsdb check healthy` and `tsdb check ready`.
type probe struct {
	server  Server
	path    string
	timeout time.Duration
}

// addProbe declares a command that requests a probe of a running server.
func addProbe(check *kingpin.CmdClause, name, help string) (command string, run program.Command) {
	cmd := check.Command(name, help+" If not, the exit status is 1. Containers use this command as their health check.")
	p := &probe{path: "/-/" + name}
	p.server.AddFlags(cmd, "The server.", DefaultURL)
	cmd.Flag("timeout", "Maximum time of the response.").Default("5s").DurationVar(&p.timeout)
	return cmd.FullCommand(), p.run
}

// run requests the probe and writes the response.
func (p *probe) run(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req, err := p.server.Request(ctx, http.MethodGet, p.path, nil)
	if err != nil {
		return err
	}
	resp, err := Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, probeBytesMax))
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", p.path, err)
	}
	text = bytes.TrimSpace(text)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", p.path, resp.Status, text)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
