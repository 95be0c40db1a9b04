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
// file that drops or changes a rule which already holds, because rows written under it could not be found again.
func loadSchema(ctx context.Context, store storage.Store, file string, now time.Time) (*keyschema.Schema, error) {
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
	empty := len(stored) == 0 && isEmpty(ctx, store)
	if err := checkRulesKept(stored, wanted, keyschema.HourOf(now.UnixMilli()), empty); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	schema, err := keyschema.NewSchema(wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return schema, writeRules(ctx, store, meta, wanted)
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

// checkRulesKept compares the wanted rules with the stored ones: what holds at hour must stay, what is new must begin
// later, unless the store is empty.
func checkRulesKept(stored, wanted []keyschema.Rule, hour int64, empty bool) error {
	if empty {
		return nil
	}
	var faults []error
	for _, old := range stored {
		if old.FromHour <= hour && !containsRule(wanted, old) {
			faults = append(faults, fmt.Errorf("rule %q from hour %d holds already and must stay as it is", old.Pattern, old.FromHour))
		}
	}
	for _, rule := range wanted {
		if rule.FromHour <= hour && !containsRule(stored, rule) {
			faults = append(faults, fmt.Errorf("new rule %q must begin after hour %d, it begins at %d", rule.Pattern, hour, rule.FromHour))
		}
	}
	return errors.Join(faults...)
}

func containsRule(rules []keyschema.Rule, rule keyschema.Rule) bool {
	want, err := json.Marshal(rule)
	if err != nil {
		return false
	}
	for _, r := range rules {
		if got, err := json.Marshal(r); err == nil && bytes.Equal(got, want) {
			return true
		}
	}
	return false
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

func writeRules(ctx context.Context, store storage.Store, meta storage.Table, rules []keyschema.Rule) error {
	value, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	err = meta.Apply(ctx, []storage.RowMutation{{Key: schemaRowKey, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: schemaQualifier, Value: value,
	}}}})
	if err != nil {
		return err
	}
	return store.Sync(ctx)
}
