package storage_test

import (
	"context"
	"fmt"
	"time"

	"halite/storage"
	"halite/storage/storagetest"
)

// A row is written in one atomic mutation and read back by key range. Any engine would do in place of the model.
func Example() {
	ctx := context.Background()
	store := storagetest.NewModel(time.Now)
	defer store.Close()
	table, err := store.EnsureTable(ctx, storage.TableSchema{Name: "users", Families: []storage.Family{
		{Name: "profile"}, {Name: "visits", Kind: storage.SumInt64},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = table.Apply(ctx, []storage.RowMutation{{Key: []byte("user#ann"), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: "profile", Qualifier: []byte("city"), TsMs: 1000, Value: []byte("Oslo")},
		{Kind: storage.SetCell, Family: "profile", Qualifier: []byte("city"), TsMs: 2000, Value: []byte("Turku")},
		{Kind: storage.AddToCell, Family: "visits", Qualifier: []byte("total"), Add: 3},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte("user#"), End: []byte("user$")}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{"profile"}, VersionsMax: 1}})
	defer rows.Close()
	for rows.Next() {
		for _, c := range rows.Row().Cells {
			fmt.Printf("%s %s:%s@%d = %s\n", rows.Row().Key, c.Family, c.Qualifier, c.TsMs, c.Value)
		}
	}
	if err := rows.Err(); err != nil {
		fmt.Println(err)
	}
	// Output: user#ann profile:city@2000 = Turku
}
