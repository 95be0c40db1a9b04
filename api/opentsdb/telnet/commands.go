package telnet

import (
	"strings"

	"halite/api/receiver/opentsdb"
)

// unknownCommand is the label of commands that do not exist.
const unknownCommand = "unknown"

func commandNames() []string {
	return []string{"dropcaches", "exit", "help", "stats", "status", "version"}
}

// command answers a line without a data point. It returns false if the connection ends.
func (c *connection) command(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	var response string
	switch word {
	case "dropcaches": // names are never cached
		response = "Caches dropped.\n"
	case "exit":
	case "help":
		response = "available commands: histogram put rollup " + strings.Join(commandNames(), " ") + " \n"
	case "stats":
		text, err := c.server.opts.Stats()
		if err != nil {
			text = []byte("stats: " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n")
		}
		response = string(text)
	case "status":
		response = "ok\n"
	case "version":
		response = c.server.opts.Version
	default:
		c.server.metrics.commands.WithLabelValues(unknownCommand).Inc()
		c.hold([]byte("unknown command: " + opentsdb.Shown(word) + ".  Try `help'.\n"))
		return true
	}
	c.server.metrics.commands.WithLabelValues(word).Inc()
	c.release()
	return word != "exit" && c.out.sendAll([]byte(response))
}
