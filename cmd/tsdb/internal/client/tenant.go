package client

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/program"
)

// tenantConfig holds the flags of `tsdb tenant`.
type tenantConfig struct {
	server Server
	name   string
	dryRun bool
	output program.Output
}

// AddTenant declares `tsdb tenant`.
func AddTenant(app *kingpin.Application) program.Commands {
	c, cmd := &tenantConfig{}, app.Command("tenant", "List, add or drop tenants of a running server.")
	c.server.AddFlags(cmd, "The server; it runs with --tenants and --web.enable-admin-api.", DefaultURL)
	c.output.AddFlag(cmd)
	list := cmd.Command("list", "List the tenants.")
	usage := cmd.Command("usage", "Show the usage of tenants: series, samples and space on disk.")
	usage.Arg("tenant", "Tenant to measure now. Default: all tenants, with sizes measured within the last hour.").StringVar(&c.name)
	add := cmd.Command("add", "Add a tenant, also if the server runs with --no-tenants.create.")
	add.Arg("tenant", "The tenant.").Required().StringVar(&c.name)
	drop := cmd.Command("drop", "Drop a tenant with all its data. Meanwhile the server refuses its requests.")
	drop.Arg("tenant", "The tenant.").Required().StringVar(&c.name)
	drop.Flag("dry-run", "Only show the data that would be dropped.").BoolVar(&c.dryRun)
	return program.Commands{
		list.FullCommand(): c.list, usage.FullCommand(): c.usage, add.FullCommand(): c.add, drop.FullCommand(): c.drop,
	}
}

// request sends a request about tenants.
func (c *tenantConfig) request(ctx context.Context, method, endpoint string, form url.Values, data any) error {
	path := "/api/v1/admin/tenants" + endpoint
	if c.name != "" {
		form.Set("tenant", c.name)
	}
	return c.server.CallAdmin(ctx, method, path, form, data)
}

// tenantUsage is the usage of a tenant.
type tenantUsage struct {
	Tenant           string           `json:"tenant"`
	Created          time.Time        `json:"created,omitzero"`
	Dropping         bool             `json:"dropping,omitempty"`
	Series           int64            `json:"series"`
	Samples          int64            `json:"samples"`
	SamplesPerSecond int64            `json:"samplesPerSecond"`
	Bytes            map[string]int64 `json:"bytes,omitempty"`
}

func (c *tenantConfig) list(ctx context.Context, w io.Writer) error {
	var all []tenantUsage
	if err := c.request(ctx, http.MethodGet, "", url.Values{}, &all); err != nil {
		return err
	}
	return c.output.Print(w, all, func(w io.Writer) error {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "TENANT\tCREATED\tSTATE")
		for _, t := range all {
			created, state := "", "in use"
			if !t.Created.IsZero() {
				created = t.Created.Format(time.RFC3339)
			}
			if t.Dropping {
				state = "being dropped"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\n", t.Tenant, created, state)
		}
		return table.Flush()
	})
}

func (c *tenantConfig) usage(ctx context.Context, w io.Writer) error {
	var all []tenantUsage
	if err := c.request(ctx, http.MethodGet, "", url.Values{}, &all); err != nil {
		return err
	}
	return c.output.Print(w, all, func(w io.Writer) error {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "TENANT\tSERIES\tSAMPLES\tSAMPLES/S\tBYTES")
		for _, t := range all {
			var bytes []string
			for _, name := range slices.Sorted(maps.Keys(t.Bytes)) {
				bytes = append(bytes, fmt.Sprintf("%s %d", name, t.Bytes[name]))
			}
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", t.Tenant, t.Series, t.Samples, t.SamplesPerSecond, strings.Join(bytes, ", "))
		}
		return table.Flush()
	})
}

func (c *tenantConfig) add(ctx context.Context, w io.Writer) error {
	if err := c.request(ctx, http.MethodPost, "/add", url.Values{}, nil); err != nil {
		return err
	}
	done := struct {
		Tenant string `json:"tenant"`
	}{c.name}
	return c.output.Print(w, done, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "added tenant %s\n", c.name)
		return err
	})
}

// tenantContent describes the data that a drop removes.
type tenantContent struct {
	Tenant      string `json:"tenant"`
	Series      int    `json:"series"`
	Metrics     int    `json:"describedMetrics"`
	Annotations int    `json:"annotations"`
	Bytes       int64  `json:"bytes"`
}

func (c *tenantConfig) drop(ctx context.Context, w io.Writer) error {
	if c.dryRun {
		var content tenantContent
		if err := c.request(ctx, http.MethodPost, "/drop", url.Values{"dry_run": {"true"}}, &content); err != nil {
			return err
		}
		return c.output.Print(w, content, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "would drop tenant %s: %d series, %d bytes in tables, descriptions of %d metrics, %d annotations\n",
				c.name, content.Series, content.Bytes, content.Metrics, content.Annotations)
			return err
		})
	}
	var done struct {
		Series int `json:"series"`
	}
	if err := c.request(ctx, http.MethodPost, "/drop", url.Values{}, &done); err != nil {
		return err
	}
	return c.output.Print(w, done, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "dropped tenant %s with %d series; nothing of it is left\n", c.name, done.Series)
		return err
	})
}
