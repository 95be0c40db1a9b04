package main_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// emulators holds the address of the emulator of each test that has one, by the name of the test. An environment variable of
// this process would keep the tests from running in parallel.
var emulators sync.Map

// useEmulator makes the commands of a test and of its subtests use the emulator at addr.
func useEmulator(t testing.TB, addr string) {
	name := t.Name()
	emulators.Store(name, addr)
	t.Cleanup(func() { emulators.Delete(name) })
}

// emulatorOf returns the variable that names the emulator of a test, or of the test around it.
func emulatorOf(t testing.TB) (variable string, found bool) {
	for name := t.Name(); ; {
		if addr, found := emulators.Load(name); found {
			return fmt.Sprint("BIGTABLE_EMULATOR_HOST=", addr), true
		}
		slash := strings.LastIndexByte(name, '/')
		if slash < 0 {
			return "", false
		}
		name = name[:slash]
	}
}

// command is the binary with these arguments.
func command(t testing.TB, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	if variable, found := emulatorOf(t); found {
		cmd.Env = append(os.Environ(), variable)
	}
	return cmd
}

// tsdb runs a command that ends by itself.
func tsdb(t testing.TB, args ...string) (string, error) {
	out, err := command(t, args...).CombinedOutput()
	return string(out), err
}

// tsdbOutput is tsdb without what the command prints about errors.
func tsdbOutput(t testing.TB, args ...string) ([]byte, error) { return command(t, args...).Output() }

// These ports lie below the ranges that Linux gives to clients and to listeners without a fixed port.
const firstPort, ports = 15_000, 17_000

var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(ports)) }

// freeAddress returns an address that no other test gets and that no client's connection takes before the server starts.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+lastPort.Add(1)%ports)
		if l, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
	require.Fail(t, "no free port")
	return ""
}
