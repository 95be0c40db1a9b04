package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"halite/cmd/tsdb/internal/program"
	"halite/query/opentsdb/request"
	"halite/query/opentsdb/translation"
)

// translate holds the flags of `tsdb opentsdb translate`.
type translate struct {
	file   string
	output program.Output
}

func addTranslate(add adder) {
	c := &translate{}
	cmd := add("translate", "Print queries of OpenTSDB as PromQL if both have the same result, and otherwise the reason.", c.run)
	c.output.AddFlag(cmd)
	cmd.Arg("FILE", "URIs of /api/query, one on each line; or the body of a query, or a target, panel or dashboard of Grafana, as "+
		"JSON. Default: standard input, as for -.").StringVar(&c.file)
}

// inputBytesMax bounds the input.
const inputBytesMax = 64 << 20

func (c *translate) run(_ context.Context, w io.Writer) error {
	in := io.Reader(os.Stdin)
	if c.file != "" && c.file != "-" { // Kingpin turns the argument - into an empty string
		file, err := os.Open(c.file)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, inputBytesMax+1))
	if err != nil {
		return err
	}
	if len(text) > inputBytesMax {
		return fmt.Errorf("the input has more than %d bytes", inputBytesMax)
	}
	all, err := translation.Read(text, request.NewParser(time.Now, request.Limits{}))
	if err != nil {
		return err
	}
	return c.output.Print(w, all, func(w io.Writer) error {
		for i := range all {
			if err := printTranslation(w, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// printTranslation prints a translation, with its name, times and notes as comments of PromQL.
func printTranslation(w io.Writer, t *translation.Translation) error {
	fmt.Fprintf(w, "# %s\n", t.Name)
	if t.Reason != "" {
		_, err := fmt.Fprintf(w, "# No PromQL has the same result: %s.\n\n", t.Reason)
		return err
	}
	fmt.Fprintf(w, "# Range query with a step of %vs", t.StepSeconds)
	if t.Range != nil {
		fmt.Fprintf(w, " from %s to %s", t.Range.Start.Format(time.RFC3339Nano), t.Range.End.Format(time.RFC3339Nano))
	} else {
		fmt.Fprint(w, ", at multiples of it")
	}
	fmt.Fprintln(w, ".")
	for _, note := range t.Notes {
		fmt.Fprintf(w, "# %s.\n", note)
	}
	_, err := fmt.Fprintf(w, "%s\n\n", t.PromQL)
	return err
}
