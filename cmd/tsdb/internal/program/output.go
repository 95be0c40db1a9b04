package program

import (
	"encoding/json"
	"io"

	"github.com/alecthomas/kingpin/v2"
)

// Output is the flag --output: the form in which a command prints its result.
type Output struct{ form string }

// Forms of a result.
const (
	formText = "text"
	formJSON = "json"
)

// AddFlag declares the flag.
func (o *Output) AddFlag(cmd *kingpin.CmdClause) {
	cmd.Flag("output", "Form of the result: text or json.").Default(formText).EnumVar(&o.form, formText, formJSON)
}

// Print prints a result to w, as JSON or by text.
func (o *Output) Print(w io.Writer, result any, text func(w io.Writer) error) error {
	if o.form != formJSON {
		return text(w)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(result)
}
