package tools

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"halite/api/auth"
)

// emulatorConfig holds the flags of `tsdb emulator`.
type emulatorConfig struct {
	listenAddress string
	insecure      bool
}

// AddEmulator declares `tsdb emulator`.
func AddEmulator(app *kingpin.Application) Commands {
	cmd := app.Command("emulator", "Run a Bigtable emulator in memory, to try --storage.engine=bigtable on one machine.")
	c := &emulatorConfig{}
	cmd.Flag("listen-address", "HOST:PORT to listen on; port 0 picks a free one.").Default("127.0.0.1:9481").
		StringVar(&c.listenAddress)
	cmd.Flag("insecure", "Serve everybody on an address that other machines can reach.").BoolVar(&c.insecure)
	return Commands{cmd.FullCommand(): func(w io.Writer) error { return emulate(c, w) }}
}

// emulate runs a Bigtable in memory until SIGTERM or SIGINT.
func emulate(c *emulatorConfig, w io.Writer) error {
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	<-ctx.Done()
	return nil
}
