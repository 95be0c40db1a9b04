package request

import "fmt"

// Error describes a bad request. It has OpenTSDB's text if OpenTSDB has one.
type Error struct {
	text string
	// Details says more; it may be "".
	Details string
}

func (e *Error) Error() string {
	if e.Details == "" {
		return e.text
	}
	return e.text + ": " + e.Details
}

// Message is the error without its details.
func (e *Error) Message() string { return e.text }

func bad(format string, args ...any) error { return &Error{text: fmt.Sprintf(format, args...)} }

// noContent is the error of a request without a body.
func noContent() error {
	return &Error{text: "Missing message content", Details: "Supply valid JSON formatted data in the body of your request"}
}

// malformed is the error of a body that is not the JSON of a query.
func malformed(err error) error {
	return &Error{text: "Unable to parse the given JSON", Details: err.Error()}
}
