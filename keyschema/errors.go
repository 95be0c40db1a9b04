package keyschema

import "errors"

// Errors for bytes and rules that do not follow the formats. Callers wrap them with the place and the reason.
var (
	// ErrBadKey means that bytes are not a row key of this schema: another program wrote the row, or it is damaged.
	ErrBadKey = errors.New("bad row key")
	// ErrBadEscape means that a text is not the result of AppendEscaped.
	ErrBadEscape = errors.New("bad escaped text")
	// ErrBadQualifier means that bytes are not a column qualifier of the samples family.
	ErrBadQualifier = errors.New("bad qualifier")
	// ErrBadAge means that a text is not a retention time.
	ErrBadAge = errors.New("bad age")
	// ErrBadRules means that a schema rule is invalid; the operator must change it.
	ErrBadRules = errors.New("bad schema rules")
)
