package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

// rulesCell is where the rules in force are stored.
func rulesCell() jsoncell.Cell { return jsoncell.Cell{Row: "schema", Qualifier: "rules"} }

// LoadSchema returns the rules in force: those of the file if one is named, else those the store remembers. It refuses a
// file that drops or changes a rule which already holds, because rows written under it could not be found again; latest is
// the last time of which there may be samples.
func LoadSchema(ctx context.Context, store storage.Store, file string, latest time.Time) (*keyschema.Schema, error) {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return nil, err
	}
	current, some, err := StoredSchema(ctx, meta)
	if err != nil || file == "" {
		return current, err
	}
	wanted, err := ReadRulesFile(file)
	if err != nil {
		return nil, err
	}
	next, err := keyschema.NewSchema(wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if some || !isEmpty(ctx, store) {
		if err := current.CheckChange(next, keyschema.HourOf(latest.UnixMilli())); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := WriteRules(ctx, meta, wanted); err != nil {
		return nil, err
	}
	return next, store.Sync(ctx)
}

func ReadRulesFile(file string) ([]keyschema.Rule, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rules, err := parseRules(src)
	if err != nil {
		return nil, fmt.Errorf("%s, %w", file, err)
	}
	return rules, nil
}

// parseRules parses the rules of a file: members that there are not are faults, and so is what follows the list.
func parseRules(src []byte) (rules []keyschema.Rule, err error) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err = d.Decode(&rules); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the list of rules")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	return rules, nil
}

// isEmpty reports whether no row of samples was ever written.
func isEmpty(ctx context.Context, store storage.Store) bool {
	table, err := store.Table(ctx, storage.TableData)
	if err != nil {
		return errors.Is(err, storage.ErrNoTable)
	}
	some, err := storage.HasRow(ctx, table, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.Filter{})
	return err == nil && !some
}

// ReadRules returns the stored rules, none if there are none.
func ReadRules(ctx context.Context, meta storage.Table) ([]keyschema.Rule, error) {
	var rules []keyschema.Rule
	if _, err := rulesCell().Read(ctx, meta, &rules); err != nil {
		return nil, fmt.Errorf("stored schema rules: %w", err)
	}
	return rules, nil
}

// StoredSchema returns the stored rules, ready for use.
func StoredSchema(ctx context.Context, meta storage.Table) (schema *keyschema.Schema, some bool, err error) {
	rules, err := ReadRules(ctx, meta)
	if err != nil {
		return nil, false, err
	}
	if schema, err = keyschema.NewSchema(rules); err != nil {
		return nil, false, fmt.Errorf("stored schema rules: %w", rulesCell().Corrupt(err))
	}
	return schema, len(rules) > 0, nil
}

// WriteRules stores rules; they are durable after the next Sync.
func WriteRules(ctx context.Context, meta storage.Table, rules []keyschema.Rule) error {
	return rulesCell().Write(ctx, meta, rules)
}
