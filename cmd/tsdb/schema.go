package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"halite/keyschema"
	"halite/storage"
)

var (
	schemaRowKey    = []byte("schema")
	schemaQualifier = []byte("rules")
)

// loadSchema returns the rules in force: those of the file if one is named, else those the store remembers. It refuses a
// file that drops or changes a rule which already holds, because rows written under it could not be found again; latest is
// the last time of which there may be samples.
func loadSchema(ctx context.Context, store storage.Store, file string, latest time.Time) (*keyschema.Schema, error) {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return nil, err
	}
	stored, err := readRules(ctx, meta)
	if err != nil {
		return nil, fmt.Errorf("stored schema rules: %w", err)
	}
	if file == "" {
		return keyschema.NewSchema(stored)
	}
	wanted, err := readRulesFile(file)
	if err != nil {
		return nil, err
	}
	next, err := keyschema.NewSchema(wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(stored) > 0 || !isEmpty(ctx, store) {
		current, err := keyschema.NewSchema(stored)
		if err != nil {
			return nil, fmt.Errorf("stored schema rules: %w", err)
		}
		if err := current.CheckChange(next, keyschema.HourOf(latest.UnixMilli())); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := writeRules(ctx, meta, wanted); err != nil {
		return nil, err
	}
	return next, store.Sync(ctx)
}

func readRulesFile(file string) ([]keyschema.Rule, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rules []keyschema.Rule
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&rules); err != nil {
		return nil, fmt.Errorf("%s, byte %d: %w", file, d.InputOffset(), err)
	}
	return rules, nil
}

// isEmpty reports whether no row of samples was ever written.
func isEmpty(ctx context.Context, store storage.Store) bool {
	table, err := store.Table(ctx, storage.TableData)
	if err != nil {
		return errors.Is(err, storage.ErrNoTable)
	}
	it := table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{RowsMax: 1})
	some := it.Next()
	return errors.Join(it.Err(), it.Close()) == nil && !some
}

func readRules(ctx context.Context, meta storage.Table) ([]keyschema.Rule, error) {
	it := meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{schemaRowKey}}, storage.ReadOptions{})
	var rules []keyschema.Rule
	var parseErr error
	for it.Next() {
		for _, c := range it.Row().Cells {
			if bytes.Equal(c.Qualifier, schemaQualifier) {
				parseErr = json.Unmarshal(c.Value, &rules)
			}
		}
	}
	return rules, errors.Join(parseErr, it.Err(), it.Close())
}

// writeRules stores rules; they are durable after the next Sync.
func writeRules(ctx context.Context, meta storage.Table, rules []keyschema.Rule) error {
	value, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	return meta.Apply(ctx, []storage.RowMutation{{Key: schemaRowKey, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: schemaQualifier, Value: value,
	}}}})
}
