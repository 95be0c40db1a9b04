package retention

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"halite/keyschema"
	"halite/storage"
)

var (
	ledgerRow       = []byte("retention")
	sweptQualifier  = []byte("swept")
	serverQualifier = []byte("ages")
)

// sweptDays is the cell that says how far each rule was swept: of the rules that are listed, by tier and pattern, the first
// day that has not been looked at.
type sweptDays struct {
	Rules []ruleAges                  `json:"rules"`
	Days  map[string]map[string]int64 `json:"days"`
}

// ruleAges are the ages of a pattern as they are stored.
type ruleAges struct {
	Pattern string        `json:"pattern"`
	Raw     keyschema.Age `json:"raw"`
	Hours   keyschema.Age `json:"hours"`
	Days    keyschema.Age `json:"days"`
}

func storedRules(r *keyschema.Retention) []ruleAges {
	var out []ruleAges
	for _, p := range r.Rules() {
		out = append(out, ruleAges{p.Pattern, p.Ages[keyschema.Raw], p.Ages[keyschema.Hours], p.Ages[keyschema.Days]})
	}
	return out
}

// loadSwept reads the cell; it is as good as none if it is damaged or about other rules.
func loadSwept(ctx context.Context, meta storage.Table, r *keyschema.Retention) (sweptDays, error) {
	rules, err := json.Marshal(storedRules(r))
	if err != nil {
		return sweptDays{}, fmt.Errorf("retention ledger: %w", err)
	}
	empty := sweptDays{Rules: storedRules(r), Days: map[string]map[string]int64{}}
	value, err := readCell(ctx, meta, sweptQualifier)
	if err != nil || value == nil {
		return empty, err
	}
	var stored sweptDays
	if json.Unmarshal(value, &stored) != nil || stored.Days == nil {
		return empty, nil
	}
	if former, err := json.Marshal(stored.Rules); err != nil || !bytes.Equal(former, rules) {
		return empty, nil
	}
	return stored, nil
}

func (d *sweptDays) of(t keyschema.Tier, pattern string) int64 {
	return max(0, d.Days[t.String()][pattern])
}

func (d *sweptDays) set(t keyschema.Tier, pattern string, day int64) {
	if d.Days[t.String()] == nil {
		d.Days[t.String()] = map[string]int64{}
	}
	d.Days[t.String()][pattern] = day
}

func (d *sweptDays) save(ctx context.Context, meta storage.Table) error {
	return writeCell(ctx, meta, sweptQualifier, d)
}

// StoreServerAges notes the ages of metrics without a rule, for commands that do not know the server's flags.
func StoreServerAges(ctx context.Context, store storage.Store, ages keyschema.Ages) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	return writeCell(ctx, meta, serverQualifier, ruleAges{"*", ages[keyschema.Raw], ages[keyschema.Hours], ages[keyschema.Days]})
}

// ServerAges returns what StoreServerAges has noted last; found is false if it never has.
func ServerAges(ctx context.Context, store storage.Store) (ages keyschema.Ages, found bool, err error) {
	meta, err := store.Table(ctx, storage.TableMeta)
	if errors.Is(err, storage.ErrNoTable) {
		return ages, false, nil
	}
	if err != nil {
		return ages, false, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	value, err := readCell(ctx, meta, serverQualifier)
	if err != nil || value == nil {
		return ages, false, err
	}
	var stored ruleAges
	if err := json.Unmarshal(value, &stored); err != nil {
		return ages, false, fmt.Errorf("%w: ages of the server: %w; start the server once, which notes them anew",
			storage.ErrCorrupt, err)
	}
	return keyschema.Ages{stored.Raw, stored.Hours, stored.Days}, true, nil
}

// readCell returns a cell of the ledger's row, nil if there is none.
func readCell(ctx context.Context, meta storage.Table, qualifier []byte) (value []byte, err error) {
	it := meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{ledgerRow}}, storage.ReadOptions{})
	for it.Next() {
		for _, c := range it.Row().Cells {
			if bytes.Equal(c.Qualifier, qualifier) {
				value = bytes.Clone(c.Value)
			}
		}
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return nil, fmt.Errorf("read the retention ledger: %w", err)
	}
	return value, nil
}

func writeCell(ctx context.Context, meta storage.Table, qualifier []byte, content any) error {
	value, err := json.Marshal(content)
	if err == nil {
		err = meta.Apply(ctx, []storage.RowMutation{{Key: ledgerRow, Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, Value: value,
		}}}})
	}
	if err != nil {
		return fmt.Errorf("write the retention ledger: %w", err)
	}
	return nil
}
