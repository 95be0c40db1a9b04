package tools

import (
	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/program"
)

// Add declares the sub-commands on cmd. It returns the function of each.
func Add(cmd *kingpin.CmdClause) program.Commands {
	commands := program.Commands{}
	add := func(name, help string, run program.Command) *kingpin.CmdClause {
		sub := cmd.Command(name, help)
		commands[sub.FullCommand()] = run
		return sub
	}
	addScan(add)
	addQuery(add)
	addSearch(add)
	addTranslate(add)
	return commands
}

// adder declares a sub-command.
type adder func(name, help string, run program.Command) *kingpin.CmdClause

// addServer declares the flags of the server to read from.
func addServer(cmd *kingpin.CmdClause, s *client.Server) {
	s.AddFlags(cmd, "Server to read from.", client.DefaultURL)
}

// argumentsHelp describes the arguments of scan and query.
const argumentsHelp = "START [END] AGGREGATOR [rate [counter,MAX,RESET]] [downsample N FUNCTION] METRIC [TAG=VALUE...], and " +
	"optionally more queries, each from AGGREGATOR on. Times are 1h-ago, 2020/01/31, 2020/01/31-23:59:00 in the time zone of this " +
	"machine, or seconds since 1970. N is in milliseconds, or has a unit, as in 5m."
