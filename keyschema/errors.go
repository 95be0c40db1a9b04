package keyschema

import "errors"

// Errors for bytes and rules that do not follow the formats; all are wrapped with the place and the reason.
var (
	// ErrBadKey: not a row key of this schema. The row was not written by this program, or is damaged.
	ErrBadKey = errors.New("bad row key")
	// ErrBadEscape: not a text that AppendEscaped makes.
	ErrBadEscape = errors.New("bad escaped text")
	// ErrBadQualifier: not a column qualifier of the samples family.
	ErrBadQualifier = errors.New("bad qualifier")
	// ErrBadAge: a text is not how long something is kept.
	ErrBadAge = errors.New("bad age")
	// ErrBadRules: a schema rule is not usable; the operator has to change it.
	ErrBadRules = errors.New("bad schema rules")
)
