package config

import (
	"errors"
	"fmt"
	"strings"
)

// faultsMax bounds the faults that one error lists.
const faultsMax = 20

// ErrBytes means that a file is longer than BytesMax.
var ErrBytes = fmt.Errorf("the file has more than %d bytes", BytesMax)

// ErrNodes means that a document has more values than NodesMax, aliases included.
var ErrNodes = fmt.Errorf("the document has more than %d values, aliases included", NodesMax)

// Fault is an error at a place in a file.
type Fault struct {
	File string
	// Line and Column count from 1. Column is 0 for a document that is not YAML.
	Line, Column int
	// Field is the path of the field, such as schema_rules[2].salts; it is empty for the document.
	Field string
	Err   error
}

func (f *Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ": ")
	}
	fmt.Fprintf(&b, "line %d", f.Line)
	if f.Column > 0 {
		fmt.Fprintf(&b, ", column %d", f.Column)
	}
	if f.Field != "" {
		b.WriteString(", field " + f.Field)
	}
	return b.String() + ": " + f.Err.Error()
}

// Unwrap returns what is wrong.
func (f *Fault) Unwrap() error { return f.Err }

// joined lists faults in the order of the file, one a line.
func joined(faults []*Fault) error {
	var errs []error
	for i, f := range faults {
		if i == faultsMax {
			errs = append(errs, fmt.Errorf("and %d more", len(faults)-faultsMax))
			break
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}
