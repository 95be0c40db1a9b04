package tools

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"halite/cmd/tsdb/internal/client"
)

// search holds the flags of `tsdb opentsdb search`.
type search struct {
	server    client.Server
	dataTable bool
	command   string
	args      []string
}

func addSearch(add adder) {
	c := &search{}
	cmd := add("search", "Print the series with a metric and tags, as tsdb search lookup of OpenTSDB does.", c.run)
	addServer(cmd, &c.server)
	cmd.Flag("use-data-table", "Has no effect: there is only one index of series.").BoolVar(&c.dataTable)
	cmd.Arg("COMMAND", "The search: lookup.").Required().EnumVar(&c.command, "lookup")
	cmd.Arg("QUERY", "[METRIC] [TAG=VALUE...]. host= stands for any value, and =web01 for any tag with that value.").Required().
		StringsVar(&c.args)
}

// searchTag is a tag of a search. An empty part stands for any.
type searchTag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// searched is the body of a search.
type searched struct {
	Metric string      `json:"metric,omitempty"`
	Tags   []searchTag `json:"tags"`
	Limit  int         `json:"limit"`
}

// parseSearch parses the arguments of a search for all series.
func parseSearch(args []string) (s searched, err error) {
	s.Tags = []searchTag{}
	for i, arg := range args {
		key, value, isTag := strings.Cut(arg, "=")
		switch {
		case !isTag && i == 0 && arg != "":
			s.Metric = arg
		case !isTag || key == "" && value == "" || strings.Contains(value, "="):
			return s, fmt.Errorf("%q is not TAG=VALUE", arg)
		default:
			s.Tags = append(s.Tags, searchTag{key, value})
		}
	}
	return s, nil
}

func (c *search) run(ctx context.Context, w io.Writer) error {
	q, err := parseSearch(c.args)
	if err != nil {
		return err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	err = post(ctx, &c.server, "/api/search/lookup", body, func(d *json.Decoder) error { return printFound(d, out) })
	if err != nil {
		return err
	}
	return out.Flush()
}

// printFound prints the series of a response one by one: tsuid, metric and tags, with a space after each.
func printFound(d *json.Decoder, w *bufio.Writer) error {
	if err := enter(d, '{'); err != nil {
		return err
	}
	for d.More() {
		field, err := d.Token()
		if err != nil {
			return err
		}
		if field != "results" {
			var ignored json.RawMessage
			if err := d.Decode(&ignored); err != nil {
				return err
			}
			continue
		}
		err = forEachElement(d, func() error {
			var s struct {
				TSUID, Metric string
				Tags          map[string]string
			}
			if err := d.Decode(&s); err != nil {
				return err
			}
			fmt.Fprintf(w, "%s %s ", s.TSUID, s.Metric)
			for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
				fmt.Fprintf(w, "%s=%s ", key, s.Tags[key])
			}
			return w.WriteByte('\n')
		})
		if err != nil {
			return err
		}
	}
	return nil
}
