package program

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// BuiltName is the name of the program as built from cmd/tsdb. Texts use it.
const BuiltName = "tsdb"

// Name is the name of the program in its first argument. Packages install it as halite.
func Name(called string) string {
	name := strings.TrimSuffix(filepath.Base(called), ".exe")
	if name == "" || name == "." || name == string(filepath.Separator) {
		return BuiltName
	}
	return name
}

// Renamer replaces the built name in texts that tell a user to run a command. It is for short texts such as help, log lines and
// errors.
type Renamer struct {
	name    string
	mention *regexp.Regexp // nil if nothing is to be replaced
}

// NewRenamer returns a Renamer to the name of app. It knows the commands of app.
func NewRenamer(app *kingpin.Application) *Renamer {
	if app.Name == BuiltName {
		return &Renamer{name: app.Name}
	}
	var commands []string
	for _, c := range app.Model().Commands {
		commands = append(commands, regexp.QuoteMeta(c.Name))
	}
	return &Renamer{app.Name, regexp.MustCompile(`\b` + BuiltName + ` (` + strings.Join(commands, "|") + `|--help)\b`)}
}

// Text replaces the built name in a text by the name of the program.
func (r *Renamer) Text(text string) string {
	if r.mention == nil {
		return text
	}
	return r.mention.ReplaceAllString(text, strings.ReplaceAll(r.name, "$", "$$")+" $1")
}

// Writer returns a writer that replaces the name in each write before it goes to w.
func (r *Renamer) Writer(w io.Writer) io.Writer {
	if r.mention == nil {
		return w
	}
	return &renamingWriter{r, w}
}

type renamingWriter struct {
	renamer *Renamer
	to      io.Writer
}

// Write implements io.Writer.
func (w *renamingWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.renamer.Text(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}
