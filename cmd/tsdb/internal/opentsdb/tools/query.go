package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/cmd/tsdb/internal/client"
)

// query holds the flags of `tsdb opentsdb query`.
type query struct {
	server client.Server
	args   []string
}

func addQuery(add adder) {
	c := &query{}
	cmd := add("query", "Print the data points of queries, as tsdb query of OpenTSDB does. Options of gnuplot such as "+
		"+wxh=800x600 are ignored.", c.run)
	addServer(cmd, &c.server)
	cmd.Arg("QUERY", argumentsHelp).Required().StringsVar(&c.args)
}

// run sends one request for each query, because OpenTSDB runs one query after another as well.
func (c *query) run(ctx context.Context, w io.Writer) error {
	args, err := parseArguments(c.args, time.Now(), time.Local)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	for _, q := range args.queries {
		body, err := json.Marshal(map[string]any{
			"start": args.startMs, "end": args.endMs, "msResolution": true, "noAnnotations": true, "queries": []subQuery{q},
		})
		if err != nil {
			return err
		}
		err = post(ctx, &c.server, "/api/query?arrays", body, func(d *json.Decoder) error { return printSeries(d, out) })
		if err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// errorResponse is an error in OpenTSDB's JSON.
type errorResponse struct {
	Error struct{ Message, Details string }
}

// responseBytesMax bounds an error that the server answers.
const responseBytesMax = 1 << 20

// post sends a document to a path of the server, and passes the JSON of the response to decode.
func post(ctx context.Context, s *client.Server, path string, body []byte, decode func(*json.Decoder) error) error {
	req, err := s.Request(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		d := json.NewDecoder(resp.Body)
		d.UseNumber()
		if err := decode(d); err != nil {
			return fmt.Errorf("the response of %s%s: %w", s, path, err)
		}
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, responseBytesMax))
	if err != nil {
		return fmt.Errorf("%s answered %s: %w", s, resp.Status, err)
	}
	var failed errorResponse
	if json.Unmarshal(text, &failed) != nil || failed.Error.Message == "" {
		return fmt.Errorf("%s answered %s: %s", s, resp.Status, bytes.TrimSpace(text))
	}
	if failed.Error.Details != "" {
		failed.Error.Message += ": " + failed.Error.Details
	}
	return errors.New(failed.Error.Message)
}

// printSeries prints the series of a response one by one.
func printSeries(d *json.Decoder, w *bufio.Writer) error {
	return forEachElement(d, func() error {
		var series struct {
			Metric string
			Tags   map[string]string
			Dps    [][2]any
		}
		if err := d.Decode(&series); err != nil {
			return err
		}
		tags := appendTags(nil, labels.FromMap(series.Tags))
		for _, point := range series.Dps {
			value, err := formatValue(point[1])
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s %v %s %s\n", series.Metric, point[0], value, tags); err != nil {
				return err
			}
		}
		return nil
	})
}

// forEachElement calls decode for each element of the array at which the decoder is.
func forEachElement(d *json.Decoder, decode func() error) error {
	if err := enter(d, '['); err != nil {
		return err
	}
	for d.More() {
		if err := decode(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// enter reads the bracket that opens an array or an object.
func enter(d *json.Decoder, bracket json.Delim) error {
	open, err := d.Token()
	if err == nil && open != bracket {
		err = fmt.Errorf("found %v, want %v", open, bracket)
	}
	return err
}

// formatValue formats a value as OpenTSDB does: integers as they are, other numbers with six decimals, halves rounded up.
func formatValue(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "NaN", nil
	case string: // NaN and infinities
		return v, nil
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v.String(), nil
		}
		exact, ok := new(big.Rat).SetString(v.String())
		if ok {
			return exact.FloatString(6), nil
		}
	}
	return "", fmt.Errorf("%v is not a number", v)
}
