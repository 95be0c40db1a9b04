package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode"

	"github.com/alecthomas/kingpin/v2"

	"halite/api/doctor"
	"halite/cmd/tsdb/internal/program"
)

// Exit codes of `tsdb doctor`. A failure of the command itself is 3, so that scripts tell it from a verdict.
const (
	exitWarn     = 1
	exitCritical = 2
	exitFailed   = 3
)

// doctorFlags holds the flags of `tsdb doctor`.
type doctorFlags struct {
	server Server
	all    bool
	output program.Output
	stderr io.Writer
}

// AddDoctor declares `tsdb doctor`.
func AddDoctor(app *kingpin.Application) program.Commands {
	c := &doctorFlags{stderr: os.Stderr}
	cmd := app.Command("doctor", "Check a running server, and print what is wrong, the evidence and the fix. "+
		"The exit code is 0 if all is well, 1 after a warning, and 2 if something is critical. It is 3 if the server does not respond.")
	c.server.AddFlags(cmd, "The server.", DefaultURL)
	cmd.Flag("all", "Print the checks that found nothing, too.").BoolVar(&c.all)
	c.output.AddFlag(cmd)
	return program.Commands{cmd.FullCommand(): c.run}
}

// run fetches the verdicts and prints them. The error is a program.Exit if a verdict is bad.
func (c *doctorFlags) run(ctx context.Context, w io.Writer) error {
	var report doctor.Report
	err := c.server.Call(ctx, http.MethodGet, "/api/v1/status/doctor", nil, &report)
	if err == nil {
		err = c.output.Print(w, report, func(w io.Writer) error { return c.print(w, &report) })
	}
	if err != nil {
		fmt.Fprintln(c.stderr, "tsdb:", err)
		return program.Exit{Code: exitFailed}
	}
	switch report.Worst() {
	case doctor.Critical:
		return program.Exit{Code: exitCritical}
	case doctor.Warn:
		return program.Exit{Code: exitWarn}
	}
	return nil
}

// print writes the verdicts as text.
func (c *doctorFlags) print(w io.Writer, r *doctor.Report) error {
	well := 0
	for _, v := range r.Verdicts {
		if v.Level == doctor.OK {
			if well++; !c.all {
				continue
			}
		}
		fmt.Fprintf(w, "%-8s  %s: %s\n", v.Level, visible(v.ID), visible(v.Subject))
		fmt.Fprintf(w, "          %s\n", visible(v.Evidence))
		if v.Level == doctor.OK {
			continue
		}
		fmt.Fprintf(w, "          %s\n", visible(v.Advice))
		for line := range strings.SplitSeq(v.Command, "\n") {
			if line != "" {
				fmt.Fprintf(w, "              %s\n", visible(line))
			}
		}
		fmt.Fprintf(w, "          %s\n\n", visible(v.Docs))
	}
	_, err := fmt.Fprintf(w, "%d of %d verdicts are ok.\n", well, len(r.Verdicts))
	return err
}

// visible replaces control characters, which senders may have put into names.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '�'
		}
		return r
	}, text)
}
