package tables

import (
	"context"
	"errors"
	"fmt"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

// rulesCell is where the rules in force are stored.
func rulesCell() jsoncell.Cell { return jsoncell.Cell{Row: "schema", Qualifier: "rules"} }

// LoadSchema returns the rules with which a server starts. Without wanted rules it returns the stored rules. A store without
// rules and samples gets all wanted rules. Any other store gets their retention and limits now. A [SchemaChange] applies the rest
// later, when the samples of future hours are known. LoadSchema refuses rules that the change would refuse for nowHour, the last
// hour that may have samples.
func LoadSchema(ctx context.Context, store storage.Store, wanted []keyschema.Rule, nowHour int64) (*keyschema.Schema, error) {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return nil, err
	}
	current, some, err := StoredSchema(ctx, meta)
	if err != nil || wanted == nil {
		return current, err
	}
	rules := current.Begin(wanted, -1)
	if some || !isEmpty(ctx, store) {
		if _, _, err := nextSchema(current, wanted, nowHour); err != nil {
			return nil, err
		}
		rules = append(current.Layout(), keyschema.Limits(wanted)...)
	}
	next, err := keyschema.NewSchema(rules)
	if err != nil {
		return nil, err
	}
	if err := WriteRules(ctx, meta, rules); err != nil {
		return nil, err
	}
	return next, store.Sync(ctx)
}

// nextSchema returns the wanted rules with their hours, and their schema. The schema may replace current.
func nextSchema(
	current *keyschema.Schema, wanted []keyschema.Rule, nowHour int64,
) (*keyschema.Schema, []keyschema.Rule, error) {
	rules := current.Begin(wanted, nowHour)
	next, err := keyschema.NewSchema(rules)
	if err != nil {
		return nil, nil, err
	}
	return next, rules, current.CheckChange(next, nowHour)
}

// SchemaChange applies rules while a server runs.
type SchemaChange struct {
	Store  storage.Store
	Schema *keyschema.Schema // in force
	// Stray returns the metrics that have samples from a time on.
	Stray func(ctx context.Context, fromMs int64) ([]string, error)
}

// Apply stores the wanted rules and applies them. nowHour is the last hour that may have samples. A refused rule
// changes nothing.
func (c *SchemaChange) Apply(ctx context.Context, wanted []keyschema.Rule, nowHour int64) error {
	next, rules, err := nextSchema(c.Schema, wanted, nowHour)
	if err != nil {
		return err
	}
	if !c.Schema.SameLayout(next) {
		if early, err := c.Stray(ctx, keyschema.HourStartMs(nowHour+1)); err != nil {
			return fmt.Errorf("look for samples of coming hours: %w", err)
		} else if len(early) > 0 {
			return fmt.Errorf("metric %q already has samples after hour %d, from a time when --ingest.max-ahead was longer; "+
				"try again when that hour has passed", early[0], nowHour)
		}
	}
	meta, err := c.Store.Table(ctx, storage.TableMeta)
	if err != nil {
		return err
	}
	// Store the rules first. After a restart without the rules, the server could not find rows keyed by them.
	if err := WriteRules(ctx, meta, rules); err != nil {
		return fmt.Errorf("cannot store the rules; they stay as they were: %w", err)
	}
	if err := c.Schema.Replace(next, nowHour); err != nil {
		return err
	}
	// Until this sync succeeds, no flush succeeds. So a replay of the log restores all rows of the new rules.
	if err := c.Store.Sync(ctx); err != nil {
		return fmt.Errorf("the rules are in force, but not durable yet; reload again: %w", err)
	}
	return nil
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
