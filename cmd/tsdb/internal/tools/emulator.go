package tools

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/alecthomas/kingpin/v2"

	"halite/api/auth"
	"halite/cmd/tsdb/internal/program"
)

// emulatorConfig holds the flags of `tsdb emulator`.
type emulatorConfig struct {
	listenAddress string
	insecure      bool
}

// AddEmulator declares `tsdb emulator`.
func AddEmulator(app *kingpin.Application) program.Commands {
	cmd := app.Command("emulator", "Run a Bigtable emulator in memory, to try --storage.engine=bigtable on one machine.")
	c := &emulatorConfig{}
	cmd.Flag("listen-address", "HOST:PORT to listen on; port 0 picks a free one.").Default("127.0.0.1:9481").
		StringVar(&c.listenAddress)
	cmd.Flag("insecure", "Serve everybody on an address that other machines can reach.").BoolVar(&c.insecure)
	return program.Commands{cmd.FullCommand(): func(ctx context.Context, w io.Writer) error { return emulate(ctx, c, w) }}
}

// emulate runs a Bigtable in memory until ctx ends.
func emulate(ctx context.Context, c *emulatorConfig, w io.Writer) error {
	address, stopEmulator, err := startEmulator(c.listenAddress)
	if err != nil {
		return err
	}
	defer stopEmulator()
	if addr, err := net.ResolveTCPAddr("tcp", address); !c.insecure && (err != nil || !auth.Loopback(addr)) {
		return fmt.Errorf("--listen-address: %s: %w; set --insecure to serve everybody", address, auth.ErrExposed)
	}
	fmt.Fprintf(w, "Bigtable emulator on %s. Its data is gone when it stops. In another terminal:\n\n"+
		"  export BIGTABLE_EMULATOR_HOST=%s\n"+
		"  tsdb serve --storage.engine=bigtable --bigtable.project=my-project --bigtable.instance=my-instance\n",
		address, address)
	<-ctx.Done()
	return nil
}
