package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

// probeBytesMax bounds the bytes of an answer that a probe reads.
const probeBytesMax = 4 << 10

// probe holds the flags of `tsdb check healthy` and `tsdb check ready`.
type probe struct {
	server  Server
	path    string
	timeout time.Duration
}

// addProbe declares a command that asks a probe of a running server.
func addProbe(check *kingpin.CmdClause, name, help string) (command string, run func(io.Writer) error) {
	cmd := check.Command(name, help+" If not, the exit status is 1. Containers use this command as their health check.")
	p := &probe{path: "/-/" + name}
	p.server.AddFlags(cmd, "The server.", DefaultURL)
	cmd.Flag("timeout", "Maximum time of the answer.").Default("5s").DurationVar(&p.timeout)
	return cmd.FullCommand(), p.run
}

// run asks the probe and writes what the server says.
func (p *probe) run(w io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	req, err := p.server.Request(ctx, http.MethodGet, p.path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("is a server running there? %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, probeBytesMax))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", p.path, err)
	}
	text = bytes.TrimSpace(text)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", p.path, answer.Status, text)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
