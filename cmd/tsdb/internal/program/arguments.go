package program

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// Parse parses the arguments and returns the full name of the sub-command. An error about a value names its flag and gives an
// example.
func Parse(app *kingpin.Application, args []string) (command string, err error) {
	command, err = app.Parse(args)
	if err == nil {
		return command, nil
	}
	if named := nameFlag(app, args); named != nil {
		err = named
	}
	return "", fmt.Errorf("%w (%s --help lists the commands and flags)", err, app.Name)
}

// nameFlag returns an error about the first flag that refuses its value, nil if there is none.
func nameFlag(app *kingpin.Application, args []string) error {
	parsed, err := app.ParseContext(args)
	if err != nil {
		return nil
	}
	for _, element := range parsed.Elements {
		flag, ok := element.Clause.(*kingpin.FlagClause)
		if !ok || element.Value == nil {
			continue
		}
		m := flag.Model()
		if err := m.Value.Set(*element.Value); err != nil {
			return fmt.Errorf("--%s=%s: %w%s", m.Name, *element.Value, err, example(m))
		}
	}
	return nil
}

// example shows the flag's default if it has one.
func example(m *kingpin.FlagModel) string {
	if len(m.Default) == 0 || m.Default[0] == "" {
		return ""
	}
	return fmt.Sprintf("; an example is --%s=%s", m.Name, strings.Join(m.Default, ","))
}
