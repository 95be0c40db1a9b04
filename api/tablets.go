package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"halite/storage"
)

// TabletSource knows the tables and their tablets; every storage.Store is one.
type TabletSource interface {
	Tables(ctx context.Context) ([]storage.TableSchema, error)
	Table(ctx context.Context, name string) (storage.Table, error)
}

type tabletStatus struct {
	// Start and End are row keys, bytes other than printable ASCII escaped as in Go; an empty End is the last one.
	Start        string `json:"start"`
	End          string `json:"end"`
	SizeBytes    uint64 `json:"sizeBytes"`
	RowsWritten  uint64 `json:"rowsWritten"`
	RowsRead     uint64 `json:"rowsRead"`
	BytesWritten uint64 `json:"bytesWritten"`
	BytesRead    uint64 `json:"bytesRead"`
}

type tableStatus struct {
	Name    string         `json:"name"`
	Tablets []tabletStatus `json:"tablets"`
}

// tablets answers /api/v1/status/tablets: the row ranges of every table with size and load, see storage.Tablet. Rows
// come to tablets when their hour is flushed; samples in memory are not counted. Prometheus has no such endpoint.
func (s *Server) tablets(r *http.Request) (reply, *apiError) {
	tables := []tableStatus{}
	if s.opts.Tablets == nil {
		return document(map[string]any{"tables": tables})
	}
	schemas, err := s.opts.Tablets.Tables(r.Context())
	if err != nil {
		return reply{}, tabletsFailed(err)
	}
	for _, schema := range schemas {
		list, err := s.tabletsOf(r.Context(), schema.Name)
		if err != nil {
			return reply{}, tabletsFailed(err)
		}
		tables = append(tables, tableStatus{schema.Name, list})
	}
	return document(map[string]any{"tables": tables})
}

func tabletsFailed(err error) *apiError {
	return &apiError{typ: errInternal, err: fmt.Errorf("list tablets: %w", err)}
}

func (s *Server) tabletsOf(ctx context.Context, name string) ([]tabletStatus, error) {
	table, err := s.opts.Tablets.Table(ctx, name)
	if err != nil {
		return nil, err
	}
	tablets, err := table.Tablets(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]tabletStatus, 0, len(tablets))
	for _, t := range tablets {
		list = append(list, tabletStatus{
			keyText(t.Range.Start), keyText(t.Range.End), t.SizeBytes, t.RowsWritten, t.RowsRead, t.BytesWritten, t.BytesRead,
		})
	}
	return list, nil
}

// keyText is a row key as text: keys of samples are printable ASCII and stay as they are.
func keyText(key []byte) string {
	for _, b := range key {
		if b < ' ' || b > '~' {
			quoted := strconv.QuoteToASCII(string(key))
			return quoted[1 : len(quoted)-1]
		}
	}
	return string(key)
}
