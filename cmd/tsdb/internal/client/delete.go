package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/program"
)

// deleteConfig holds the flags of `tsdb delete`.
type deleteConfig struct {
	server   Server
	matches  []string
	from, to string
	dryRun   bool
	all      bool
	clean    bool
	list     bool
	output   program.Output
}

// AddDelete declares `tsdb delete`.
func AddDelete(app *kingpin.Application) program.Commands {
	cmd := app.Command("delete", "Delete samples of a running server, or count the samples that would be deleted.")
	c := &deleteConfig{}
	c.server.AddFlags(cmd, "The server; it runs with --web.enable-admin-api.", DefaultURL)
	cmd.Flag("match", "Selector of series; may be repeated.").StringsVar(&c.matches)
	cmd.Flag("from", "First time to delete: "+program.TimeForms+". Default: the beginning.").StringVar(&c.from)
	cmd.Flag("to", "Last time to delete, in the same form. Default: the end.").StringVar(&c.to)
	cmd.Flag("dry-run", "Only count the samples that would be deleted.").BoolVar(&c.dryRun)
	cmd.Flag("all", "Permit selectors that match everything.").BoolVar(&c.all)
	cmd.Flag("clean", "Free the space of everything deleted so far, and print its size. Without --match the command "+
		"only does this.").
		BoolVar(&c.clean)
	cmd.Flag("list", "Only list the deletions whose space is not free yet, and the progress of a --clean that runs.").
		BoolVar(&c.list)
	c.output.AddFlag(cmd)
	return program.Commands{cmd.FullCommand(): c.run}
}

// run carries out `tsdb delete`.
func (c *deleteConfig) run(ctx context.Context, w io.Writer) error {
	if c.list && (len(c.matches) > 0 || c.clean || c.dryRun || c.all || c.from != "" || c.to != "") {
		return errors.New("--list only lists: it takes no other flag than --url and --output")
	}
	if !c.list && len(c.matches) == 0 && (!c.clean || c.dryRun || c.all || c.from != "" || c.to != "") {
		return errors.New("--match is required, unless --clean or --list is set")
	}
	if c.clean && c.dryRun {
		return errors.New("--dry-run and --clean contradict each other")
	}
	if c.list {
		return c.listPending(ctx, w)
	}
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

// delete deletes samples, or counts them for a dry run.
func (c *deleteConfig) delete(ctx context.Context, w io.Writer) error {
	form := url.Values{"match[]": c.matches}
	if err := setTimes(form, c.from, c.to); err != nil {
		return err
	}
	if c.all {
		form.Set("all", "true")
	}
	if c.dryRun {
		form.Set("dry_run", "true")
		var count deletionCount
		if err := c.post(ctx, "delete_series", form, &count); err != nil {
			return err
		}
		return c.output.Print(w, count, count.printText)
	}
	form.Set("report", "true")
	var done struct {
		Series int `json:"series"`
	}
	if err := c.post(ctx, "delete_series", form, &done); err != nil {
		return err
	}
	return c.output.Print(w, done, func(w io.Writer) error {
		if done.Series == 0 {
			_, err := fmt.Fprintln(w, "no series has samples in this range; nothing is deleted")
			return err
		}
		_, err := fmt.Fprintf(w, "deleted samples of %d series; the space is freed by --clean\n", done.Series)
		return err
	})
}

// deletionCount is the result of a dry run.
type deletionCount struct {
	Series  int   `json:"series"`
	Samples int64 `json:"samples"`
	Bytes   int64 `json:"bytes"`
	Hours   int64 `json:"rollupHours"`
	Days    int64 `json:"rollupDays"`
	Cut     int64 `json:"rollupsCut"`
}

func (d deletionCount) printText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "would delete %d samples of %d series, %d bytes\n", d.Samples, d.Series, d.Bytes)
	if err == nil && d.Hours+d.Days > 0 {
		_, err = fmt.Fprintf(w, "and rollups whose samples have expired: %d hours and %d days; %d of them extend beyond the time "+
			"range and are deleted as a whole\n", d.Hours, d.Days, d.Cut)
	}
	return err
}

// setTimes sets the start and end of a request from the flags --from and --to; "" leaves them out.
func setTimes(form url.Values, from, to string) error {
	var fromMs, toMs int64
	if err := program.ParseRange(from, to, time.Now(), &fromMs, &toMs); err != nil {
		return err
	}
	if from != "" {
		form.Set("start", time.UnixMilli(fromMs).UTC().Format(time.RFC3339Nano))
	}
	if to != "" {
		form.Set("end", time.UnixMilli(toMs).UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// cleanUp frees space.
func (c *deleteConfig) cleanUp(ctx context.Context, w io.Writer) error {
	var report cleanReport
	watched, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.watchCleaning(watched, os.Stderr, cleanPoll)
	}()
	err := c.post(ctx, "clean_tombstones", url.Values{"report": {"true"}}, &report)
	stop()
	<-over
	if err != nil {
		return err
	}
	return c.output.Print(w, report, report.printText)
}

// cleanReport is the result of cleaning.
type cleanReport struct {
	Tombstones    int64 `json:"tombstones"`
	Waiting       int64 `json:"waiting"`
	RowsRewritten int64 `json:"rowsRewritten"`
	RowsRemoved   int64 `json:"rowsRemoved"`
	Tables        []struct {
		Table       string `json:"table"`
		BytesBefore int64  `json:"bytesBefore"`
		BytesAfter  int64  `json:"bytesAfter"`
	} `json:"tables"`
}

func (r cleanReport) printText(w io.Writer) error {
	fmt.Fprintf(w, "deletions cleaned: %d; rows removed: %d, rewritten: %d\n", r.Tombstones, r.RowsRemoved, r.RowsRewritten)
	if r.Waiting > 0 {
		fmt.Fprintf(w, "deletions that are too young, or whose rows are not packed yet, or whose rollups are not "+
			"computed yet: %d; clean again later\n", r.Waiting)
	}
	for _, t := range r.Tables {
		if _, err := fmt.Fprintf(w, "table %-8s %12d bytes before, %12d after\n", t.Table, t.BytesBefore, t.BytesAfter); err != nil {
			return err
		}
	}
	return nil
}

// post sends a request to the admin API and decodes the data of the response into data, unless data is nil.
func (c *deleteConfig) post(ctx context.Context, endpoint string, form url.Values, data any) error {
	path := "/api/v1/admin/tsdb/" + endpoint
	return c.server.CallAdmin(ctx, http.MethodPost, path, form, data)
}
