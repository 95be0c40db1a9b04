package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"halite/storage"
)

// Holder is the last holder of a lease.
type Holder struct {
	Name, Holder string
	// EndMs is the end of the lease in milliseconds since 1970.
	EndMs int64
}

// Holders returns the last holders of all leases whose names begin with a prefix, which is not empty, by name.
func Holders(ctx context.Context, meta storage.Table, prefix string) (out []Holder, err error) {
	start := []byte(rowPrefix + prefix)
	end := append([]byte(nil), start...)
	end[len(end)-1]++
	rows := meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: start, End: end}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rows.Row()
		for _, cell := range row.Cells {
			if len(cell.Qualifier) > 1 && cell.Qualifier[0] == holderPrefix {
				out = append(out, Holder{strings.TrimPrefix(string(row.Key), rowPrefix), string(cell.Qualifier[1:]), cell.TsMs})
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the holders of leases %s…: %w", prefix, err)
	}
	return out, nil
}

// Remove removes the row of a lease that has ended before a time.
func Remove(ctx context.Context, meta storage.Table, name string, beforeMs int64) error {
	live := storage.Filter{Families: []string{storage.FamilyMeta}, FromMs: beforeMs}
	remove := storage.RowMutation{Entries: []storage.Entry{{Kind: storage.DeleteFamily, Family: storage.FamilyMeta}}}
	_, err := meta.CheckAndApply(ctx, []byte(rowPrefix+name), live, storage.RowMutation{}, remove)
	if err != nil {
		return fmt.Errorf("remove lease %s: %w", name, err)
	}
	return nil
}
