package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/retention"
)

// retentionConfig holds the flags of `tsdb retention`.
type retentionConfig struct {
	server client.Server
	source tables.OfflineFlags
	alone  bool // without a server
	output program.Output
	rule   string
	tries  [keyschema.TierCount]string
	now    func() time.Time // nil is time.Now
}

// AddRetention declares `tsdb retention`.
func AddRetention(app *kingpin.Application) program.Commands {
	cmd := app.Command("retention", "Show the retention of metrics, its cost on disk, and the space that another retention "+
		"would free.")
	c := &retentionConfig{}
	c.server.AddFlags(cmd, "The server to ask.", client.DefaultURL)
	cmd.Flag("offline", "Read the tables of a stopped server in --storage.path instead of asking a running server.").
		BoolVar(&c.alone)
	c.output.AddFlag(cmd)
	cmd.Flag("rule", "Change only the retention of the rule with this pattern.").StringVar(&c.rule)
	cmd.Flag("raw", "Retention of samples to try, such as 7d. Shows the space that it would free. 0 keeps samples forever.").
		StringVar(&c.tries[keyschema.Raw])
	cmd.Flag("hours", "Retention of hourly rollups to try.").StringVar(&c.tries[keyschema.Hours])
	cmd.Flag("days", "Retention of daily rollups to try.").StringVar(&c.tries[keyschema.Days])
	cmd.Flag("histograms", "Retention of native histograms to try.").
		StringVar(&c.tries[keyschema.NativeHistograms])
	c.source.AddFlags(cmd)
	return program.Commands{cmd.FullCommand(): c.run}
}

// change holds the retentions to try.
func (c *retentionConfig) change() (retention.Change, error) {
	try := retention.Change{Pattern: c.rule}
	for t, text := range c.tries {
		if text == "" {
			continue
		}
		age, err := keyschema.ParseAge(text)
		if err != nil {
			return try, fmt.Errorf("--%s: %w", keyschema.Tier(t), err)
		}
		try.Retention[t] = &age
	}
	return try, nil
}

// run prints the disk space of each rule and tier.
func (c *retentionConfig) run(ctx context.Context, w io.Writer) error {
	try, err := c.change()
	if err != nil {
		return err
	}
	costs, err := c.costs(ctx, try)
	if err != nil {
		return err
	}
	return c.output.Print(w, costs, func(w io.Writer) error { return printCosts(w, costs) })
}

func (c *retentionConfig) costs(ctx context.Context, try retention.Change) ([]retention.Cost, error) {
	if !c.alone {
		return c.fetch(ctx, try)
	}
	store, err := c.source.Open(ctx)
	if err != nil {
		return nil, err
	}
	costs, err := storedCosts(ctx, store, c.now, try)
	return costs, errors.Join(err, store.Close())
}

// storedCosts measures the tables of a stopped server, with the retention of its last run.
func storedCosts(
	ctx context.Context, store storage.Store, now func() time.Time, try retention.Change,
) ([]retention.Cost, error) {
	rest, found, err := retention.ServerRetention(ctx, store)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errors.New("the tables do not hold the retention of the server: start the server once")
	}
	meta, err := store.Table(ctx, storage.TableMeta)
	if err != nil {
		return nil, err
	}
	schema, _, err := tables.StoredSchema(ctx, meta)
	if err != nil {
		return nil, err
	}
	kept, err := schema.Retention(rest)
	if err != nil {
		return nil, fmt.Errorf("stored schema rules: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	return retention.Costs(ctx, store, kept, now(), try)
}

// fetch gets the costs from a running server.
func (c *retentionConfig) fetch(ctx context.Context, try retention.Change) ([]retention.Cost, error) {
	values := url.Values{}
	if try.Pattern != "" {
		values.Set("rule", try.Pattern)
	}
	for t, age := range try.Retention {
		if age != nil {
			values.Set(keyschema.Tier(t).String(), age.String())
		}
	}
	var data struct{ Costs []retention.Cost }
	err := c.server.Call(ctx, http.MethodGet, "/api/v1/status/retention", values, &data)
	if refused := new(client.Refusal); errors.As(err, &refused) {
		return nil, fmt.Errorf("%s: %w", &c.server, refused)
	} else if err != nil {
		return nil, fmt.Errorf("%w (--offline reads the tables of a stopped server)", err)
	}
	return data.Costs, nil
}

// printCosts prints a table.
func printCosts(w io.Writer, costs []retention.Cost) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "TIER\tRULE\tAGE\tOLDEST\tBYTES\tA DAY\tHIDDEN\tNEW AGE\tWOULD FREE\t\n")
	for i := range costs {
		c := &costs[i]
		oldest, newAge := "-", "-"
		if c.OldestMs > 0 {
			oldest = time.UnixMilli(c.OldestMs).UTC().Format(time.DateOnly)
		}
		if c.NewAge != c.Age {
			newAge = ageText(c.NewAge)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", c.Tier, c.Pattern, ageText(c.Age), oldest, sizeText(c.Bytes),
			sizeText(c.BytesPerDay), sizeText(c.HiddenBytes), newAge, sizeText(c.FreedBytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if slices.ContainsFunc(costs, func(c retention.Cost) bool { return c.Bytes < 0 }) {
		fmt.Fprintln(w, "A ? marks figures that the engine does not report: Bigtable has no sizes of days and no oldest day.")
	}
	return nil
}

func ageText(a keyschema.Age) string {
	if a == 0 {
		return "forever"
	}
	return a.String()
}

// sizeText returns a size with three digits or more, "?" if it is unknown.
func sizeText(sizeBytes int64) string {
	if sizeBytes < 0 {
		return "?"
	}
	units, size := []string{"B", "kB", "MB", "GB", "TB"}, float64(sizeBytes)
	at := 0
	for size >= 10_000 && at < len(units)-1 {
		size, at = size/1000, at+1
	}
	return fmt.Sprintf("%.0f %s", size, units[at])
}
