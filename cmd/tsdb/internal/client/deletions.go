package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// cleanPoll is the time between two lines of progress of `tsdb delete --clean`.
const cleanPoll = 2 * time.Second

// pendingDeletions is the response of /api/v1/admin/tsdb/deletions.
type pendingDeletions struct {
	Deletions []struct {
		ID        uint64   `json:"id"`
		Selectors []string `json:"selectors"`
		From      string   `json:"from,omitempty"`
		To        string   `json:"to,omitempty"`
		Made      string   `json:"made"`
		Waits     string   `json:"waits"`
	} `json:"deletions"`
	Cleaning *struct {
		Began         string `json:"began"`
		Deletions     int    `json:"deletions"`
		RowsRead      int64  `json:"rowsRead"`
		RowsRewritten int64  `json:"rowsRewritten"`
		RowsRemoved   int64  `json:"rowsRemoved"`
	} `json:"cleaning"`
}

// pending fetches the deletions of the server.
func (c *deleteConfig) pending(ctx context.Context) (list pendingDeletions, err error) {
	err = c.server.CallAdmin(ctx, http.MethodGet, "/api/v1/admin/tsdb/deletions", nil, &list)
	return list, err
}

// listPending carries out `tsdb delete --list`.
func (c *deleteConfig) listPending(ctx context.Context, w io.Writer) error {
	list, err := c.pending(ctx)
	if err != nil {
		return err
	}
	return c.output.Print(w, list, list.printText)
}

func (l *pendingDeletions) printText(w io.Writer) error {
	var text strings.Builder
	if len(l.Deletions) == 0 {
		text.WriteString("no deletion waits for cleaning\n")
	}
	for _, d := range l.Deletions {
		from, to := d.From, d.To
		if from == "" {
			from = "the beginning"
		}
		if to == "" {
			to = "the end"
		}
		fmt.Fprintf(&text, "%d  %s  from %s to %s, made %s, waits for %s\n", d.ID, strings.Join(d.Selectors, " or "), from, to, d.Made,
			d.Waits)
	}
	if at := l.Cleaning; at != nil {
		fmt.Fprintf(&text, "cleaning %d deletions since %s; rows read: %d, rewritten: %d, removed: %d\n", at.Deletions, at.Began,
			at.RowsRead, at.RowsRewritten, at.RowsRemoved)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// watchCleaning prints the progress of the server each interval until ctx ends. The server does not know how many rows it will
// read, so there is no estimate of the time left. A failed request prints nothing, because the call that cleans reports failures.
func (c *deleteConfig) watchCleaning(ctx context.Context, w io.Writer, interval time.Duration) {
	began := time.Now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		list, err := c.pending(ctx)
		if err != nil || list.Cleaning == nil {
			continue
		}
		at := list.Cleaning
		fmt.Fprintf(w, "cleaning %d deletions for %s; rows read: %d, rewritten: %d, removed: %d\n", at.Deletions,
			time.Since(began).Round(time.Second), at.RowsRead, at.RowsRewritten, at.RowsRemoved)
	}
}
