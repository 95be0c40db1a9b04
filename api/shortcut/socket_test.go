package shortcut

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSlowReader: a body far larger than what the kernel takes at once arrives whole, in pieces of every size.
func TestSlowReader(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	body := make([]byte, 24<<20)
	for i := range body {
		body[i] = byte(i * i >> 7)
	}
	var cuts []int
	for left := len(body); left > 0; {
		n := min(left, 1+random.IntN(1<<(1+random.IntN(22))))
		cuts = append(cuts, n)
		left -= n
	}
	_, addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rest := body
		for _, n := range cuts {
			if _, err := w.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	}), nil)
	c := dial(t, addr)
	c.SetReadBuffer(64 << 10)
	for range 2 {
		if _, err := io.WriteString(c, "GET /take HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%d bytes of %d, %v; or different ones", len(got), len(body), err)
		}
	}
}

// computeEnv has the test binary be a server whose requests compute.
const computeEnv = "SHORTCUT_TEST_COMPUTE"

// TestMain makes that server in a process of its own: the clients' system calls must not be the server's.
func TestMain(m *testing.M) {
	if os.Getenv(computeEnv) == "" {
		os.Exit(m.Run())
	}
	if err := compute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compute serves requests that compute without a pause until one for /take/end comes. It prints its address.
func compute() error {
	var end atomic.Bool
	s, err := New(Options{Paths: []string{"/take"}, HTTP: &http.Server{
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/take/end" {
				end.Store(true)
			}
			for !end.Load() {
			}
		}),
	}})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// TestComputingRequests: requests that compute without a pause on all processors of a server that was idle before do not
// keep another one from being answered.
func TestComputingRequests(t *testing.T) {
	const processors = 2
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), computeEnv+"=1", "GOMAXPROCS="+strconv.Itoa(processors))
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var conns []*net.TCPConn
	for range processors + 1 {
		conns = append(conns, dial(t, strings.TrimSpace(addr)))
	}
	time.Sleep(2 * lingerTicks * DefaultWatchEvery) // the server has nothing to do, and all of it sleeps
	for i, c := range conns {
		path := "/take/compute"
		if i == processors {
			path = "/take/end"
		}
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range conns {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		res.Body.Close()
	}
}
