package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

// Guard makes sure that a server in mode direct writes only to tables that servers still share, and by the rules in force.
type Guard struct {
	Meta   storage.Table
	Schema *keyschema.Schema
	Ahead  time.Duration // how far samples may lie in the future
	Now    func() time.Time
	rules  []byte // as last read
}

// Check reads the owner and the rules from the tables. If another server has stored new rules, Check applies them; they
// begin in a future hour.
func (g *Guard) Check(ctx context.Context) error {
	owner, err := ReadOwner(ctx, g.Meta)
	if err != nil {
		return err
	}
	if err := owner.checkShared(); err != nil {
		return err
	}
	stored, err := ReadRules(ctx, g.Meta)
	if err != nil {
		return err
	}
	text, err := json.Marshal(stored)
	if err != nil || len(stored) == 0 || bytes.Equal(text, g.rules) {
		return err
	}
	next, err := keyschema.NewSchema(stored)
	if err != nil {
		err = rulesCell().Corrupt(err)
	} else {
		err = g.Schema.Replace(next, keyschema.HourOf(g.Now().Add(g.Ahead).UnixMilli()))
	}
	if err != nil {
		return fmt.Errorf("schema rules of another server: restart this one: %w", err)
	}
	g.rules = text
	return nil
}

// RollupLease names the lease of the server that computes rollups.
const RollupLease = "rollups"
