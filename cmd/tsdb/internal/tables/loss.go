package tables

import (
	"errors"
	"fmt"
	"slices"

	"halite/storage"
	"halite/storage/pebble/fault"
)

// AcceptTableLossFlag is the flag that accepts the loss of tables or of parts of them.
const AcceptTableLossFlag = "storage.accept-table-loss"

// AcceptAll is the value of AcceptTableLossFlag that accepts every loss of tables.
const AcceptAll = "all"

// NormalArgs adds the default value to an AcceptTableLossFlag without a value, because kingpin has no flags with an optional
// value.
func NormalArgs(args []string) []string {
	normal := make([]string, 0, len(args))
	for _, arg := range args {
		if arg == "--"+AcceptTableLossFlag {
			arg += "=" + AcceptAll
		}
		normal = append(normal, arg)
	}
	return normal
}

// AcceptsLoss returns which table files may be left out, nil if none may.
func (c *Identity) AcceptsLoss() func(file string) bool {
	if len(c.AcceptTableLoss) == 0 {
		return nil
	}
	return func(file string) bool {
		return slices.Contains(c.AcceptTableLoss, file) || slices.Contains(c.AcceptTableLoss, AcceptAll)
	}
}

// AdviseOnDamage adds to an error about damaged tables how to start the server nevertheless.
func AdviseOnDamage(err error) error {
	if !errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w\ntsdb verify lists all damage; --%s=FILE starts without a damaged table file and says what is lost",
		err, AcceptTableLossFlag)
}

// LostFrom reports whether rows of one of the tables are among the losses.
func LostFrom(lost []fault.Damage, tables ...string) bool {
	return slices.ContainsFunc(lost, func(d fault.Damage) bool { return slices.Contains(tables, d.Table) })
}
