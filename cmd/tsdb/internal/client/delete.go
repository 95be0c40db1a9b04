package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
)

// deleteConfig holds the flags of `tsdb delete`.
type deleteConfig struct {
	server   Server
	matches  []string
	from, to string
	dryRun   bool
	all      bool
	clean    bool
}

// AddDelete declares `tsdb delete`.
func AddDelete(app *kingpin.Application) Commands {
	cmd := app.Command("delete", "Delete samples of a running server, or count what would be deleted.")
	c := &deleteConfig{}
	c.server.AddFlags(cmd, "The server; it runs with --web.enable-admin-api.", DefaultURL)
	cmd.Flag("match", "Selector of series; may be repeated.").StringsVar(&c.matches)
	cmd.Flag("from", "First time to delete: RFC 3339 or seconds since 1970, to the millisecond; default: the beginning.").
		StringVar(&c.from)
	cmd.Flag("to", "Last time to delete; default: the end.").StringVar(&c.to)
	cmd.Flag("dry-run", "Only count what would be deleted.").BoolVar(&c.dryRun)
	cmd.Flag("all", "Permit selectors that match everything.").BoolVar(&c.all)
	cmd.Flag("clean", "Free the space of all that was deleted so far, and say how much; without --match nothing else is done.").
		BoolVar(&c.clean)
	return Commands{cmd.FullCommand(): func(w io.Writer) error { return deleteFromServer(c, w) }}
}

// deleteFromServer carries out `tsdb delete`.
func deleteFromServer(c *deleteConfig, w io.Writer) error {
	if len(c.matches) == 0 && (!c.clean || c.dryRun || c.all || c.from != "" || c.to != "") {
		return errors.New("--match is required, unless --clean is all that is wanted")
	}
	if c.clean && c.dryRun {
		return errors.New("--dry-run and --clean contradict each other")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(c.matches) > 0 {
		if err := c.delete(ctx, w); err != nil {
			return err
		}
	}
	if c.clean {
		return c.cleanUp(ctx, w)
	}
	return nil
}

// delete deletes, or counts what would be.
func (c *deleteConfig) delete(ctx context.Context, w io.Writer) error {
	form := url.Values{"match[]": c.matches}
	for name, value := range map[string]string{"start": c.from, "end": c.to} {
		if value != "" {
			form.Set(name, value)
		}
	}
	if c.all {
		form.Set("all", "true")
	}
	if !c.dryRun {
		form.Set("report", "true")
		var done struct{ Series int }
		if err := c.post(ctx, "delete_series", form, &done); err != nil {
			return err
		}
		if done.Series == 0 {
			_, err := fmt.Fprintln(w, "no series has samples there; nothing is deleted")
			return err
		}
		_, err := fmt.Fprintf(w, "deleted samples of %d series; the space is freed by --clean\n", done.Series)
		return err
	}
	form.Set("dry_run", "true")
	var count struct {
		Series         int
		Samples, Bytes int64
		Hours          int64 `json:"rollupHours"`
		Days           int64 `json:"rollupDays"`
		Cut            int64 `json:"rollupsCut"`
	}
	if err := c.post(ctx, "delete_series", form, &count); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "would delete %d samples of %d series, %d bytes\n", count.Samples, count.Series, count.Bytes)
	if err == nil && count.Hours+count.Days > 0 {
		_, err = fmt.Fprintf(w, "and rollups whose samples are retired: %d hours and %d days; %d reach beyond the span and "+
			"go as a whole\n", count.Hours, count.Days, count.Cut)
	}
	return err
}

// cleanUp frees space.
func (c *deleteConfig) cleanUp(ctx context.Context, w io.Writer) error {
	var report struct {
		Tombstones, Waiting, RowsRewritten, RowsRemoved int64
		Tables                                          []struct {
			Table                   string
			BytesBefore, BytesAfter int64
		}
	}
	if err := c.post(ctx, "clean_tombstones", url.Values{"report": {"true"}}, &report); err != nil {
		return err
	}
	fmt.Fprintf(w, "deletions cleaned: %d; rows removed: %d, rewritten: %d\n", report.Tombstones, report.RowsRemoved,
		report.RowsRewritten)
	if report.Waiting > 0 {
		fmt.Fprintf(w, "deletions that are too young, or have rows that are not packed or rollups that are not computed yet: %d; "+
			"clean once more later\n", report.Waiting)
	}
	for _, t := range report.Tables {
		if _, err := fmt.Fprintf(w, "table %-8s %12d bytes before, %12d after\n", t.Table, t.BytesBefore, t.BytesAfter); err != nil {
			return err
		}
	}
	return nil
}

// post asks the admin API and reads the data of the answer into data, unless that is nil.
func (c *deleteConfig) post(ctx context.Context, endpoint string, form url.Values, data any) error {
	path := "/api/v1/admin/tsdb/" + endpoint
	err := c.server.Ask(ctx, http.MethodPost, path, form, data)
	if refused := new(Refusal); errors.As(err, &refused) {
		return fmt.Errorf("%s answered %s: %s", c.server.String()+path, refused.Status, refused.Text)
	}
	return err
}
