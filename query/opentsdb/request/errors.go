package request

import "fmt"

// Error is the error of a bad request, in OpenTSDB's words where it has them.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

func bad(format string, args ...any) error { return &Error{text: fmt.Sprintf(format, args...)} }
